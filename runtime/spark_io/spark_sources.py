"""Finds what a frame reads, source by source; the options of a source are not public API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ...errors import OptionError
from ..catalyst.spark_expressions import class_name, items
from ..catalyst.spark_plans import analyzed, leaves
from ..jvm.gateway import java_class, name_of_class, scala_entries, scala_map
from ..jvm.spark_errors import spark_says
from ..support.redaction import redacted

_WILDCARD = re.compile(r"(?<!\\)[*?\[{]")
#: Where versions of Spark have what reads the options of a stream of files.
_FILE_OPTIONS = (
    "org.apache.spark.sql.execution.streaming.runtime.FileStreamOptions",
    "org.apache.spark.sql.execution.streaming.FileStreamOptions",
)
#: In a glob a character that means itself.
_ESCAPED = re.compile(r"\\([*?\[\]{}\\])")


class PlannedSource:
    """One leaf of a frame's plan; each question is asked when its answer is needed."""

    def __init__(self, leaf: Any) -> None:
        self._leaf = leaf

    @cached_property
    def kind(self) -> str:
        """Spark's name of the leaf, such as ``StreamingRelation``."""
        return class_name(self._leaf)

    @cached_property
    def is_streaming(self) -> bool:
        """True if it brings rows as time goes on."""
        return bool(self._leaf.isStreaming())

    @cached_property
    def name(self) -> str:
        """What Spark calls the source, such as ``FileSource[landing/]`` or ``kafka``."""
        named = self.kind in ("StreamingRelation", "StreamingRelationV2")
        return str(self._leaf.sourceName() if named else self._leaf.nodeName())

    @cached_property
    def options(self) -> dict[str, str]:
        """What it was given, names in lower case; empty where that cannot be told."""
        if self.kind == "StreamingRelation":
            return _texts(self._leaf.dataSource().options())
        if self.kind in ("StreamingRelationV2", "DataSourceV2Relation"):
            of_stream = self.kind == "StreamingRelationV2"
            given = (self._leaf.extraOptions() if of_stream else self._leaf.options()).asCaseSensitiveMap()
            return {str(key).lower(): str(given[key]) for key in given}
        if self._is_kafka_relation:
            return _private_options(self._leaf.relation())
        return {}

    @property
    def _is_kafka_relation(self) -> bool:
        return self.kind == "LogicalRelation" and class_name(self._leaf.relation()) == "KafkaRelation"

    @cached_property
    def paths(self) -> tuple[tuple[str, str], ...]:
        """The paths that it was given, folders or files: how far each goes without a wildcard, and what it has behind
        that; of tables none."""
        if self.kind == "LogicalRelation" and class_name(self._leaf.relation()) == "HadoopFsRelation":
            # These are what globs have found.
            roots = self._leaf.relation().location().rootPaths().mkString("\n").split("\n")
            return tuple((root, "") for root in dict.fromkeys(roots))
        if self.kind != "StreamingRelation":
            return ()
        named = [self.options["path"]] if "path" in self.options else []
        given = map(str, [*items(self._leaf.dataSource().paths()), *named])
        return tuple(dict.fromkeys(map(_split_at_wildcard, given)))

    @property
    def folders(self) -> tuple[str, ...]:
        """The paths, globs as far as their first wildcard."""
        return tuple(dict.fromkeys(folder for folder, _ in self.paths))

    @property
    def is_recursive(self) -> bool:
        """True if a stream of files looks into the folders below its own, too."""
        return self.options.get("recursivefilelookup", "").lower() == "true"

    @cached_property
    def kafka_end(self) -> str | None:
        """Of a batch read of Kafka where it ends, in Spark's words; None: it is none."""
        if self._is_kafka_relation:
            return str(self._leaf.relation().toString()).rpartition(" end=")[2]
        if self.kind == "DataSourceV2Relation" and str(self._leaf.table().name()) == "KafkaTable":
            return self.options.get("endingoffsets", "latest")
        return None

    @cached_property
    def kafka_begins(self) -> dict[str, dict[str, int]] | None:
        """Of a batch read of Kafka that gives the same rows, or fails, each time: where it begins, as its options say
        it; None: it is none, or may give others."""
        starts, ends = (self.options.get(name, "") for name in ("startingoffsets", "endingoffsets"))
        by_time = any("timestamp" in name for name in self.options)
        lenient = self.options.get("failondataloss", "true").lower() == "false"
        if self.kafka_end is None or by_time or lenient or not starts.startswith("{") or not ends.startswith("{"):
            return None
        if any(at < 0 for text in (starts, ends) for found in json.loads(text).values() for at in found.values()):
            return None
        begins: dict[str, dict[str, int]] = json.loads(starts)
        return begins


def check_file_options(frame: DataFrame) -> None:
    """Raise OptionError if a stream of files has an option that Spark refuses only when it makes the source."""
    spark = frame.sparkSession
    for source in sources(frame):
        if source.kind != "StreamingRelation" or not source.name.startswith("FileSource"):
            continue
        why = _refusal(spark, source.options)
        if why is not None:
            # Spark's message mostly names the option, but not always: the one that fails alone is it.
            wrong = [(name, value) for name, value in source.options.items() if _refusal(spark, {name: value}) == why]
            named = " with " + ", ".join(f"{name} = {value!r}" for name, value in wrong) if wrong else ""
            raise OptionError(redacted(f"live source {source.name}{named}: {why}"))


def _refusal(spark: SparkSession, options: Mapping[str, str]) -> str | None:
    """What Spark says against options of a stream of files; None: nothing."""
    place = name_of_class(spark, _FILE_OPTIONS)
    if place is None:
        return None
    try:
        java_class(spark, place)(scala_map(spark, options))
    except (Py4JJavaError, PySparkException) as error:
        return spark_says(error)
    except Py4JError:  # this version of Spark reads them in another way
        pass
    return None


def _texts(options: Any) -> dict[str, str]:
    """A map of Scala's, names in lower case."""
    return {name.lower(): value for name, value in scala_entries(options)}


def _private_options(relation: Any) -> dict[str, str]:
    """The options that Spark's batch read of Kafka was given, which it keeps to itself; empty: it cannot be asked."""
    try:
        field = relation.getClass().getDeclaredField("sourceOptions")
        field.setAccessible(True)
        return _texts(field.get(relation))
    except Py4JError:
        return {}


def fixed_ends(frame: DataFrame, topic: str) -> dict[int, int] | None:
    """The ends, by partition, up to which a frame reads a topic of Kafka; None: it is no read of that topic alone."""
    found = sources(frame)
    end = found[0].kafka_end if len(found) == 1 else None
    if end is None or is_open(end):
        return None
    if end.startswith("{"):
        offsets = json.loads(end)
        return {int(number): at for number, at in offsets[topic].items()} if offsets.keys() == {topic} else None
    ends = re.findall(r"([\w.-]+)-(\d+) -> (\d+)", end)
    return {int(number): int(at) for _, number, at in ends} if {name for name, _, _ in ends} == {topic} else None


def is_open(kafka_end: str) -> bool:
    """True for an end of a batch read of Kafka that is another one each time it is read."""
    return kafka_end.lower().startswith("latest") or re.search(r"(->|:) *-1\b", kafka_end) is not None


def _split_at_wildcard(path: str) -> tuple[str, str]:
    found = _WILDCARD.search(path)
    at = len(path) if found is None else path.rfind("/", 0, found.start()) + 1
    return _ESCAPED.sub(r"\1", path[:at]), path[at:]


def sources(frame: DataFrame) -> list[PlannedSource]:
    """Everything that a frame reads, in the order of its plan."""
    return [PlannedSource(leaf) for leaf in leaves(analyzed(frame))]


def log_numbers(frame: DataFrame) -> tuple[int, ...]:
    """Under which number Spark's log keeps what each streaming source of a frame has read, in the order of its plan.

    A streaming frame that is read in several places is one source with one log; its offset is told in each place.
    """
    found: list[Any] = []
    numbers = []
    for leaf in leaves(analyzed(frame)):
        if leaf.isStreaming():
            same = next((number for number, other in enumerate(found) if other.equals(leaf)), None)
            if same is None:
                found.append(leaf)
            numbers.append(len(found) - 1 if same is None else same)
    return tuple(numbers)
