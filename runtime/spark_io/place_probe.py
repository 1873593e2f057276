"""Checks at ``start()``, by one small Spark job, that the workers and Spark see a location as the driver does.

Everything is written by tasks, so a folder that only the driver can reach would end the query after its first rows, or
worse, take them to another machine's disk.  A file passes from the driver to a task and back, through pyarrow, and the
driver looks for it through Hadoop, since Spark's own log and staged rows go that way.

Invariant: nothing is left behind, except empty folders on filesystems that make them by themselves.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import uuid
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from ...errors import OptionError
from ..catalyst.types.arrow_functions import mapped_in_arrow
from ..jvm.worker.worker_setup import worker_setup_error
from ..storage.exclusive import decides
from ..storage.filesystem import appears_whole, delete_quietly, is_local, list_files, read_bytes, resolve
from ..storage.spark_paths import HadoopPlace, missing_client, spark_uri

logger = logging.getLogger(__name__)

_ALLOWED = "allowed: a folder on a filesystem that the driver and all executors reach under this name"


def probe_places(spark: SparkSession, places: Mapping[str, str]) -> None:
    """Try locations from a worker.  Local folders of a local master are not tried: there is but one machine and user.

    Args:
        spark: the session.
        places: folders by the names of their options; the driver can write to each.

    Raises:
        OptionError: a worker cannot write to or read from one of them, or Spark finds another place under its name.
        SetupError: workers have no Python, or not what tasks need.
    """
    master = str(spark.sparkContext.master)
    is_one_machine = master.startswith("local") and not master.startswith("local-cluster")
    tried = {option: place for option, place in places.items() if not (is_one_machine and is_local(place))}
    if not tried:
        return
    probes = {option: _Probe(option, place) for option, place in tried.items()}
    try:
        for probe in probes.values():
            probe.ask(spark)
        answers = _from_a_worker(spark, {option: (one.filesystem, one.path) for option, one in probes.items()})
        for option, (host, trouble) in answers.items():
            probes[option].judge(host, trouble)
    finally:
        for probe in probes.values():
            probe.clean()


class _Probe:
    """One location, and the file that passes through it."""

    def __init__(self, option: str, location: str) -> None:
        self._option, self._location = option, location
        self.filesystem, folder = resolve(location)
        self._made = _missing(self.filesystem, folder)
        self.path = f"{folder}/.mixedmode-probe-{uuid.uuid4().hex}"

    def ask(self, spark: SparkSession) -> None:
        """Write the question, and have Hadoop look for it."""
        try:
            self.filesystem.create_dir(str(PurePosixPath(self.path).parent), recursive=True)
            with self.filesystem.open_output_stream(self.path) as stream:
                stream.write(b"driver")
            if not decides(self.filesystem, self.path, b"driver"):
                logger.warning(
                    "%s = %r is on a store that ignores conditional writes (If-None-Match): two drivers that start"
                    " there in the same instant are told apart only by listing files",
                    self._option,
                    self._location,
                )
        except OSError as error:
            raise self._error(f"cannot be written to: {error}") from error
        seen_by_spark = spark_uri(spark, self._location, self.path)
        try:
            exists = HadoopPlace(spark, seen_by_spark).exists()
        except Exception as error:
            said = str(getattr(error, "java_exception", error)).splitlines()[0]
            raise self._error(
                f"cannot be reached by Spark, which needs it for its own log and for staged rows, as {seen_by_spark}:"
                f" {said}{missing_client(spark, said)}"
            ) from error
        if not exists:
            raise self._error(
                f"is another place for Spark than for pyarrow: what was written to {self.path} is not at"
                f" {seen_by_spark}; give both the same endpoint and credentials"
            )

    def judge(self, host: str, trouble: str) -> None:
        """Raise if the worker could not do its part, or did it elsewhere."""
        if trouble:
            raise self._error(f"cannot be used by a worker on {host}: {trouble}")
        try:
            answer = read_bytes(self.filesystem, f"{self.path}-answer")
        except OSError as error:
            raise self._error(f"is not the same place on {host}, where a worker wrote to it: {error}") from error
        if answer != b"worker":
            raise self._error(f"is not the same place on {host}, where a worker wrote to it")

    def clean(self) -> None:
        """Remove the files, and the folders that had to be made for them."""
        with contextlib.suppress(OSError):
            delete_quietly(self.filesystem, self.path)
            delete_quietly(self.filesystem, f"{self.path}-answer")
            for folder in self._made:
                if list_files(self.filesystem, folder):
                    break  # somebody else has begun to use it
                delete_quietly(self.filesystem, folder)

    def _error(self, what: str) -> OptionError:
        return OptionError(
            f"{self._option} = {self._location!r} {what}; {_ALLOWED}", code="MIXEDMODE_LOCATION_UNUSABLE"
        )


def _missing(filesystem: fs.FileSystem, folder: str) -> list[str]:
    """The folders that must be made for ``folder``, innermost first; none where folders are nothing."""
    missing: list[str] = []
    if appears_whole(filesystem):
        return missing
    for candidate in (PurePosixPath(folder), *PurePosixPath(folder).parents):
        if filesystem.get_file_info(str(candidate)).type != fs.FileType.NotFound:
            break
        missing.append(str(candidate))
    return missing


def _from_a_worker(spark: SparkSession, places: Mapping[str, tuple[fs.FileSystem, str]]) -> dict[str, tuple[str, str]]:
    """What a task on some executor says of each place: its host, and what is wrong ("" if nothing is)."""

    def try_them(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        found = {option: _answer(filesystem, path) for option, (filesystem, path) in places.items()}
        host = socket.gethostname()
        columns = [list(found), [host] * len(found), list(found.values())]
        names = ["option", "host", "trouble"]
        yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], names)

    context = spark.sparkContext
    context.setJobDescription("mixedmode: trying the job's folders from a worker")
    try:
        rows = mapped_in_arrow(
            spark.range(0, 1, 1, 1), try_them, "option string, host string, trouble string"
        ).collect()
    except Exception as error:
        found = worker_setup_error(error, context.pythonExec)
        if found is None:
            raise
        raise found from error
    finally:
        context.setJobDescription(None)  # type: ignore[arg-type]
    return {row["option"]: (row["host"], row["trouble"]) for row in rows}


def _answer(filesystem: fs.FileSystem, path: str) -> str:
    """Read the driver's file and write one beside it; "" if that worked.  A retried task writes the same again."""
    try:
        if read_bytes(filesystem, path) != b"driver":
            return f"{path} is not as the driver wrote it"
        with filesystem.open_output_stream(f"{path}-answer") as stream:
            stream.write(b"worker")
    except FileNotFoundError:
        return f"it does not see {path}, which the driver wrote"
    except OSError as error:
        return str(error)
    return ""
