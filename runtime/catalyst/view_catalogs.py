"""Temporary views in the catalogs of sessions, as plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from ..jvm.gateway import java_session, session_state
from .spark_expressions import items

_ALL = "*"


class ViewCatalogs:
    """The catalogs of the sessions that views have been made in."""

    def __init__(self) -> None:
        #: By the session's id: its own object, since several of PySpark's may stand for one.
        self._sessions: dict[str, tuple[Any, Any]] = {}

    def add(self, spark: SparkSession) -> None:
        """Remember a session; one that is known already changes nothing."""
        session = java_session(spark)
        self._sessions.setdefault(str(session.sessionUUID()), (session, session_state(spark).catalog()))

    def plans(self) -> Iterator[Any]:
        """The plan of each temporary view, global ones among them."""
        for key, (session, catalog) in list(self._sessions.items()):
            if session.sparkContext().isStopped():
                del self._sessions[key]
                continue
            views = [catalog.getTempView(name) for name in items(catalog.getTempViewNames())]
            names = items(catalog.globalTempViewManager().listViewNames(_ALL))
            views += [catalog.getGlobalTempView(name) for name in names]
            yield from (view.get() for view in views if view.isDefined())
