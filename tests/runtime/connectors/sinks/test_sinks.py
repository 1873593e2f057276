"""Each sink gives the guarantee that it states, also when it is told the same thing twice."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failing import fail_at
from mixedmode.errors import CheckpointError, OptionError, UserCodeError
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.connectors.sinks import Sink, SinkSpec, make_sink
from mixedmode.runtime.connectors.sinks.folder_sink import FolderSink
from mixedmode.runtime.connectors.staged_output import StagedOutput
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.connectors.staging_folder import StagingFolder
from mixedmode.runtime.connectors.transaction import SinkTransaction
from mixedmode.runtime.support import failpoints
from mixedmode.runtime.support.ids import CheckpointId, EpochNumber
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

SCHEMA = StructType([StructField("n", IntegerType())])
LOCAL = fs.LocalFileSystem()


def sink_of(format: str, **given: Any) -> Sink:
    return make_sink(SinkSpec(SCHEMA, format, **given))


def opened(sink: Sink, folder: Path, spark: Any = None) -> Sink:
    sink.open(spark, StagingFolder(LOCAL, str(folder / "staging")), "job-1")
    return sink


def stage(sink: Sink, name: str, *numbers: int) -> StagedFile:
    """A file as a task leaves it."""
    filesystem, folder = sink.staging.filesystem, sink.staging.path
    output = StagedOutput(filesystem, folder, name, arrow_schema(SCHEMA), SCHEMA.json())
    output.write(pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int32())}))
    (file,) = output.finish()
    return file


def transaction(number: int, *files: StagedFile) -> SinkTransaction:
    described = tuple(files)
    return SinkTransaction(id=number, files=described)


def visible(folder: Path) -> list[int]:
    """What a reader of the output folder sees; it ignores names that begin with an underscore, as Spark does."""
    rows: list[int] = []
    for name in sorted(os.listdir(folder)):
        if not name.startswith("_"):
            rows.extend(pq.read_table(folder / name).column("n").to_pylist())
    return sorted(rows)


@pytest.fixture
def parquet(tmp_path: Path) -> Sink:
    return opened(sink_of("parquet", path=str(tmp_path / "out")), tmp_path)


def test_parquet_shows_nothing_before_the_commit(parquet: Sink, tmp_path: Path) -> None:
    """Staged rows are invisible to readers until their transaction is committed."""
    file = stage(parquet, "e00000001-a", 1, 2)
    assert visible(tmp_path / "out") == []
    parquet.commit(transaction(1, file))
    assert visible(tmp_path / "out") == [1, 2]


def test_parquet_commit_is_idempotent(parquet: Sink, tmp_path: Path) -> None:
    """Committing a transaction again, as recovery does, changes nothing."""
    once = transaction(1, stage(parquet, "e00000001-a", 1))
    parquet.commit(once)
    parquet.commit(once)
    assert visible(tmp_path / "out") == [1]


def test_parquet_commit_that_was_cut_short_is_completed(
    parquet: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash between two files, doing the commit again shows every row exactly once."""
    cut = transaction(1, stage(parquet, "e00000001-a", 1), stage(parquet, "e00000001-b", 2))
    fail_at(monkeypatch, "sink-between-files=raise")
    with pytest.raises(failpoints.InjectedFailure):
        parquet.commit(cut)
    assert visible(tmp_path / "out") == [1]
    parquet.commit(cut)
    assert visible(tmp_path / "out") == [1, 2]


class LinesSink(FolderSink):
    """Files of a format of which the sink knows nothing."""

    name = "lines"

    def describe(self) -> str:
        return "lines"


def test_files_of_any_format_are_shown_by_renames(tmp_path: Path) -> None:
    """What a format adds to a folder are the files that its tasks stage."""
    sink = opened(LinesSink(SCHEMA, str(tmp_path / "out")), tmp_path)
    staged = Path(sink.staging.path, "e00000001-a.json")
    staged.parent.mkdir(parents=True)
    staged.write_text('{"n": 1}')
    sink.commit(transaction(1, StagedFile(staged.name, 1, 8)))
    assert [path.read_text() for path in (tmp_path / "out").glob("part-*.json")] == ['{"n": 1}']


def test_parquet_names_a_lost_file(parquet: Sink) -> None:
    """A file that is neither staged nor committed is an error that names it, never fewer rows."""
    file = stage(parquet, "e00000001-a", 1)
    os.unlink(f"{parquet.staging.path}/{file.name}")
    with pytest.raises(CheckpointError, match=r"transaction 3 names e00000001-a\.parquet"):
        parquet.commit(transaction(3, file))


def test_parquet_shows_nothing_of_a_damaged_transaction(parquet: Sink, tmp_path: Path) -> None:
    """If one staged file was cut off, none of its transaction becomes visible, and the file is named."""
    whole, cut = stage(parquet, "e00000001-a", 1), stage(parquet, "e00000001-b", 2)
    os.truncate(f"{parquet.staging.path}/{cut.name}", cut.size_bytes - 1)
    with pytest.raises(CheckpointError, match=r"e00000001-b\.parquet has \d+ bytes, its checkpoint recorded"):
        parquet.commit(transaction(3, whole, cut))
    assert visible(tmp_path / "out") == []


def test_parquet_leaves_no_staging_folder_behind(parquet: Sink) -> None:
    """When everything is committed and the job ends, the staging folder is gone; a commit leaves it to tasks of later
    epochs, which may be about to stage there."""
    parquet.commit(transaction(1, stage(parquet, "e00000001-a", 1)))
    assert os.listdir(parquet.staging.path) == []
    parquet.close()
    assert not os.path.exists(parquet.staging.path)


def test_sweep_removes_what_lost(parquet: Sink, tmp_path: Path) -> None:
    """A sweep removes staged files up to the given epoch and leaves later and committed ones."""
    parquet.commit(transaction(1, stage(parquet, "e00000001-won", 1)))
    stage(parquet, "e00000001-lost", 8)
    stage(parquet, "e00000002-running", 9)
    assert parquet.staging.sweep(1) == 1
    assert os.listdir(parquet.staging.path) == ["e00000002-running.parquet"]
    assert parquet.staging.sweep() == 1
    assert visible(tmp_path / "out") == [1]


def test_sweep_leaves_the_markers_of_a_later_checkpoint(tmp_path: Path) -> None:
    """What is removed behind a checkpoint is none of what the next one writes meanwhile: its markers, and the temporary
    files that become them, stay until it is complete."""
    names = ["delivered-00000003", "delivered-00000003-call-00000007", "sending-00000003", "sending-00000003.ab12.tmp"]
    for name in [*names, *(name.replace("3", "2", 1) for name in names)]:
        (tmp_path / name).touch()
    folder = StagingFolder(LOCAL, str(tmp_path))
    assert folder.sweep(EpochNumber(9), CheckpointId(2)) == 4
    assert sorted(os.listdir(tmp_path)) == names
    assert folder.sweep(EpochNumber(9), CheckpointId(3)) == 4


def test_two_jobs_may_share_an_output_folder(tmp_path: Path) -> None:
    """Each job stages below its own id: the sweep of one does not touch the other."""
    first, second = (sink_of("parquet", path=str(tmp_path / "out")) for _ in range(2))
    first.open(None, StagingFolder(LOCAL, "unused"), "job-1")  # type: ignore[arg-type]
    second.open(None, StagingFolder(LOCAL, "unused"), "job-2")  # type: ignore[arg-type]
    stage(second, "e00000001-a", 1)
    assert first.staging.sweep() == 0
    assert second.staging.sweep() == 1


class TestForeachBatch:
    """A function that is called with the rows of each checkpoint."""

    @pytest.fixture
    def calls(self) -> list[tuple[int, list[int]]]:
        return []

    @pytest.fixture
    def sink(self, calls: list[tuple[int, list[int]]], spark: SparkSession, tmp_path: Path) -> Sink:
        def function(frame: Any, number: int) -> None:
            assert frame.schema == SCHEMA
            calls.append((number, sorted(row.n for row in frame.collect())))

        return opened(sink_of("parquet", foreach_batch=function), tmp_path, spark)

    def test_gets_all_rows_of_a_checkpoint_once(self, sink: Sink, calls: list[tuple[int, list[int]]]) -> None:
        """One call per transaction with its rows and id; a repeated commit does not call again."""
        once = transaction(4, stage(sink, "e00000001-a", 1), stage(sink, "e00000001-b", 2))
        sink.commit(once)
        sink.commit(once)
        assert calls == [(4, [1, 2])]

    @pytest.mark.parametrize("error", [ValueError("1"), SystemExit(1)])
    def test_an_error_of_the_function_is_the_users(
        self, spark: SparkSession, tmp_path: Path, error: BaseException
    ) -> None:
        """By its place and kind, also where the function calls ``sys.exit()``."""

        def fail(frame: Any, number: int) -> None:
            raise error

        sink = opened(sink_of("parquet", foreach_batch=fail), tmp_path, spark)
        said = rf"in fail(?s:.*){type(error).__name__}: 1(?s:.*)function .*fail of foreachBatch, batch 4"
        with pytest.raises(UserCodeError, match=said):
            sink.commit(transaction(4, stage(sink, "e00000001-a", 1)))

    def test_is_not_called_without_rows(self, sink: Sink, calls: list[tuple[int, list[int]]]) -> None:
        """A checkpoint without output makes no call."""
        sink.commit(transaction(1))
        assert calls == []

    def test_same_id_comes_with_the_same_rows_again(
        self, sink: Sink, calls: list[tuple[int, list[int]]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After a crash between the function and its acknowledgement the very same call comes again."""
        once = transaction(2, stage(sink, "e00000001-a", 1), stage(sink, "e00000001-b", 2))
        fail_at(monkeypatch, "sink-after-function=raise")
        with pytest.raises(failpoints.InjectedFailure):
            sink.commit(once)
        sink.commit(once)
        assert calls == [(2, [1, 2]), (2, [1, 2])]

    def test_crash_while_discarding_does_not_call_again(
        self, sink: Sink, calls: list[tuple[int, list[int]]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If a crash has removed some of the delivered files, the commit is completed without another call."""
        once = transaction(2, stage(sink, "e00000001-a", 1), stage(sink, "e00000001-b", 2))

        def cut_short(files: Sequence[StagedFile]) -> None:
            os.unlink(f"{sink.staging.path}/{files[0].name}")
            raise failpoints.InjectedFailure

        with monkeypatch.context() as patched:
            patched.setattr(StagingFolder, "discard", lambda folder, files: cut_short(files))
            with pytest.raises(failpoints.InjectedFailure):
                sink.commit(once)
        sink.commit(once)
        assert calls == [(2, [1, 2])]

    def test_names_a_lost_file(self, sink: Sink, calls: list[tuple[int, list[int]]]) -> None:
        """A staged file that vanished before it was delivered is an error, not a call with fewer rows."""
        lost, kept = stage(sink, "e00000001-a", 1), stage(sink, "e00000001-b", 2)
        os.unlink(f"{sink.staging.path}/{lost.name}")
        with pytest.raises(CheckpointError, match=r"transaction 2 names e00000001-a\.parquet"):
            sink.commit(transaction(2, lost, kept))
        assert calls == []

    def test_sweep_leaves_nothing(self, sink: Sink) -> None:
        """After the sweep that follows a commit the staging folder is empty."""
        sink.commit(transaction(1, stage(sink, "e00000001-a", 1)))
        sink.staging.sweep(1, 1)
        assert os.listdir(sink.staging.path) == []


class TestMemory:
    """The memory table."""

    def test_holds_the_rows_of_all_epochs(self, spark: SparkSession, tmp_path: Path) -> None:
        """Delivered rows are visible at once under the query's name, and nothing stays staged."""
        sink = opened(sink_of("memory", query_name="sink_test"), tmp_path, spark)
        assert spark.table("sink_test").count() == 0
        sink.deliver(1, [stage(sink, "e00000001-a", 1)])
        sink.deliver(2, [])
        sink.deliver(3, [stage(sink, "e00000003-a", 2, 3)])
        assert sorted(row.n for row in spark.table("sink_test").collect()) == [1, 2, 3]
        assert os.listdir(sink.staging.path) == []


def test_names_of_folders_are_no_patterns(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that were staged below a folder with brackets, braces or stars in its name are found again."""
    sink = opened(sink_of("memory", query_name="bracketed"), tmp_path / "ck[1]{a,b}*?", spark)
    sink.deliver(1, [stage(sink, "e00000001-a", 4, 2)])
    assert sorted(row.n for row in spark.table("bracketed").collect()) == [2, 4]


def test_console_prints_each_epoch(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The console shows the epoch's number and rows; an epoch without rows prints nothing."""
    sink = opened(sink_of("console"), tmp_path, spark)
    sink.deliver(1, [])
    sink.deliver(2, [stage(sink, "e00000002-a", 42)])
    printed = capsys.readouterr().out
    assert "Epoch: 2" in printed and "42" in printed and "Epoch: 1" not in printed


def test_console_prints_what_another_sink_has_left_by_epoch(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows that an earlier run has staged for another sink are printed under their epochs, not under a checkpoint."""
    sink = opened(sink_of("console"), tmp_path, spark)
    sink.commit(transaction(7, stage(sink, "e00000001-a", 1), stage(sink, "e00000002-b", 2)))
    assert re.findall(r"Epoch: (\d+)", capsys.readouterr().out) == ["1", "2"]


def test_noop_drops_rows(tmp_path: Path) -> None:
    """noop has tasks count their rows and write none; other sinks have them written."""
    sink = opened(sink_of("noop"), tmp_path)
    output = sink.output.open("e00000001-a", sink.schema)
    output.write(pa.RecordBatch.from_pydict({"n": [1, 2]}))
    output.write(pa.RecordBatch.from_pydict({"n": [3]}))
    assert (output.finish(), output.dropped_rows) == ([], 3)
    assert not os.path.exists(sink.staging.path)

    parquet = opened(sink_of("parquet", path=str(tmp_path / "out")), tmp_path)
    kept = parquet.output.open("e00000001-a", parquet.schema)
    kept.write(pa.RecordBatch.from_pydict({"n": pa.array([1, 2], pa.int32())}))
    assert ([file.rows for file in kept.finish()], kept.dropped_rows) == ([2], 0)


def test_guarantees_are_stated() -> None:
    """File and foreachBatch sinks say exactly-once, the others at-least-once."""
    function: Callable[..., None] = lambda frame, number: None  # noqa: E731
    stated = {
        "parquet": sink_of("parquet", path="x"),
        "foreachBatch": sink_of("any", foreach_batch=function),
        "memory": sink_of("memory", query_name="x"),
        "console": sink_of("console"),
        "noop": sink_of("noop"),
    }
    assert {name: sink.guarantee for name, sink in stated.items()} == {
        "parquet": "exactly-once",
        "foreachBatch": "exactly-once",
        "memory": "at-least-once",
        "console": "at-least-once",
        "noop": "at-least-once",
    }
    assert all(name in sink.describe() and sink.guarantee in sink.describe() for name, sink in stated.items())


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("parquet", "needs a path"),
        ("memory", "queryName"),
    ],
)
def test_incomplete_sinks_are_refused(format: str, message: str) -> None:
    """A sink that lacks something is refused by name."""
    with pytest.raises(OptionError, match=message):
        sink_of(format)


@pytest.mark.parametrize("name", ["a.b", "a b", "`a", "s.`a b`"])
def test_a_name_that_no_view_can_have_is_refused(spark: SparkSession, name: str) -> None:
    """A temporary view has no catalog and no schema; in backticks a name may have a dot."""
    with pytest.raises(
        OptionError, match=rf'^queryName is {re.escape(repr(name))}, which format "memory" cannot use as'
    ):
        sink_of("memory", query_name=name).check(spark)
    for right in ("totals", "`a.b`"):
        sink_of("memory", query_name=right).check(spark)


@pytest.mark.parametrize(
    ("format", "option", "message"),
    [
        ("parquet", ("mergeSchema", "true"), r"parquet does not know the option mergeSchema = 'true'; its options are"),
        ("console", ("numRow", "5"), r"console does not know the option numRow = '5'; did you mean numRows\?"),
        ("console", ("numRows", "few"), "numRows = 'few' of format console is not allowed"),
        ("console", ("TRUNCATE", "10"), "truncate = '10' of format console is not allowed; allowed: true, false"),
        ("noop", ("header", "true"), "noop does not know the option header"),
    ],
)
def test_options_without_effect_are_refused(format: str, option: tuple[str, str], message: str) -> None:
    """An option that a sink would not look at is an error that lists those it has."""
    with pytest.raises(OptionError, match=message):
        sink_of(format, options=dict([option]), path="out", query_name="q")


def test_options_are_compared_without_case() -> None:
    """As Spark compares them."""
    sink = sink_of("console", options={"NUMROWS": "5", "Truncate": "false"})
    assert vars(sink)["_shown_rows"] == 5 and vars(sink)["_truncate"] is False
