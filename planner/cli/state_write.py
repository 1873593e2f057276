"""``mixedmode state write``: :func:`mixedmode.state_writer` for files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import OptionError
from ...runtime.checkpoints.savepoints.store import open_savepoint
from ...runtime.offline.state_writer import StateWriter
from .console import misused
from .inspect import local_session
from .job_file import planned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".orc": "orc"}


@dataclass(frozen=True)
class StateWriteRequest:
    """What the command line asks for; files by their names."""

    operator: str | None
    overwrite: Iterable[str]
    merge: Iterable[str]
    timers: str | None
    remove_keys: str | None
    remove_state: Iterable[str]
    remove_operator: Iterable[str]
    event_time: str | None
    run_history: bool
    keep_history: bool


def write_state(path: str, job: Path | None, savepoint: str | None, wanted: StateWriteRequest) -> str:
    """Write a savepoint; returns its path.

    Args:
        path: where to.
        job: the program of the job; None: any that the savepoint is for.
        savepoint: the savepoint to change; None: a new one.
        wanted: what it is to hold.

    Raises:
        MixedModeError: as of the writer's methods.
    """
    if job is None and savepoint is None:
        raise misused("give --job, for a new savepoint, or --savepoint, to change one, or both")
    spec = None if job is None else planned(job, []).job
    spark = local_session() if spec is None else spec.spark
    writer = StateWriter(spec, None if savepoint is None else open_savepoint(savepoint), spark)
    for uid in wanted.remove_operator:
        writer.remove_operator(uid)
    if wanted.run_history:
        writer.run_history()
    if wanted.keep_history:
        writer.keep_history()
    if wanted.event_time is not None:
        writer.event_time(_moment(wanted.event_time))
    for name, file in _named("--set", wanted.overwrite):
        writer.state(name, _frame(spark, file), wanted.operator)
    for name, file in _named("--merge", wanted.merge):
        writer.state(name, _frame(spark, file), wanted.operator, "merge")
    if wanted.timers is not None:
        writer.timers(_frame(spark, wanted.timers), wanted.operator)
    if wanted.remove_keys is not None:
        writer.remove_keys(_frame(spark, wanted.remove_keys), wanted.operator)
    for name in wanted.remove_state:
        writer.remove_state(name, wanted.operator)
    return writer.write(path)


def _named(option: str, given: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in given:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise misused(f"{option} {text!r} is not NAME=FILE")
        yield name, file


def _frame(spark: SparkSession, file: str) -> DataFrame:
    """A file as a frame; raises OptionError if Spark cannot read it."""
    kind = _ENDINGS.get(Path(file).suffix.lower(), "parquet")
    options = {"header": "true", "inferSchema": "true"} if kind == "csv" else {}
    try:
        return spark.read.format(kind).options(**options).load(file)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise OptionError(f"{file!r} cannot be read as {kind}: {first}") from error


def _moment(text: str) -> datetime | int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise misused(f"--event-time {text!r} is neither ISO 8601 nor milliseconds") from None
