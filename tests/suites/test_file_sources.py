"""FileStreamSourceSuite of Spark: what a query reads of files that land while it runs, by stock and by mixedmode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from session_options import session_options

from .watched import WAYS, Landing, Watched, both, read, running, source, table, whole

pytestmark = pytest.mark.suites
INFERRED = {"spark.sql.streaming.schemaInference": "true"}
KINDS = ("text", "json", "orc", "parquet")


def keep(frame: Any) -> Any:
    return frame.where(F.col("value").contains("keep"))


def land(spark: SparkSession, landing: Landing, kind: str, values: list[str]) -> None:
    if kind == "text":
        landing.text("\n".join(values))
    elif kind == "json":
        landing.text("\n".join(f"{{'value': '{one}'}}" for one in values))
    else:
        landing.rows(table(spark, values), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_land_before_and_after_a_restart_are_read_once(spark: SparkSession, folder: Path, kind: str) -> None:
    def run(way: str, at: Path) -> list[Any]:
        landing = Landing(at / "in", at / "tmp")
        watched, seen = Watched(at, lambda: keep(read(way, source(spark, kind, landing.folder)()))), []
        land(spark, landing, kind, ["drop1", "keep2", "keep3"])
        with running(watched):
            seen.append(watched.rows())
        land(spark, landing, kind, ["drop4", "keep5", "keep6"])
        with running(watched):
            seen.append(watched.rows())
            land(spark, landing, kind, ["drop7", "keep8", "keep9"])
            seen.append(watched.rows())
        return seen

    kept = [[(f"keep{n}",) for n in (2, 3, 5, 6, 8, 9)[:many]] for many in (2, 4, 6)]
    assert both(folder, run) == [kept] * 2


@pytest.mark.parametrize("special", [" ", "[", "[123]"])
def test_names_of_files_may_have_special_characters(spark: SparkSession, folder: Path, special: str) -> None:
    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in", at / "tmp")
        landing.text("drop1\nkeep2\nkeep3", name=f"text{special}text")
        with running(Watched(at, lambda: keep(read(way, source(spark, "text", landing.folder)())))) as watched:
            return watched.rows()

    assert both(folder, run) == [[("keep2",), ("keep3",)]] * 2


@pytest.mark.parametrize("special", [" ", "[", "[123]"])
def test_what_a_file_sink_has_written_into_a_folder_with_special_characters_is_read(
    spark: SparkSession, folder: Path, special: str
) -> None:
    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in", at / "tmp")
        landing.text("foo")
        out = at / f"text{special}text"
        writer = read(way, source(spark, "text", landing.folder)()).writeStream.format("text")
        query = writer.option("checkpointLocation", str(at / "first")).start(str(out))
        query.processAllAvailable()
        query.stop()
        escaped = str(out).replace("[", "\\[").replace("]", "\\]")
        with running(Watched(at, lambda: read(way, source(spark, "text", escaped, None)()))) as watched:
            return watched.rows()

    assert both(folder, run) == [[("foo",)]] * 2


def test_files_are_chosen_by_pathglobfilter(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path) -> Any:
        table(spark, ["foo"]).write.text(str(at / "in"))
        table(spark, ["bar"]).write.mode("append").orc(str(at / "in"))
        frame = source(spark, "text", at / "in", None, pathGlobFilter="*.txt")
        with running(Watched(at, lambda: read(way, frame()))) as watched:
            return watched.rows()

    assert both(folder, run) == [[("foo",)]] * 2


@pytest.mark.parametrize("below", ["", "type=X"])
def test_columns_of_json_are_inferred_from_the_files_that_are_there(
    spark: SparkSession, folder: Path, below: str
) -> None:
    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in" / below, at / "tmp")
        landing.text("{'c': 'drop1'}\n{'c': 'keep2'}\n{'c': 'keep3'}", name="existing.json")
        frame = source(spark, "json", landing.folder, None)
        with session_options(spark, INFERRED):
            watched = Watched(at, lambda: read(way, frame()).where(F.col("c").contains("keep")))
            with running(watched):
                landing.text("{'c': 'drop4'}\n{'c': 'keep5'}\n{'c': 'keep6'}")
                return watched.rows()

    kept = [(f"keep{n}",) for n in (2, 3, 5, 6)]
    assert both(folder, run) == [kept] * 2


@pytest.mark.parametrize("kind", ["json", "orc", "parquet"])
def test_columns_that_come_later_are_left_out_and_missing_ones_are_null(
    spark: SparkSession, folder: Path, kind: str
) -> None:
    """The columns are those of the time when the frame was made."""

    def put(landing: Landing, values: list[Any], ddl: str) -> None:
        if kind == "json":
            names = [one.split()[0] for one in ddl.split(", ")]
            for row in values:
                pairs = ", ".join(f"'{name}': {value!r}" for name, value in zip(names, row, strict=True))
                landing.text(f"{{{pairs}}}")
        else:
            landing.rows(table(spark, values, ddl), kind)

    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in", at / "tmp")
        put(landing, [("value0",)], "k string")
        with session_options(spark, INFERRED):
            live = source(spark, kind, landing.folder, None)()
            assert live.schema.simpleString() == "struct<k:string>"
            put(landing, [("value1", 0)], "k string, v int")
            watched, seen = Watched(at, lambda: read(way, live)), []
            with running(watched):
                put(landing, [("value2",)], "k string")
                seen.append(watched.rows())
                put(landing, [("value3", 1)], "k string, v int")
                seen.append(watched.rows())
                put(landing, [("value5",)], "v string")
                seen.append(watched.rows())
        return seen

    rows = [(f"value{n}",) for n in range(4)]
    assert both(folder, run) == [[rows[:3], rows, [*rows, (None,)]]] * 2


def test_globs_find_new_folders_and_nothing_beside_them(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path) -> Any:
        landing, seen = Landing(at / "in", at / "tmp"), []
        frame = source(spark, "text", f"{landing.folder}/*/*", None)
        with running(Watched(at, lambda: keep(read(way, frame())))) as watched:
            for content, below in (
                ("drop1\nkeep2", "subdir"),
                ("keep3", "subdir"),
                ("keep4", "subdir/subsubdir"),
                ("keep5", "subdir/subsubdir"),
            ):
                landing.text(content, below)
                seen.append(watched.rows())
            landing.text("keep6")
            landing.text("keep7", "subdir/subsubdir/subsubsubdir")
            landing.text("keep8", "subdir")
            seen.append(watched.rows())
        return seen

    kept = [(f"keep{n}",) for n in (2, 3, 4, 5, 8)]
    assert both(folder, run) == [[kept[: n + 1] for n in range(5)]] * 2


@pytest.mark.parametrize("how", ["with a glob", "without a glob", "inferred"])
def test_partitions_of_a_folder_are_columns_unless_a_glob_reaches_into_them(
    spark: SparkSession, folder: Path, how: str
) -> None:
    def run(way: str, at: Path) -> Any:
        landing, seen = Landing(at / "in", at / "tmp"), []
        path = f"{landing.folder}/*/*" if how == "with a glob" else landing.folder
        schema = None if how == "inferred" else "value string, partition string"
        if schema is None:
            landing.text("{'value': 'drop0'}", "partition=foo")
        with session_options(spark, INFERRED):
            live = source(spark, "json", path, schema)()
            with running(Watched(at, lambda: keep(read(way, live)))) as watched:
                for content, below in (
                    ("{'value': 'drop1'}\n{'value': 'keep2'}", "foo"),
                    ("{'value': 'keep3'}", "foo"),
                    ("{'value': 'keep4'}", "bar"),
                    ("{'value': 'keep5'}", "bar"),
                    ("{'value': 'keep6'}", "bar"),
                ):
                    landing.text(content, f"partition={below}")
                    seen.append(watched.rows())
        return seen

    parts = [None] * 5 if how == "with a glob" else ["foo", "foo", "bar", "bar", "bar"]
    kept = [(f"keep{n + 2}", part) for n, part in enumerate(parts)]
    assert both(folder, run) == [[kept[: n + 1] for n in range(5)]] * 2


SEAM = {"spark.sql.streaming.fileSink.log.compactInterval": "3"}
IGNORED = {"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"}


def _texts(spark: SparkSession, way: str, landing: Landing, out: Path, checkpoints: Path) -> Any:
    """A query that writes lines of text."""
    writer = read(way, source(spark, "text", landing.folder)()).writeStream.format("text")
    return writer.option("checkpointLocation", str(checkpoints)).start(str(out))


def test_outputs_of_another_query_are_read_while_it_writes(spark: SparkSession, folder: Path) -> None:
    """Nothing twice, and nothing that the other query has not committed."""

    def run(way: str, at: Path) -> Any:
        landing, seen = Landing(at / "in", at / "tmp"), []
        with session_options(spark, SEAM):
            first = _texts(spark, way, landing, at / "out", at / "first")
            landing.text("drop1\nkeep2")
            first.processAllAvailable()
            watched = Watched(at, lambda: keep(read(way, source(spark, "text", at / "out")())))
            try:
                with running(watched):
                    seen.append(watched.rows())
                    for word in ("keep3", "keep4"):
                        landing.text(word)
                        first.processAllAvailable()
                        seen.append(watched.rows())
            finally:
                first.stop()
        return seen

    kept = [("keep2",), ("keep3",), ("keep4",)]
    assert both(folder, run) == [[kept[:1], kept[:2], kept]] * 2


def test_outputs_of_two_queries_are_read_where_the_log_is_ignored(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path) -> Any:
        import shutil

        landing, other, seen = Landing(at / "in", at / "tmp"), Landing(at / "in2", at / "tmp2"), []
        with session_options(spark, {**SEAM, **IGNORED}):
            landing.text("keep0")
            first = _texts(spark, way, landing, at / "out", at / "first")
            first.processAllAvailable()
            first.stop()
            shutil.rmtree(at / "out" / "_spark_metadata", ignore_errors=True)
            second = _texts(spark, way, other, at / "out", at / "second")
            watched = Watched(at, lambda: keep(read(way, source(spark, "text", at / "out")())))
            try:
                with running(watched):
                    for words in ("drop1\nkeep2", "keep3", "keep4"):
                        other.text(words)
                        second.processAllAvailable()
                        seen.append(watched.rows())
            finally:
                second.stop()
        return seen

    kept = [("keep0",), ("keep2",), ("keep3",), ("keep4",)]
    assert both(folder, run) == [[kept[:2], kept[:3], kept]] * 2


def test_query_that_begins_before_another_one_reads_its_outputs(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in", at / "tmp")
        (at / "out").mkdir()
        with running(Watched(at, lambda: keep(read(way, source(spark, "text", at / "out")())))) as watched:
            watched.rows()
            landing.text("drop1\nkeep2")
            first = _texts(spark, way, landing, at / "out", at / "first")
            first.processAllAvailable()
            try:
                return watched.rows()
            finally:
                first.stop()

    assert both(folder, run) == [[("keep2",)]] * 2


def test_count_of_ten_thousand_files_that_a_filter_drops_is_zero(spark: SparkSession, folder: Path) -> None:

    def run(way: str, at: Path) -> Any:
        into = at / "in" / "a=1"
        into.mkdir(parents=True)
        for n in range(10_000):
            (into / f"{n}.txt").write_text(str(n))
        counts: list[Any] = []
        rows = read(way, spark.readStream.text(str(at / "in"))).where("1 == 0").groupBy().count()

        def take(frame: Any, number: int) -> None:
            counts.append(frame.collect())

        writer = rows.writeStream.outputMode("complete").foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(at / "checkpoints")).start()
        query.awaitTermination(300)
        return [tuple(row) for row in counts[-1]]

    with session_options(spark, {"spark.sql.sources.parallelPartitionDiscovery.threshold": "20000"}):
        assert both(folder, run) == [[(0,)]] * 2


def test_progress_counts_the_rows_of_a_file_and_of_its_source(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in", at / "tmp")
        with running(Watched(at, lambda: read(way, source(spark, "text", landing.folder)()))) as watched:
            landing.text("100")
            assert watched.rows() == [("100",)]
            progress = next(one for one in watched.query.recentProgress if one["numInputRows"] > 0)
        of_source = progress["sources"][0]
        return progress["numInputRows"], of_source["numInputRows"], of_source["processedRowsPerSecond"] > 0

    assert both(folder, run) == [(1, 1, True)] * 2


def test_sources_of_which_one_has_nothing_new_go_on_after_restarts(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path) -> Any:
        one, other, seen = Landing(at / "in1", at / "tmp"), Landing(at / "in2", at / "tmp"), []

        def united() -> Any:
            frames = [source(spark, "text", landing.folder)() for landing in (one, other)]
            return frames[0].union(frames[1]) if way == "stock" else read(way, frames[0]).union(read(way, frames[1]))

        watched = Watched(at, united)
        for number, sources in enumerate(((one, other), (one,), (other,), (one, other))):
            with running(watched):
                for landing in sources:
                    landing.text(f"{landing.folder.name}_{number}")
                seen.append(watched.rows())
        return seen

    stock, ours = both(folder, run)
    assert ours == stock
    assert [len(rows) for rows in stock] == [2, 3, 4, 6]


@pytest.mark.parametrize("forced", ["true", "false"])
def test_columns_may_be_null_as_in_stock(spark: SparkSession, folder: Path, forced: str) -> None:
    with session_options(spark, {"spark.sql.streaming.fileSource.schema.forceNullable": forced}):
        frames = [read(way, spark.readStream.schema("foo long not null").json(str(folder))) for way in WAYS]
        stock, ours = (frame.schema for frame in frames)
    assert ours == stock
    assert stock["foo"].nullable == (forced == "true")


@pytest.mark.parametrize(
    ("kind", "there", "schema"),
    [
        ("text", False, None),
        ("text", True, None),
        ("text", True, "userColumn string"),
        ("orc", True, None),
        ("orc", True, "userColumn string"),
        ("parquet", True, None),
        ("parquet", True, "userColumn string"),
        ("json", True, None),
        ("json", True, "userColumn string"),
    ],
)
def test_columns_of_a_reader_are_those_of_stock(
    spark: SparkSession, folder: Path, kind: str, there: bool, schema: str | None
) -> None:
    landing = Landing(folder / "in", folder / "tmp")
    if there:
        land(spark, landing, kind, ["a", "b", "c"])
    with session_options(spark, INFERRED):
        frames = [read(way, source(spark, kind, landing.folder, schema)()) for way in WAYS]
    assert frames[1].schema == frames[0].schema
    assert frames[0].columns == [schema.split()[0] if schema else "value"]


@pytest.mark.parametrize("how", ["delete", "archive"])
def test_outputs_of_a_query_are_not_cleaned_up(spark: SparkSession, folder: Path, how: str) -> None:
    """Each way refuses it, and the files stay."""
    landing = Landing(folder / "in", folder / "tmp")
    landing.text("keep1")
    query = _texts(spark, "stock", landing, folder / "out", folder / "first")
    query.processAllAvailable()
    query.stop()
    given = {"cleanSource": how, "sourceArchiveDir": str(folder / "archive"), "maxFilesPerTrigger": "1"}
    files = set((folder / "out").glob("*.txt"))
    for way in WAYS:
        with pytest.raises(Exception, match=r"(?i)clean"):
            whole(folder, way, source(spark, "text", folder / "out", **given))
    assert set((folder / "out").glob("*.txt")) == files != set()
