"""The files that frames read as numbers: by modification time, files of one time by their paths.

A number is 43 bits at most.  Where all times differ it is the time, in milliseconds.  Else it is the place in the list
of all files, which tasks look up by a hash of the path: two steps into tables of constants, however many files there
are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..catalyst.spark_expressions import constant
from ..catalyst.spark_plans import analyzed
from ..jvm.gateway import scala_sequence

#: A file: when it was modified, in milliseconds, and its path.
ReadFile = tuple[int, str]

#: Bits of a file's number.
NUMBER_BITS = 43
#: How Hadoop writes what it knows of a file.
_STATUS = re.compile(r"path=(.*?); isDirectory=(?:true|false);.*?; modification_time=(-?\d+)")
_IS_STATUS = "; isDirectory="
#: The bits of a path's hash that choose the first table's entry are those below; the others choose the second one's.
_HIGH_BITS = 32
#: The second table has no more entries for one of the first; more are asked for only by paths with one hash.
_MOST_ENTRIES = 1000
_BETWEEN_PATHS = "\0"
#: What stands in a URI's path as it is; Java leaves letters of other alphabets there, too.
_PLAIN = frozenset("_-!.~'()*,;:$&+=/@")


def listed_files(spark: SparkSession, location: Any) -> list[ReadFile] | None:
    """The files of Spark's file index; None: it does not tell them."""
    try:
        found = location.allFiles()
    except Py4JError:  # the files of a partitioned table are listed when it is read
        nothing = scala_sequence(spark, [])
        found = location.listFiles(nothing, nothing)
    text = str(found.mkString("\n"))
    files = [(int(time), path) for path, time in _STATUS.findall(text)]
    return files if len(files) == text.count(_IS_STATUS) else None


def file_number(spark: SparkSession, files: Iterable[ReadFile]) -> str | None:
    """The number of a row's file, as SQL over the columns of its scan; None: it cannot be had.

    Args:
        spark: the session.
        files: all files that are compared.
    """
    ordered = sorted(set(files))
    times = {time for time, _ in ordered}
    if len(times) == len(ordered) and all(0 <= time < 1 << NUMBER_BITS for time in times):
        return "unix_millis(_metadata.file_modification_time)"
    tables = _tables(_hashes(spark, [_as_uri(path) for _, path in ordered]))
    if tables is None:
        return None
    starts, sizes, numbers = (f"CAST(split('{','.join(map(str, table))}', ',') AS ARRAY<INT>)" for table in tables)
    code = f"(xxhash64(_metadata.file_path) & {2**63 - 1}L)"
    first = f"CAST({code} % {len(tables[0])} AS INT)"
    second = f"CAST(shiftright({code}, {_HIGH_BITS}) % get({sizes}, {first}) AS INT)"
    return f"CAST(get({numbers}, get({starts}, {first}) + {second}) AS BIGINT)"


def _as_uri(path: str) -> str:
    """A path as ``_metadata.file_path`` has it."""

    def is_plain(character: str) -> bool:
        return character in _PLAIN or (character.isprintable() and (character.isalnum() or not character.isascii()))

    return "".join(
        one if is_plain(one) else "".join(f"%{byte:02X}" for byte in one.encode(errors="surrogatepass")) for one in path
    )


def _hashes(spark: SparkSession, paths: Sequence[str]) -> list[int]:
    """What ``xxhash64`` gives for paths, without its sign; asked in one go, and without a job."""
    texts = F.transform(F.split(F.lit(_BETWEEN_PATHS.join(paths)), _BETWEEN_PATHS), lambda path: F.xxhash64(path))
    plan = analyzed(spark.range(0).select(F.array_join(texts.cast("array<string>"), ",").alias("hashes")))
    found = str(constant(plan.projectList().apply(0).child()))
    return [int(one) & (2**63 - 1) for one in found.split(",")]


def _tables(hashes: Sequence[int]) -> tuple[list[int], list[int], list[int]] | None:
    """Where the entries of each first choice begin, how many they are, and the place of each hash in the sequence.

    None: two of the hashes are too much alike.
    """
    chosen: list[list[int]] = [[] for _ in hashes]
    for place, code in enumerate(hashes):
        chosen[code % len(hashes)].append(place)
    starts: list[int] = []
    sizes: list[int] = []
    numbers: list[int] = []
    for places in chosen:
        highs = [hashes[place] >> _HIGH_BITS for place in places]
        sizes_tried = range(max(1, len(highs)), _MOST_ENTRIES)
        fitting = (size for size in sizes_tried if len({high % size for high in highs}) == len(highs))
        size = next(fitting, None)
        if size is None:
            return None
        starts.append(len(numbers))
        sizes.append(size)
        entries = [0] * size
        for place, high in zip(places, highs, strict=True):
            entries[high % size] = place
        numbers += entries
    return starts, sizes, numbers
