"""Checks at ``start()`` what readers of an output folder would see of rows that are added to it.

A reader goes by what it finds in the folder, not by who wrote last.  A log of a stock streaming query tells it which
files there are, and it looks at no other; of files beside ``column=value`` folders it sees one kind only.  So rows may
be written, committed and never read by anybody.

Which entries count is Spark's rule: names that begin with ``_`` (without ``=``) or ``.`` are nobody's data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ....errors import OptionError
from ...catalyst.spark_session import is_on
from ...jvm.spark_errors import spark_says
from ...storage.spark_paths import UNREACHABLE, HadoopPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

#: Where a stock streaming query that writes files keeps its log of them.
_LOG = "_spark_metadata"
#: The session's setting by which its own readers do not look at such a log.
_IGNORED = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
#: A great folder is not read to its end: its layout shows early.
_LOOKED_AT = 2000


@dataclass(frozen=True)
class OutputFolder:
    """A folder of files, through Hadoop as Spark reaches it.

    Args:
        spark: the session.
        option: the name of its option.
        written: its value as the user gave it.
        uri: the same for Spark.
    """

    spark: SparkSession
    option: str
    written: str
    uri: str

    def check_shown(self, partition_by: Sequence[str], fold: Callable[[str], str]) -> None:
        """Raise OptionError if readers of the folder would not see what is added to it.

        Args:
            partition_by: columns by which it will be laid out.
            fold: makes names equal that the session takes for one.
        """
        try:
            if self._place().exists():
                self._check_log()
                self._check_layout(tuple(partition_by), fold)
        except UNREACHABLE as error:
            logger.warning("the content of %r is unknown: %s", self.written, spark_says(error))

    def has_files(self) -> bool:
        """Whether readers would find files in it now; False if that cannot be told."""
        try:
            return self._place().exists() and self._layout() is not None
        except UNREACHABLE as error:
            logger.warning("what %r holds cannot be told yet: %s", self.written, spark_says(error))
            return False

    def _place(self, below: str = "") -> HadoopPlace:
        return HadoopPlace(self.spark, f"{self.uri}/{below}" if below else self.uri)

    def _check_log(self) -> None:
        if is_on(self.spark, _IGNORED, default=False):
            return
        if self._place(_LOG).exists():
            raise OptionError(
                f"{self.option} = {self.written!r} is the output of a stock streaming query: its {_LOG} lists the files"
                " that Spark's readers see, and those of this job would not be among them; give this job a folder of"
                " its own",
                code="MIXEDMODE_LAYOUT_DIFFERS",
            )

    def _check_layout(self, partition_by: tuple[str, ...], fold: Callable[[str], str]) -> None:
        held = self._layout()
        if held is None or list(map(fold, held)) == list(map(fold, partition_by)):
            return
        there = f"laid out by {', '.join(held)}" if held else "not laid out in folders"
        if self.option != "path":  # whose layout nobody chooses
            own = f"laid out by {', '.join(partition_by)}" if partition_by else "not laid out in folders"
            raise OptionError(
                f"what {self.option} = {self.written!r} holds is {there}, and what this job adds is {own}: readers"
                " would see one of the two only, or fail; give another folder",
                code="MIXEDMODE_LAYOUT_DIFFERS",
            )
        asked = f"partitionBy is {', '.join(partition_by)}" if partition_by else "partitionBy is not set"
        use = f"use .partitionBy({', '.join(map(repr, held))})" if held else "leave partitionBy out"
        raise OptionError(
            f"{asked}, but what {self.option} = {self.written!r} holds is {there}, and readers would see one of the two"
            f" only, or fail; {use}, or give another folder",
            code="MIXEDMODE_LAYOUT_DIFFERS",
        )

    def _layout(self, below: str = "") -> tuple[str, ...] | None:
        """The columns of its folders, none for files in the folder itself; None: there are no files."""
        folders: list[str] = []
        for name, is_file in self._place(below).entries(_LOOKED_AT):
            if is_file and not is_hidden(name):
                return ()
            if not is_file and "=" in name and not name.startswith("."):
                folders.append(name)
        for name in folders:
            rest = self._layout(f"{below}/{name}" if below else name)
            if rest is not None:
                return (unquote(name.partition("=")[0]), *rest)
        return None


def is_hidden(name: str) -> bool:
    """Whether readers skip a file or folder of that name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
