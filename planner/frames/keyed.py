"""The result of a keyed stage: its schema, and the way to ``writeStream``.

There is one keyed stage per job for now, and nothing may follow it: what could follow without state is as easily done
by whoever reads the output, or in ``foreachBatch``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from pyspark.sql.types import StructType

from ...errors import PlanError
from ..inputs.inputs import Inputs
from ..stages.stage import KeyedStage
from .described import Described
from .writer import MixedStreamWriter

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class KeyedFrame(Described):
    """What comes out of the keyed stage; made by ``transformWithState`` or ``agg``."""

    def __init__(self, stage: KeyedStage) -> None:
        self._stage = stage

    @property
    def schema(self) -> StructType:
        return self._stage.output_schema

    def _read(self) -> Inputs:
        return self._stage.inputs

    def uid(self, uid: str) -> KeyedFrame:
        """Name the keyed stage: the id under which its state is stored, the same for the life of the state.

        It is what a savepoint's state is found by again when the job has changed.
        """
        if not isinstance(uid, str) or not _UID.fullmatch(uid):
            raise PlanError(
                f"uid({uid!r}) is not allowed: it names a folder; give 1 to 64 letters, digits, '_', '-' or '.', the"
                " first of them a letter or digit"
            )
        return KeyedFrame(replace(self._stage, uid=uid))

    @property
    def writeStream(self) -> MixedStreamWriter:
        """Where to and how, as PySpark's ``DataStreamWriter``."""
        return MixedStreamWriter(self._stage)

    @property
    def write(self) -> NoReturn:
        raise PlanError(f"write after the keyed stage is not supported; {_ACTION}")


def _refuse(name: str, hint: str) -> Callable[..., NoReturn]:
    def method(self: KeyedFrame, *args: Any, **kwargs: Any) -> NoReturn:
        raise PlanError(f"{name} after the keyed stage is not supported; {hint}")

    method.__name__ = name
    method.__doc__ = f"Not supported: {hint}."
    return method


_STATELESS = "do it before groupBy, in the stage itself, in foreachBatch, or in whatever reads the output"
_ACTION = (
    "the job runs by writeStream.start(); to look at its rows use"
    " writeStream.format('memory').queryName('t').trigger(availableNow=True).start().awaitTermination() and then"
    " spark.table('t')"
)
_STATEFUL = "a job has one keyed stage for now; write its output and start a second job on it"

for _name in (
    *("select", "selectExpr", "where", "filter", "withColumn", "withColumns", "withColumnRenamed", "drop"),
    *("withColumnsRenamed", "dropna", "fillna", "transform", "alias", "toDF", "withWatermark", "mapInPandas"),
    *("mapInArrow", "repartition", "coalesce", "union", "unionByName"),
):
    setattr(KeyedFrame, _name, _refuse(_name, _STATELESS))
for _name in (
    *("show", "collect", "count", "first", "head", "take", "tail", "toPandas", "toArrow", "toLocalIterator", "foreach"),
    *("foreachPartition", "cache", "persist", "createOrReplaceTempView", "createTempView", "writeTo", "isEmpty"),
):
    setattr(KeyedFrame, _name, _refuse(_name, _ACTION))
for _name in ("groupBy", "groupby", "agg", "join", "dropDuplicates", "distinct", "dropDuplicatesWithinWatermark"):
    setattr(KeyedFrame, _name, _refuse(_name, _STATEFUL))
