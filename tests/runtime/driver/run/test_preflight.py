"""start() itself refuses a job whose places cannot be used: no query, nothing written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mixedmode
import pytest
from mixedmode.errors import CheckpointError, CheckpointMismatchError, CorruptStateError, OptionError, PlanError
from mixedmode.planner.frames import writer as writer_module
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.runtime.checkpoints import branch
from mixedmode.runtime.checkpoints.identity import JobIdentity
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.sinks import table_format
from mixedmode.runtime.connectors.sinks.spark_writer import SparkWriterSink
from mixedmode.runtime.driver.run import preflight
from mixedmode.runtime.storage.filesystem import list_files
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType
from session_options import session_options

_JSON = "org.apache.spark.sql.execution.datasources.json.JsonFileFormat"


@pytest.fixture
def writer(spark: SparkSession, tmp_path: Path) -> MixedStreamWriter:
    """A job with a window in its output; its folders do not exist yet."""
    rows = spark.sql("select 'a' as k, timestamp'2020-01-01 00:00:00' as ts")
    windows = mixedmode.read(history=rows).withWatermark("ts", "0 seconds").groupBy("k", F.window("ts", "1 hour"))
    stream = windows.agg(F.count("*").alias("n")).writeStream.queryName("windows")
    return stream.option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "ck"))


def content(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "option",
    ["checkpointLocation", "path", "pipeline.late-data.path", "state.local-dir", "sorter.spill-dir"],
)
def test_a_folder_that_is_a_file(writer: MixedStreamWriter, tmp_path: Path, option: str) -> None:
    """The option is named with its value; no folder of the others has been made."""
    (tmp_path / "taken").touch()
    with pytest.raises(OptionError, match=rf"^{option} = '{tmp_path}/taken' is a file; allowed: "):
        writer.option(option, str(tmp_path / "taken")).start()
    assert content(tmp_path) == ["taken"]


def test_a_local_folder_that_is_not_ours_alone(writer: MixedStreamWriter, tmp_path: Path) -> None:
    """What the workers would refuse to keep state in is refused before anything runs."""
    (tmp_path / "mixedmode").symlink_to(tmp_path / "elsewhere")
    problem = rf"cannot be used: {tmp_path}/mixedmode is a symbolic link \(to '.*/elsewhere'\), .*; allowed: "
    with pytest.raises(OptionError, match=rf"^state\.local-dir = '{tmp_path}' {problem}"):
        writer.option("state.local-dir", str(tmp_path)).start()
    assert content(tmp_path) == ["mixedmode"]


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_an_output_that_cannot_be_made(writer: MixedStreamWriter, tmp_path: Path, format: str) -> None:
    """Whoever writes it, Spark or we."""
    with pytest.raises(OptionError, match=r"^path = '/proc/out' cannot be written to: "):
        writer.format(format).option("path", "/proc/out").start()
    assert content(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, r"its options \(none\).*url"),
        ({"url": "jdbc:nowhere:x"}, r"its options \(url\).*dbtable"),
        ({"url": "jdbc:nowhere:x", "dbtable": "t"}, "No suitable driver"),
        ({"url": "jdbc:derby:memory:preflight", "dbtable": "t"}, None),
    ],
)
def test_jdbc_without_a_place(writer: MixedStreamWriter, options: dict[str, str], problem: str | None) -> None:
    """Spark's own class for its options is asked; nothing is connected to."""
    writer.option("path", None).format("jdbc").options(**options)
    if problem is None:
        assert writer.plan().sink.name == "jdbc"
        return
    with pytest.raises(
        OptionError, match=rf"^format jdbc cannot write with {problem}" if "its" in problem else problem
    ):
        writer.plan()


@pytest.mark.parametrize("format", ["rate", "rate-micro-batch", "socket", "statestore", "state-metadata"])
def test_a_format_that_can_only_be_read(writer: MixedStreamWriter, format: str) -> None:
    """Spark would say so after the backlog."""
    with pytest.raises(PlanError, match=f"^format '{format}' can only be read: Spark has no batch writer for it; use"):
        writer.format(format).start()


def test_a_python_data_source_without_a_batch_writer(writer: MixedStreamWriter, spark: SparkSession) -> None:
    """A stream writer does not do; what the writer says of its options is heard when rows are written."""
    kinds = {"streams": _Streams, "reads": _Reads, "writes": _Writes}
    for name, kind in kinds.items():
        spark.dataSource.register(type(kind.__name__, (kind,), {"name": classmethod(lambda cls, name=name: name)}))
    for name, problem in (
        ("streams", r"_Streams does .*\(a streamWriter alone"),
        ("reads", "_Reads does .* by it;"),
    ):
        with pytest.raises(PlanError, match=f"(?s)^format '{name}' has no batch writer: {problem}"):
            writer.format(name).start()
    assert writer.format("writes").plan().sink.name == "writes"


class _Streams(DataSource):
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return None


class _Reads(DataSource):
    def reader(self, schema: Any) -> Any:
        return None


class _Writes(DataSource):
    def writer(self, schema: Any, overwrite: bool) -> Any:
        raise AssertionError("a plan does not begin to write")


def test_a_foreach_batch_function_of_other_arguments(writer: MixedStreamWriter) -> None:
    """It is not called before a checkpoint completes, but its signature is known."""
    writer.option("path", None)
    for wrong in (lambda rows: None, lambda: None, lambda rows, number, more: None):
        with pytest.raises(PlanError, match=r"^foreachBatch calls .*<lambda>\(rows, id\), but its arguments are \("):
            writer.foreachBatch(wrong).plan()  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"^foreachBatch was given the class dict; give it a function of"):
        writer.foreachBatch(dict).plan()
    with pytest.raises(PlanError, match=r"^foreachBatch needs a function of \(DataFrame, int\), got \{'a': 1\}"):
        writer.foreachBatch({"a": 1})  # type: ignore[arg-type]
    for right in (lambda rows, number: None, lambda *both: None, lambda rows, number, more=1: None, print):
        writer.foreachBatch(right).plan()


def test_a_foreach_batch_function_that_a_call_does_not_run(writer: MixedStreamWriter) -> None:
    """Its rows would count as delivered."""

    async def awaited(rows: Any, number: int) -> None:
        pass

    for wrong, kind in ((awaited, "awaited is an async"), (lambda rows, number: (yield), "<lambda> is a generator")):
        with pytest.raises(
            PlanError, match=f"^foreachBatch: .*{kind} function: a call does not run its body; give it an"
        ):
            writer.foreachBatch(wrong).start()  # type: ignore[arg-type]


def test_a_path_on_no_known_filesystem(writer: MixedStreamWriter) -> None:
    """Of checkpoints and of Parquet output, which are not Spark's to write: its own formats may know more."""
    for option in ("path", "checkpointLocation"):
        with pytest.raises(OptionError, match=rf"^{option} = 'nowhere://out' cannot be reached: .*pyarrow\.fs"):
            writer.option(option, "nowhere://out").plan()
        writer.option(option, "/elsewhere")
    assert writer.format("json").option("path", "nowhere://out").plan().sink.name == "json", "Spark may know it"


def test_a_format_that_does_not_take_the_output(writer: MixedStreamWriter, tmp_path: Path) -> None:
    """plan() refuses it as start() does, and both before anything is read."""
    writer.format("csv")
    for ask in (writer.plan, writer.start):
        with pytest.raises(PlanError, match=r"^format csv cannot hold the output .*`window` of the type.*foreachBatch"):
            ask()
    assert content(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "location", "problem"),
    [
        (
            "ck/mixedmode/state",
            "ck",
            r"path = '.*/ck/mixedmode/state' is among the files of checkpointLocation '.*/ck'",
        ),
        ("ck/spark", "ck", r"path = '.*/ck/spark' is among the files of checkpointLocation"),
        ("same", "same", "path and checkpointLocation are the same folder"),
        ("same/", "other/../same", "path and checkpointLocation are the same folder"),
        ("link", "real", r"path and checkpointLocation are the same folder, '.*/link' and '.*/real': '.*/real'"),
        ("real", "link", "path and checkpointLocation are the same folder"),
        ("link/../real", "nowhere", "path and checkpointLocation are the same folder"),
        ("link/deep/er", "real/deep/er", "path and checkpointLocation are the same folder"),
        (
            "real/mixedmode/x",
            "link",
            r"path = '.*/real/mixedmode/x' is among the files of checkpointLocation '.*/link'",
        ),
        ("link/spark/", "real", r"path = '.*/link/spark/', which is '.*/real/spark', is among the files of"),
        ("inner", "real", r"path = '.*/inner', which is '.*/real/mixedmode/y', is among the files of"),
        ("moved/x", "split", r"path = '.*/moved/x' is among the files of checkpointLocation"),
        ("ck/out", "ck", r"path = '.*/ck/out' is inside checkpointLocation '.*/ck'\nWhoever removes"),
        ("real/_out", "link", r"path = '.*/real/_out' is inside checkpointLocation '.*/link'"),
    ],
)
def test_folders_that_would_be_taken_for_each_other(
    writer: MixedStreamWriter, tmp_path: Path, path: str, location: str, problem: str
) -> None:
    """One is refused inside of the other where clean-ups would remove its files, by whatever links it is reached."""
    for folder in ("real", "moved", "split"):
        (tmp_path / folder).mkdir()
    for link, target in {"link": "real", "nowhere": "real", "inner": "real/mixedmode/y"}.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    (tmp_path / "split" / "mixedmode").symlink_to(tmp_path / "moved")
    writer.option("path", f"{tmp_path}/{path}").option("checkpointLocation", f"{tmp_path}/{location}")
    with pytest.raises(OptionError, match=problem):
        writer.plan()


@pytest.mark.parametrize("option", ["state.local-dir", "sorter.spill-dir"])
@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("ck", "is the folder of checkpointLocation '.*/ck', whose readers and clean-ups would meet"),
        ("ck/mixedmode", "is inside checkpointLocation"),
        ("ck/spark/x", "is inside checkpointLocation"),
        ("link/x", "is inside path '.*/out'"),
        ("out", "is the folder of path"),
        ("late/x", r"is inside pipeline\.late-data\.path"),
        ("history", "is the folder that history reads"),
        ("history/x", "is in the folder '.*/history' that history reads"),
        ("live", "is the folder that live reads"),
    ],
)
def test_a_local_folder_in_the_way_of_others(
    spark: SparkSession, tmp_path: Path, option: str, folder: str, problem: str
) -> None:
    """Working copies would make readers fail, or go with what is cleaned up."""
    (tmp_path / "link").symlink_to(tmp_path / "out")
    (tmp_path / "live").mkdir()
    spark.range(1).write.parquet(str(tmp_path / "history"))
    history = spark.read.parquet(str(tmp_path / "history"))
    live = spark.readStream.schema(history.schema).parquet(str(tmp_path / "live"))
    writer = mixedmode.read(history=history, live=live).dropDuplicates(["id"]).writeStream
    writer.option("path", f"{tmp_path}/out").option("checkpointLocation", f"{tmp_path}/ck")
    writer.option("pipeline.late-data.path", f"{tmp_path}/late")
    writer.option(option, f"{tmp_path}/ck/own").plan()
    with pytest.raises(OptionError, match=rf"^{option} = '{tmp_path}/{folder}' {problem}") as caught:
        writer.option(option, f"{tmp_path}/{folder}").plan()
    assert caught.value.code == "MIXEDMODE_LOCATION_SHARED"


@pytest.mark.parametrize(
    ("option", "location", "cure"),
    [
        ("checkpointLocation", "s3a://KEY:s3cr3t@bucket/ck", "spark.hadoop.fs.s3a.access.key"),
        ("path", "s3://KEY:s3/cr3t=s3cr3t@bucket/out", "spark.hadoop.fs.s3a.secret.key"),
        ("pipeline.late-data.path", "abfss://c@a.dfs.core.windows.net/late?sig=s3cr3t", "fs.azure.sas.fixed.token"),
        ("execution.savepoint.path", "gs://bucket/s?access_token=s3cr3t", "auth.service.account.json.keyfile"),
        ("execution.savepoint.on-sigterm", "hdfs://me:s3cr3t@host/s", "the spark.hadoop.… settings"),
    ],
)
def test_credentials_in_a_location_are_refused(
    writer: MixedStreamWriter, option: str, location: str, cure: str
) -> None:
    """By plan() and start(), before anything prints or stores them; the error names the option and the setting."""
    writer.option(option, location)
    for ask in (writer.plan, writer.start):
        with pytest.raises(OptionError) as caught:
            ask()
        said = str(caught.value)
        assert caught.value.code == "MIXEDMODE_LOCATION_SECRET"
        assert said.startswith(f"{option} = ") and cure in said and "s3cr3t" not in said
    assert "s3cr3t" not in repr(writer) and "s3cr3t" not in writer._repr_html_()


def test_a_secret_in_an_option_that_a_sink_does_not_know_is_not_shown(writer: MixedStreamWriter) -> None:
    """The error names the option alone."""
    with pytest.raises(OptionError, match=r"does not know the option kafka\.sasl\.jaas\.config = \(not shown\)"):
        writer.option("kafka.sasl.jaas.config", "password=s3cr3t").plan()


@pytest.mark.parametrize(("path", "location"), [("out", "out/_checkpoints"), ("out", "out/.ck/x"), ("ck", "ck-of")])
def test_folders_that_stay_apart(writer: MixedStreamWriter, tmp_path: Path, path: str, location: str) -> None:
    """A location has two folders of its own and touches nothing else, and no reader goes into hidden folders."""
    writer.option("path", str(tmp_path / path)).option("checkpointLocation", str(tmp_path / location))
    assert not [one for one in writer.plan().warnings if "checkpointLocation" in one]


def test_checkpoints_inside_the_output_are_taken_with_a_warning(writer: MixedStreamWriter, tmp_path: Path) -> None:
    """Stock jobs often have them there, and Spark's readers do not go into folders; others do."""
    location = tmp_path / "out" / "checkpoints"
    writer.option("path", str(tmp_path / "out")).option("checkpointLocation", str(location))
    (warning,) = [one for one in writer.plan().warnings if "checkpointLocation" in one]
    assert f"checkpointLocation '{location}' is inside path '{tmp_path / 'out'}'" in warning
    assert "recursiveFileLookup" in warning and "begins with _" in warning


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[None]:
    spark.sql(
        "create table preflight_fits (n long, K string, window struct<start: timestamp, end: timestamp>) using json"
    )
    spark.sql("create table preflight_other (k string, n long) using parquet")
    spark.sql("create table preflight_typed (k long, window struct<s: timestamp, e: timestamp>, n long) using orc")
    spark.sql("create or replace view preflight_view as select 1 as n")
    yield
    for kind, name in (("view", "view"), ("table", "fits"), ("table", "other"), ("table", "typed")):
        spark.sql(f"drop {kind} preflight_{name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "format", "problem"),
    [
        ("preflight_other", None, "table preflight_other has the columns k, n, the output has k, window, n"),
        ("preflight_fits", "orc", "format is orc, but table preflight_fits is of format json"),
        ("preflight_typed", None, "column k of table preflight_typed is of type bigint, .* the output's k, string"),
        ("preflight_view", None, "it is a view"),
        ("no_such_schema.totals", None, "there is no schema no_such_schema"),
        ("a b;c", None, r"toTable\('a b;c'\): .*[Ss]yntax error"),
        ("a b;c", "json", r"toTable\('a b;c'\): .*[Ss]yntax error"),
        ("preflight_new", "csv", "format csv cannot hold the output"),
    ],
)
def test_a_table_that_does_not_take_the_output(
    writer: MixedStreamWriter, tables: None, table: str, format: str | None, problem: str
) -> None:
    """Spark itself would say so when the first rows are appended."""
    writer.option("path", None)
    with pytest.raises((OptionError, PlanError), match=problem):
        writer.toTable(table, format=format)


@pytest.mark.parametrize(
    ("table", "format"), [("preflight_fits", None), ("preflight_fits", _JSON), ("preflight_new", None)]
)
def test_a_table_that_takes_the_output(
    writer: MixedStreamWriter, tables: None, monkeypatch: pytest.MonkeyPatch, table: str, format: str | None
) -> None:
    """Whatever the order and case of its columns, or if it does not exist yet."""
    started: list[Any] = []
    monkeypatch.setattr(writer_module, "start_query", started.append)
    writer.option("path", None).toTable(table, format=format)
    assert [job.sink.table for job in started] == [table]


@pytest.fixture
def laid_out(spark: SparkSession) -> Iterator[None]:
    columns = "k string, window struct<start: timestamp, end: timestamp>, n long, Provider string"
    spark.sql(f"create table layout_flat ({columns}) using orc")
    spark.sql(f"create table layout_parts ({columns}) using orc partitioned by (Provider, K)")
    spark.sql(f"create table layout_buckets ({columns}) using orc clustered by (k) into 2 buckets")
    yield
    for name in ("flat", "parts", "buckets", "new"):
        spark.sql(f"drop table if exists layout_{name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "partition_by", "problem"),
    [
        ("layout_flat", (), None),
        ("layout_flat", ("k",), r"partitionBy is k, but table layout_flat is not partitioned; leave partitionBy out"),
        ("layout_parts", (), r"partitionBy is not set, but .* partitioned by Provider, k; .*By\('Provider', 'k'\)"),
        ("layout_parts", ("k", "provider"), r"partitionBy is k, provider, but table layout_parts is partitioned by"),
        ("layout_parts", ("PROVIDER", "k"), None),
        ("layout_buckets", (), r"table layout_buckets is bucketed by k, and Spark"),
        ("layout_new", ("K",), None),
        ("default.`layout-new`", (), r"`layout-new` is not a valid name for tables"),
        ("spark_catalog.default.`layout-new`", (), r"`layout-new` is not a valid name for tables"),
        ("`layout.new`", (), r"not a valid name for tables"),
        ("`layout_new`", (), None),
    ],
)
def test_a_table_is_appended_to_as_spark_would(
    spark: SparkSession, laid_out: None, table: str, partition_by: tuple[str, ...], problem: str | None
) -> None:
    """Its layout and its name are refused if and only if Spark refuses them when it appends no rows at all."""
    schema = StructType.fromDDL("Provider string, k string, window struct<start: timestamp, end: timestamp>, n long")
    assert table_format(spark, table) == ("orc" if spark.catalog.tableExists(table) else None)
    written = spark.createDataFrame([], schema).write.format("orc").mode("append")
    sink = SparkWriterSink(schema, "orc", table=table, partition_by=partition_by)
    if problem is None:
        sink.check(spark)
        (written.partitionBy(*partition_by) if partition_by else written).saveAsTable(table)
        return
    with pytest.raises(OptionError, match=problem):
        sink.check(spark)
    with pytest.raises(PySparkException):
        (written.partitionBy(*partition_by) if partition_by else written).saveAsTable(table)


def test_partition_columns_follow_the_sessions_case(
    spark: SparkSession, writer: MixedStreamWriter, tmp_path: Path
) -> None:
    """As in Spark, K is k unless spark.sql.caseSensitive is set."""
    writer.format("json").partitionBy("K").plan()
    with (
        session_options(spark, {"spark.sql.caseSensitive": "true"}),
        pytest.raises(OptionError, match="partitionBy names K, which the output does not have"),
    ):
        writer.plan()
    assert content(tmp_path) == []


def test_a_path_that_is_not_ours(writer: MixedStreamWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table may lie where only Spark can write, and formats without a path do not look at one."""
    started: list[Any] = []
    monkeypatch.setattr(writer_module, "start_query", started.append)
    writer.option("path", "viewfs://cluster/tables/totals")
    for format in ("noop", "memory", "console"):
        assert writer.format(format).plan().sink.name == format
    writer.toTable("preflight_new", format="parquet")
    assert [(job.sink.table, job.sink.path) for job in started] == [("preflight_new", "viewfs://cluster/tables/totals")]


def test_an_external_table_among_checkpoints(writer: MixedStreamWriter, tmp_path: Path) -> None:
    """A path that can be compared is, whoever writes there."""
    with pytest.raises(OptionError, match="path and checkpointLocation are the same folder"):
        writer.option("path", str(tmp_path / "ck")).toTable("preflight_new", format="parquet")


@pytest.mark.parametrize("shape", ["struct()", "array(struct())"])
def test_a_struct_without_fields(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    """It cannot wait in Parquet files for its checkpoint, wherever the rows go from there."""
    rows = spark.sql("select 'a' as k, 1 as n")
    values = mixedmode.read(history=rows).groupBy("k").agg(F.first(F.expr(shape)).alias("x"))
    writer = values.writeStream.option("checkpointLocation", str(tmp_path / "ck"))
    with pytest.raises(PlanError, match="format parquet cannot hold the output"):
        writer.foreachBatch(lambda rows, number: None).start()
    assert content(tmp_path) == []


def test_a_name_that_no_memory_table_can_have(writer: MixedStreamWriter) -> None:
    """The name of the query is the name of a view."""
    writer.option("path", None)
    with pytest.raises(OptionError, match=r"^queryName is 'a-b c', which format \"memory\" cannot use"):
        writer.format("memory").queryName("a-b c").start()
    assert writer.queryName("a_b").plan().name == "a_b"


def claim(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]], writer: MixedStreamWriter) -> None:
    """Give a location to another job, whose operator is that of this one changed."""
    described = writer.described().operator.describe()
    store = CheckpointStore(fs.LocalFileSystem(), str(folder))
    store.claim(JobIdentity("other", (change(described),), 128, "orders"))


def test_the_location_of_another_job(writer: MixedStreamWriter, tmp_path: Path) -> None:
    """The other job is called by its query's name, and what differs is in plain words."""
    claim(tmp_path / "ck", lambda mine: {**mine, "windows": ["Column<'window(ts, 2 hours)'>"]}, writer)
    before = content(tmp_path)
    with pytest.raises(CheckpointMismatchError) as caught:
        writer.start()
    assert "belongs to another job (query 'orders', agg by k string, window struct<" in str(caught.value)
    assert "its windows are window(ts, 2 hours), this job's are window(ts, " in str(caught.value)
    assert "Column<" not in str(caught.value)
    assert content(tmp_path) == before


@pytest.mark.parametrize("unreadable", ["mixedmode/job.json", "mixedmode/checkpoints", "mixedmode/lease"])
def test_a_location_with_files_that_cannot_be_read(writer: MixedStreamWriter, tmp_path: Path, unreadable: str) -> None:
    """The error names the option, its value, and the file; nothing is written."""
    claim(tmp_path / "ck", dict, writer)
    file = tmp_path / "ck" / unreadable
    file.unlink(missing_ok=True)
    if unreadable.endswith(".json"):
        file.mkdir()  # as good as one that this user may not read, also for root
    else:
        file.touch()
    before = content(tmp_path)
    problem = rf"^checkpointLocation = '{tmp_path}/ck' cannot be read: .*{file}.*; allowed: a folder whose files"
    with pytest.raises(OptionError, match=problem) as caught:
        writer.start()
    assert caught.value.code == "MIXEDMODE_LOCATION_UNUSABLE"
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    "option",
    [
        "path",
        "checkpointLocation",
        "execution.savepoint.path",
        "execution.savepoint.on-sigterm",
        "pipeline.late-data.path",
        "state.local-dir",
        "sorter.spill-dir",
    ],
)
def test_a_location_that_no_file_system_can_have(writer: MixedStreamWriter, tmp_path: Path, option: str) -> None:
    """Python and Arrow only say that there is a null byte somewhere."""
    problem = rf"^{option} = '{tmp_path}/a\\x00b' cannot be reached: it contains a NUL character"
    with pytest.raises(OptionError, match=problem):
        writer.option(option, f"{tmp_path}/a\0b").start()
    assert content(tmp_path) == []


def test_the_checkpoints_of_a_location_are_listed_once(
    writer: MixedStreamWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much is asked about them: a store may be slow."""
    asked: list[str] = []
    monkeypatch.setattr(branch, "list_files", lambda *args: asked.append(args[1]) or list_files(*args))
    preflight.check_places(writer.option("checkpointLocation", str(tmp_path / "ck")).described())
    assert [path for path in asked if path.endswith("/checkpoints")] == [f"{tmp_path}/ck/mixedmode/checkpoints"]


def test_a_location_that_is_in_use(writer: MixedStreamWriter, tmp_path: Path) -> None:
    """A run that lives keeps its location."""
    claim(tmp_path / "ck", dict, writer)
    DriverLease(fs.LocalFileSystem(), str(tmp_path / "ck" / "mixedmode"), "first").take()
    with pytest.raises(CheckpointError, match=r"another driver \(run first, in this process\)"):
        writer.start()


def test_a_savepoint_in_a_place_that_cannot_be_reached(writer: MixedStreamWriter, tmp_path: Path) -> None:
    """The error has the code of locations and says what is allowed."""
    with pytest.raises(OptionError, match=r"^execution\.savepoint\.path = 'nowhere://s' cannot be reached: ") as caught:
        writer.option("execution.savepoint.path", "nowhere://s").start()
    assert caught.value.code == "MIXEDMODE_LOCATION_UNUSABLE" and "in a bucket that exists" in str(caught.value)
    assert content(tmp_path) == []


@pytest.mark.parametrize(
    ("made", "error", "what"),
    [
        ([], CheckpointError, "it does not exist"),
        (["plan.json"], CheckpointError, "it has no _metadata, so it was never finished"),
        (["mixedmode/job.json"], CheckpointError, "it is a checkpointLocation"),
        (["_metadata"], CorruptStateError, "is damaged"),
    ],
)
@pytest.mark.parametrize("format", ["parquet", "noop"])
def test_no_savepoint_to_begin_with(
    writer: MixedStreamWriter, tmp_path: Path, format: str, made: list[str], error: type[Exception], what: str
) -> None:
    """A path that holds no whole savepoint is refused with what is there; the location is not claimed."""
    for name in made:
        (tmp_path / "sp" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sp" / name).touch()
    before = content(tmp_path)
    if format == "noop":
        writer.option("checkpointLocation", None)
    with pytest.raises(error, match=rf"{tmp_path}/sp.*{what}") as caught:
        writer.format(format).option("execution.savepoint.path", str(tmp_path / "sp")).start()
    assert "execution.savepoint.path" in str(caught.value)
    assert content(tmp_path) == before


def test_on_a_cluster_local_folders_are_the_executors(
    writer: MixedStreamWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not looked for on the driver's host."""

    (tmp_path / "taken").touch()
    job = writer.option("state.local-dir", str(tmp_path / "taken")).described()
    with pytest.raises(OptionError, match=r"state\.local-dir"):
        preflight.check_places(job)

    monkeypatch.setattr(type(job.sink), "check_place", lambda *_: None)
    monkeypatch.setattr(preflight, "check_existing_rows", lambda *_: None)
    cluster = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://elsewhere:7077"))
    monkeypatch.setattr(preflight, "probe_places", lambda *_: None)  # a job on that cluster
    preflight.check_places(replace(job, spark=cluster))  # type: ignore[arg-type]
