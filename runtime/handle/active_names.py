"""Names of active queries: a name stands for one query of a session at a time, as in stock Spark."""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

from pyspark.sql import SparkSession

from ...errors import OptionError


class Named(Protocol):
    """A query of ours."""

    @property
    def name(self) -> str | None:
        """What the user calls it."""

    @property
    def isActive(self) -> bool:
        """True while it runs."""


class ActiveNames:
    """The queries of this process that have a name, by session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[int, weakref.WeakSet[Named]] = {}

    def take(self, query: Named, spark: SparkSession) -> None:
        """Note the name of a query that begins.

        Raises:
            OptionError: another query of the session has it, one of ours or of stock Spark's, and is active.
        """
        name = query.name
        if name is None:
            return
        with self._lock:
            ours = self._queries.setdefault(id(spark), weakref.WeakSet())
            others = [other.name for other in ours if other is not query and other.isActive]
            if name in (*others, *(other.name for other in spark.streams.active)):
                raise OptionError(
                    f"queryName is {name!r}, but an active query of this session has that name; stop that query, or set"
                    " another name",
                    code="MIXEDMODE_OPTION_CONFLICT",
                )
            ours.add(query)


#: Those of this process.
ACTIVE_NAMES = ActiveNames()
