"""Appending through Spark's DataFrameWriter: once per checkpoint, and exactly once where the format takes part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failing import fail_at
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.connectors.sinks.spark_writer import SparkWriterSink
from mixedmode.runtime.connectors.staged_output import StagedOutput
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.connectors.staging_folder import StagingFolder
from mixedmode.runtime.connectors.transaction import SinkTransaction, next_ordinal
from mixedmode.runtime.support import failpoints
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

NOW_MS = 1_800_000_000_000
SCHEMA = StructType([StructField("n", IntegerType()), StructField("kind", StringType())])


@pytest.fixture(autouse=True)
def _without_activating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of these tests have a session, and it is active."""
    monkeypatch.setattr("mixedmode.runtime.connectors.sinks.spark_writer.activate", lambda session: None)


def opened(sink: SparkWriterSink, folder: Path, spark: Any = None) -> SparkWriterSink:
    sink.open(spark, StagingFolder(fs.LocalFileSystem(), str(folder / "staging")), "job-1")
    return sink


def transaction(sink: SparkWriterSink, number: int, *numbers: int) -> SinkTransaction:
    """One staged file of these numbers, as a checkpoint names it."""
    filesystem, folder = sink.staging.filesystem, sink.staging.path
    output = StagedOutput(filesystem, folder, f"e{number:08d}-a", arrow_schema(SCHEMA), SCHEMA.json())
    kinds = pa.array(["even" if n % 2 == 0 else "odd" for n in numbers])
    output.write(pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int32()), "kind": kinds}))
    (file,) = output.finish()
    return SinkTransaction(id=number, files=(StagedFile(name=file.name, rows=file.rows, size_bytes=file.size_bytes),))


def commit_twice(sink: SparkWriterSink, once: SinkTransaction, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver dies between the append and its acknowledgement; recovery commits again."""
    with monkeypatch.context() as patched:
        fail_at(patched, "sink-after-function=raise")
        with pytest.raises(failpoints.InjectedFailure):
            sink.commit(once)
    sink.commit(once)


class Writer:
    """Stands in for DataFrameWriter and notes what it is told."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self.saved: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, what: str) -> Any:
        def method(*args: Any, **options: Any) -> Writer:
            self.told.update(options if what == "options" else {args[0]: args[1]} if what == "option" else {what: args})
            return self

        return method

    def save(self, path: str | None) -> None:
        self.saved.append((f"path {path}", dict(self.told)))

    def saveAsTable(self, table: str) -> None:
        self.saved.append((f"table {table}", dict(self.told)))


class Rows:
    def __init__(self) -> None:
        self.write = Writer()


@pytest.mark.parametrize(
    ("sink", "place", "told"),
    [
        (
            SparkWriterSink(SCHEMA, "delta", path="out", options={"mergeSchema": "true"}),
            "path out",
            {"mergeSchema": "true", "txnAppId": "job-1", "txnVersion": 1234},
        ),
        (
            SparkWriterSink(SCHEMA, "delta", table="t", path="out", partition_by=["kind"]),
            "table t",
            {"partitionBy": ("kind",), "path": "out", "txnAppId": "job-1", "txnVersion": 1234},
        ),
        (SparkWriterSink(SCHEMA, "delta", path="out", transactional=False), "path out", {}),
        (
            SparkWriterSink(SCHEMA, "jdbc", options={"url": "u", "txnAppId": "theirs"}),
            "path None",
            {"url": "u", "txnAppId": "theirs"},
        ),
        (SparkWriterSink(SCHEMA, "mine", transactional=True), "path None", {"txnAppId": "job-1", "txnVersion": 1234}),
    ],
)
def test_what_the_writer_is_told(sink: SparkWriterSink, place: str, told: dict[str, Any], tmp_path: Path) -> None:
    """Delta, and a format declared transactional, get job id and ordinal; all get the user's options."""
    rows: Any = Rows()
    opened(sink, tmp_path).hand_over(rows, SinkTransaction(id=7, ordinal=1234))
    assert rows.write.saved == [(place, {"format": (sink.name,), "mode": ("append",), **told})]


def test_a_take_over_outbids_the_older_driver(tmp_path: Path) -> None:
    """In a branch that a take-over began, versions are greater than any of the driver before, from an empty append on;
    a format that takes no versions is not fenced, and nothing is appended."""

    class Empty(Rows):
        def createDataFrame(self, rows: list[Any], schema: StructType) -> Rows:
            assert (rows, schema) == ([], SCHEMA)
            return self

    spark: Any = Empty()
    sink, plain = SparkWriterSink(SCHEMA, "delta", path="out"), SparkWriterSink(SCHEMA, "csv", path="out")
    assert sink.fencing and plain.fencing is None
    for one in (sink, plain):
        opened(one, tmp_path)._spark = spark
        one.fence()
    assert spark.write.saved == [], "nobody had to take over"
    sink.branch = plain.branch = 3
    sink.fence()
    plain.fence()
    older, newer = next_ordinal(None, 2, NOW_MS), next_ordinal(None, 3, NOW_MS - 3_600_000)
    sink.hand_over(spark, SinkTransaction(id=7, ordinal=newer))
    versions = [told["txnVersion"] for _, told in spark.write.saved]
    assert older < versions[0] < versions[1] == newer


def test_a_transaction_of_before_ordinals_keeps_its_version(tmp_path: Path) -> None:
    """What a checkpoint of an older version has left to be shown goes by what stood for the ordinal then, so the table
    knows it; all that comes later is greater."""
    rows: Any = Rows()
    for branch in (0, 3):
        sink = opened(SparkWriterSink(SCHEMA, "delta", path="out"), tmp_path)
        sink.branch = branch
        sink.hand_over(rows, SinkTransaction(id=7))
        version = rows.write.saved[-1][1]["txnVersion"]
        assert version == (branch << 32) + 7 < next_ordinal(None, branch, NOW_MS)


class TestRealFormats:
    """Through Spark itself."""

    def test_options_and_partitions_reach_the_format(self, spark: SparkSession, tmp_path: Path) -> None:
        """Each checkpoint is one append, laid out and formatted as asked; nothing stays staged after the sweep."""
        out = tmp_path / "out"
        sink = SparkWriterSink(
            SCHEMA, "csv", path=str(out), options={"header": "true", "sep": ";"}, partition_by=["kind"]
        )
        opened(sink, tmp_path, spark)
        sink.commit(transaction(sink, 1, 1, 2))
        sink.commit(transaction(sink, 2, 3))
        sink.staging.sweep(2, 2)
        assert sorted(folder.name for folder in out.glob("kind=*")) == ["kind=even", "kind=odd"]
        found = spark.read.csv(str(out), header=True, sep=";", inferSchema=True)
        assert sorted((row.n, row.kind) for row in found.collect()) == [(1, "odd"), (2, "even"), (3, "odd")]
        assert list((tmp_path / "staging").iterdir()) == []

    def test_a_table_is_created_and_appended_to(self, spark: SparkSession, tmp_path: Path) -> None:
        """The first checkpoint makes the table, the next ones add to it."""
        sink = opened(SparkWriterSink(SCHEMA, "orc", table="table_sink_test"), tmp_path, spark)
        try:
            sink.commit(transaction(sink, 1, 1))
            sink.commit(transaction(sink, 2, 2, 3))
            assert sorted(row.n for row in spark.table("table_sink_test").collect()) == [1, 2, 3]
        finally:
            spark.sql("DROP TABLE IF EXISTS table_sink_test")

    def test_a_plain_format_may_show_rows_twice(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A crash between append and acknowledgement repeats the append: at-least-once, and said so."""
        sink = opened(SparkWriterSink(SCHEMA, "json", path=str(tmp_path / "out")), tmp_path, spark)
        commit_twice(sink, transaction(sink, 1, 1, 2), monkeypatch)
        assert sorted(row.n for row in spark.read.schema(SCHEMA).json(str(tmp_path / "out")).collect()) == [1, 1, 2, 2]
        assert sink.guarantee == "at-least-once" and "at-least-once" in sink.describe()

    def test_an_acknowledged_append_is_not_repeated(self, spark: SparkSession, tmp_path: Path) -> None:
        """Committing again, as recovery does, appends nothing if the first commit had returned."""
        sink = opened(SparkWriterSink(SCHEMA, "json", path=str(tmp_path / "out")), tmp_path, spark)
        once = transaction(sink, 1, 1, 2)
        sink.commit(once)
        sink.commit(once)
        assert sorted(row.n for row in spark.read.schema(SCHEMA).json(str(tmp_path / "out")).collect()) == [1, 2]

    @pytest.mark.slow
    def test_a_transactional_format_shows_rows_once(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The repeated append carries the same id and version, and the format skips it; later versions are taken."""
        spark.dataSource.register(_ledger())
        sink = SparkWriterSink(SCHEMA, "ledger", path=str(tmp_path / "out"), transactional=True)
        sink.check(spark)
        opened(sink, tmp_path, spark)
        commit_twice(sink, transaction(sink, 1, 1, 2), monkeypatch)
        commit_twice(sink, transaction(sink, 5, 3), monkeypatch)
        rows = sorted(line for part in (tmp_path / "out").glob("*.part") for line in part.read_text().split())
        assert rows == ["1,odd", "2,even", "3,odd"]
        assert sink.guarantee == "exactly-once" and "exactly-once" in sink.describe()


def _ledger() -> Any:
    """A small format of files that remembers the last version of each application, as Delta does."""
    import os
    from dataclasses import dataclass

    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    @dataclass
    class Written(WriterCommitMessage):
        text: str

    class LedgerWriter(DataSourceArrowWriter):
        def __init__(self, options: Any) -> None:
            self.path, self.application = options["path"], options["txnAppId"]
            self.version = int(options["txnVersion"])

        def write(self, iterator: Any) -> Written:
            lines = [f"{row['n']},{row['kind']}\n" for batch in iterator for row in batch.to_pylist()]
            return Written("".join(lines))

        def commit(self, messages: Any) -> None:
            os.makedirs(self.path, exist_ok=True)
            job = self.application.replace("-", "_")
            seen = [int(name.split("-")[1][:-5]) for name in os.listdir(self.path) if name.startswith(job)]
            if max(seen, default=-1) >= self.version:
                return
            with open(f"{self.path}/{job}-{self.version}.part", "w") as part:
                part.writelines(message.text for message in messages if message is not None)

        def abort(self, messages: Any) -> None:
            pass

    class Ledger(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ledger"

        def writer(self, schema: Any, overwrite: bool) -> LedgerWriter:
            assert not overwrite
            return LedgerWriter(self.options)

    return Ledger
