"""A keyed stage as it is described, before its operator is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from ...errors import PlanError
from ...runtime.operators.contract import KeyedOperator
from ...runtime.spec import Settings
from ..inputs.event_time import Watermark
from ..inputs.inputs import Inputs

if TYPE_CHECKING:
    from ...runtime.protocols.operator_events.coordinator import OperatorCoordinator

#: Id under which the state of a job's only keyed stage is stored; part of the on-disk contract.
STAGE_UID = "keyed-0"
OUTPUT_MODES = ("append", "update", "complete")


@dataclass(frozen=True)
class StageInput:
    """The rows that a keyed stage gets."""

    inputs: Inputs
    watermark: Watermark | None
    #: Their columns, as the user knows them.
    schema: StructType


@dataclass(frozen=True)
class KeyedStage:
    """A described keyed stage; its operator is built when the output mode and the settings are known."""

    #: With a real column for each key that the operator asks for by name.
    inputs: Inputs
    watermark: Watermark | None
    #: Columns that a row of the job has, as the user knows them.
    input_schema: StructType
    output_schema: StructType
    #: The output mode that the stage itself was given; None: it takes the writer's.
    output_mode: str | None
    #: Makes the operator, given its uid and the output mode.
    build: Callable[[str, str, Settings], KeyedOperator]
    #: Output columns that are the key of the group that a row is of; None: a processor's rows are of no group.
    output_key: tuple[str, ...] | None = None
    #: Exchanges events with the stage's shards; None: nobody does.
    coordinator: OperatorCoordinator | None = None
    #: Id under which its state is stored.
    uid: str = STAGE_UID


def check_output_mode(value: Any, what: str, usable: str) -> str:
    """The output mode in lower case; ``usable`` says which a job can have: not all that are known can be used."""
    mode = value.strip().lower() if isinstance(value, str) else value
    if mode not in OUTPUT_MODES:
        raise PlanError(f"{what} is {value!r}; use {usable}")
    return str(mode)
