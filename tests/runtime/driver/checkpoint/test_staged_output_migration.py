"""Output that an earlier run has staged becomes what today's sink takes; without Spark, its tasks run here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.errors import CheckpointError, CheckpointMismatchError, CorruptStateError
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.partition_paths import PartitionPaths
from mixedmode.runtime.connectors.sink_calls import SinkCall
from mixedmode.runtime.connectors.sinks import SinkSpec, make_sink
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.connectors.staging_folder import StagingFolder
from mixedmode.runtime.connectors.transaction import SinkTransaction
from mixedmode.runtime.driver.checkpoint import staged_output_migration
from mixedmode.runtime.driver.checkpoint.staged_output_migration import RestageTask, check_showable, pending_transaction
from mixedmode.runtime.spec import JobSpec
from pyarrow import fs
from pyspark.sql.types import LongType, StructField, StructType

LOCAL = fs.LocalFileSystem()
ROWS = [[1, 10], [2, 20], [1, 30]]


class Stage:
    """A job's operator and sink, over the folders of a test."""

    spark = None
    staged_form = JobSpec.staged_form

    def __init__(
        self, folder: Path, names: Sequence[str], format: str = "foreachBatch", out: str = "out", by: Any = ()
    ):
        self.schema = StructType([StructField(name, LongType()) for name in names])
        identities = tuple((f"what {name[0]} computes", name[0]) for name in names)
        self.operator = SimpleNamespace(output_schema=self.schema, output_identities=identities)
        self.output_schema, self.output_transform = self.schema, None
        function = (lambda rows, number: None) if format == "foreachBatch" else None
        path = str(folder / out) if format == "parquet" else None
        self.sink: Any = make_sink(SinkSpec(self.schema, format, path, foreach_batch=function, partition_by=by))
        if by:
            places = tuple(names.index(name) for name in by)
            self.sink._partitions = PartitionPaths(places, tuple(by), (LongType(),) * len(by), "UTC")
        (folder / "checkpoints").mkdir(exist_ok=True)
        self.store = CheckpointStore(LOCAL, str(folder / "checkpoints"))
        self.sink.open(None, StagingFolder(LOCAL, self.store.output), "job")

    def staged(self, *, recorded: bool = True) -> CheckpointMetadata:
        """A checkpoint with a file of each of two epochs."""
        files: list[StagedFile] = []
        for epoch, rows in ((1, ROWS[:2]), (2, ROWS[2:])):
            output = self.sink.output.open(f"e{epoch:08d}-s{epoch:04d}-x", self.schema)
            columns = [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]
            output.write(pa.RecordBatch.from_arrays(columns, names=self.schema.names))
            files += output.finish()
        form = self.staged_form if recorded else None
        described = tuple(files)
        transaction = SinkTransaction(id=3, files=described, form=form)
        metadata = CheckpointMetadata(
            checkpoint_id=3,
            job_id="job",
            timestamp_ms=0,
            epoch=2,
            watermark_ms=0,
            sources={},
            operators=(),
            transaction=transaction,
        )
        self.store.write(metadata)
        return metadata

    def pending(self, metadata: CheckpointMetadata) -> SinkTransaction:
        return pending_transaction(self, self.store, metadata)  # type: ignore[arg-type]

    def rows(self, transaction: SinkTransaction) -> list[dict[str, int]]:
        """What is staged, file by file, as a reader of the output would see it."""
        found = []
        for file in sorted(transaction.files, key=lambda file: file.name):
            table = pq.ParquetFile(f"{self.sink.staging.path}/{file.name}").read()
            constants = {k: int(v) for k, v in (part.split("=") for part in file.folder.split("/") if part)}
            found += [{**row, **constants} for row in table.to_pylist()]
        return found


@pytest.fixture(autouse=True)
def tasks_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(task: RestageTask, count: int) -> list[str]:
        made = [task.made(source, task.name(place, 7)) for place, source in enumerate(task.names)]
        return [json.dumps([asdict(file) for file in files]) for files in made]

    monkeypatch.setattr(staged_output_migration, "_run", lambda spark, task, count: run(task, count))


def test_what_fits_is_left_alone(tmp_path: Path) -> None:
    """Also what an older version has staged, which did not record its form."""
    for recorded in (True, False):
        folder = tmp_path / str(recorded)
        folder.mkdir()
        stage = Stage(folder, ["k", "n"])
        metadata = stage.staged(recorded=recorded)
        assert stage.pending(metadata) == metadata.transaction
        assert stage.store.restaged(3) is None


def test_other_names_and_places(tmp_path: Path) -> None:
    """Rows keep their order, their epochs and their shards, the transaction what tells it from others; what was made is
    named, and used again; nothing else is left."""
    metadata = Stage(tmp_path, ["k", "n"]).staged()
    today = Stage(tmp_path, ["number", "key"])
    made = today.pending(metadata)
    assert today.rows(made) == [{"number": n, "key": k} for k, n in ROWS]
    assert [file.name[:16] for file in made.files] == ["e00000001-s0001-", "e00000002-s0002-"]
    assert made.unique == metadata.transaction.unique
    assert today.store.restaged(3) == made
    assert sorted(path.name for path in Path(today.store.output).iterdir()) == sorted(file.name for file in made.files)
    assert today.pending(metadata) == made
    # And once more under other names.
    again = Stage(tmp_path, ["nn", "kk"])
    assert again.rows(again.pending(metadata)) == [{"nn": n, "kk": k} for k, n in ROWS]


def test_an_older_versions_files_say_their_columns_themselves(tmp_path: Path) -> None:
    """Renamed in their places they are shown under today's names, otherwise refused."""
    metadata = Stage(tmp_path, ["k", "n"]).staged(recorded=False)
    with pytest.raises(CheckpointMismatchError, match="its columns are k long, n long: this job's column x"):
        Stage(tmp_path, ["n", "x"]).pending(metadata)
    today = Stage(tmp_path, ["k", "x"])
    assert today.rows(today.pending(metadata)) == [{"k": k, "x": n} for k, n in ROWS]


@pytest.mark.parametrize("before", [("k",), ()])
def test_another_sink(tmp_path: Path, before: tuple[str, ...]) -> None:
    """From files, laid out or not, to foreachBatch and to files laid out by another column; what was shown stays."""
    first = Stage(tmp_path, ["k", "n"], "parquet", by=before)
    metadata = first.staged()
    shown = metadata.transaction.files[0]
    first.sink.commit(SinkTransaction(id=3, files=(shown,)))
    staging = Path(first.sink.staging.path)
    second = Stage(tmp_path, ["key", "n"])
    made = second.pending(metadata)
    assert not staging.exists()
    third = Stage(tmp_path, ["k", "number"], "parquet", out="other", by=("number",))
    last = third.pending(metadata)
    assert last.form != made.form
    rows = [[row["k"], row["number"]] for row in third.rows(last)]
    visible = pq.ParquetFile(tmp_path / "out" / shown.shown_as(3)).read().column("n").to_pylist()
    assert sorted([n for _, n in rows] + visible) == [10, 20, 30]
    assert all([k, n] in ROWS for k, n in rows)
    assert {file.folder for file in last.files} == {f"number={n}" for _, n in rows}


def test_what_a_folder_shows_in_part_is_completed_as_it_was(tmp_path: Path) -> None:
    """Files of one transaction with two names for a column would be read as one with nulls."""
    stage = Stage(tmp_path, ["k", "n"], "parquet")
    metadata = stage.staged()
    stage.sink.commit(SinkTransaction(id=3, files=metadata.transaction.files[:1]))
    today = Stage(tmp_path, ["k", "number"], "parquet")
    assert today.pending(metadata) == metadata.transaction
    today.sink.commit(metadata.transaction)
    names = {name for path in (tmp_path / "out").glob("*.parquet") for name in pq.read_schema(path).names}
    assert names == {"k", "n"}


def test_what_was_delivered_is_not_shown_again(tmp_path: Path) -> None:
    """A function had returned, and the process was killed before the checkpoint knew it."""
    stage = Stage(tmp_path, ["k", "n"])
    metadata = stage.staged()
    (Path(stage.store.output) / "delivered-00000003").touch()
    assert Stage(tmp_path, ["k", "number"]).pending(metadata).files == ()


def test_what_a_call_has_been_given_is_not_given_again(tmp_path: Path) -> None:
    """The first of two calls had returned; the second gets its rows in today's form, under its id."""
    stage = Stage(tmp_path, ["k", "n"])
    metadata = stage.staged()
    calls = (SinkCall(id=7, epochs=(1,)), SinkCall(id=8, epochs=(2,)))
    called = metadata.model_copy(update={"transaction": metadata.transaction.model_copy(update={"calls": calls})})
    (Path(stage.store.output) / "delivered-00000003-call-00000007").touch()
    today = Stage(tmp_path, ["k", "number"])
    made = today.pending(called)
    assert today.rows(made) == [{"k": k, "number": n} for k, n in ROWS[2:]]
    assert [call.files_of(made.files) for call in made.all_calls] == [(), made.files]
    assert today.pending(called) == made, "also when it is asked again"


def test_columns_that_were_not_staged_are_refused_before_anything_runs(tmp_path: Path) -> None:
    """By what start() looks at, as by recovery; not if everything was delivered."""
    stage = Stage(tmp_path, ["k", "n"])
    metadata = stage.staged()
    more: Any = Stage(tmp_path, ["k", "n", "x"])
    for refuse in (more.pending, lambda metadata: check_showable(more, more.store, metadata)):
        with pytest.raises(CheckpointMismatchError, match=r"this job's column x \(x\) is none of them"):
            refuse(metadata)
    less: Any = Stage(tmp_path, ["number"])
    check_showable(less, less.store, metadata)
    (Path(stage.store.output) / "delivered-00000003").touch()
    check_showable(more, more.store, metadata)
    assert more.pending(metadata).files == ()


def test_an_output_that_was_moved(tmp_path: Path) -> None:
    """Its staged files have moved with it; they are as they were."""
    metadata = Stage(tmp_path, ["k", "n"], "parquet").staged()
    shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    today = Stage(tmp_path, ["k", "n"], "parquet", out="elsewhere")
    assert today.pending(metadata) == metadata.transaction
    assert today.rows(metadata.transaction) == [{"k": k, "n": n} for k, n in ROWS]


def test_a_file_that_is_gone_or_damaged(tmp_path: Path) -> None:
    """It is named, and nothing is taken for it."""
    metadata = Stage(tmp_path, ["k", "n"]).staged()
    today = Stage(tmp_path, ["k", "number"])
    victim = Path(today.store.output) / metadata.transaction.files[0].name
    data = victim.read_bytes()
    victim.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    with pytest.raises(CorruptStateError, match=victim.name):
        today.pending(metadata)
    victim.unlink()
    with pytest.raises(CheckpointError, match=f"names {victim.name}, which is not in .* and was not shown"):
        today.pending(metadata)
