"""What is given to ``foreach`` and ``foreachBatch`` in test_sink_functions.py, and the record of its calls."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


class Recorded:
    """A writer whose calls leave a file each.

    Args:
        folder: of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, kind: str, text: str) -> None:
        (self._folder / uuid.uuid4().hex).write_text(f"{kind} {text}")


class OnlyProcess(Recorded):
    def process(self, row: Any) -> None:
        self.note("row", row.value)


class WithoutOpen(OnlyProcess):
    def close(self, error: Any) -> None:
        self.note("close", str(error).strip().rsplit("\n", 1)[-1])


class WithoutClose(OnlyProcess):
    def open(self, partition_id: int, epoch_id: int) -> bool:
        self.note("open", "")
        return True


class Whole(WithoutClose, WithoutOpen):
    """All three methods."""


class Unopened(Whole):
    def open(self, partition_id: int, epoch_id: int) -> bool:
        super().open(partition_id, epoch_id)
        return False


class Raising(WithoutOpen):
    def process(self, row: Any) -> None:
        raise RuntimeError("this row cannot be written")


class NoProcess:
    def open(self, partition_id: int, epoch_id: int) -> bool:
        return True


class ProcessIsNoMethod:
    process = True


class OpenIsNoMethod:
    open = True

    def process(self, row: Any) -> None:
        pass


class CloseIsNoMethod:
    close = True

    def process(self, row: Any) -> None:
        pass


def simple(folder: Path) -> Callable[[Any], None]:
    recorded = Recorded(folder)
    return lambda row: recorded.note("row", row.value)


def events(folder: Path) -> tuple[list[str], set[str]]:
    """The rows that were processed, and which other calls there were."""
    found = [path.read_text() for path in folder.iterdir()]
    return sorted(one for one in found if one.startswith("row")), {one for one in found if not one.startswith("row")}


def _two() -> int:
    return 2


def appended(frame: DataFrame, out: str, number: int) -> None:
    frame.write.mode("append").parquet(out)


def by_view(frame: DataFrame, out: str, number: int) -> None:
    frame.createOrReplaceTempView("updates")
    frame.sparkSession.sql("SELECT concat(value, '!') AS value FROM updates").write.mode("append").parquet(out)


def beside_made_rows(frame: DataFrame, out: str, number: int) -> None:
    made = frame.sparkSession.createDataFrame([("structured",), ("streaming",)], "value string")
    made.union(frame).write.mode("append").parquet(out)


def beside_read_rows(frame: DataFrame, out: str, number: int) -> None:
    frame.write.parquet(f"{out}-first-{number}")
    read = frame.sparkSession.read.parquet(f"{out}-first-{number}")
    read.union(frame).write.mode("append").parquet(out)


def calling_functions(frame: DataFrame, out: str, number: int) -> None:
    def three() -> int:
        return 3

    made = frame.sparkSession.createDataFrame([(str(_two()),), (str(three()),)], "value string")
    made.write.mode("append").parquet(out)


def with_module(frame: DataFrame, out: str, number: int) -> None:
    time.sleep(0)
    appended(frame, out, number)


def with_column_from_outside(frame: DataFrame, out: str, number: int, column: Any) -> None:
    frame.select(F.upper(column).alias("value")).write.mode("append").parquet(out)
