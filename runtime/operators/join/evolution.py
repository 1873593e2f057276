"""Decides what a join may do with the waiting rows of another version of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import CheckpointMismatchError, StateSchemaError
from .columns import SIDE_NAMES
from .definition import HEADS

if TYPE_CHECKING:
    from ....state.keys.registry import StateRegistry
    from .definition import StreamJoin

#: For each kind of join those that can take its state over: what they need to know of its rows is known.
_GOES_ON = {
    "inner": ("inner",),
    "left": ("left", "inner"),
    "right": ("right", "inner"),
    "full": ("full", "left", "right", "inner"),
    "leftsemi": ("leftsemi",),
}


def join_record(join: StreamJoin) -> dict[str, Any]:
    """What a checkpoint says of the state besides its columns."""
    return {
        "how": join.how,
        "eventTimes": [side.event_time for side in join.sides],
        "keepUs": [side.keep_us for side in join.sides],
        "condition": join.condition_text,
    }


def changes_of(join: StreamJoin, stored: StateRegistry, record: dict[str, Any] | None) -> list[str]:
    """What becomes of the rows that wait, in words.

    Args:
        join: the join that is to go on with them.
        stored: the registry that they were written under.
        record: what was said of them.

    Raises:
        StateSchemaError: a side has other columns.
        CheckpointMismatchError: the state lacks what this kind of join needs.
    """
    _check_columns(join, stored)
    if record is None:
        return []
    changes = []
    how = record["how"]
    if join.how not in _GOES_ON[how]:
        allowed = ", ".join(_GOES_ON[how])
        raise CheckpointMismatchError(
            f"the state is that of a {how} join, which does not know what a {join.how} join needs of the rows that "
            f"wait; it can go on as: {allowed}. Start with another checkpointLocation, or with another uid"
            " [upgrade:U14]",
            code="MIXEDMODE_STATE_EVOLUTION",
        )
    if join.how != how:
        changes.append(f"the {how} join goes on as a {join.how} join: of rows that wait only pairs go out")
    for name, side, event_time, keep_us in zip(
        SIDE_NAMES, join.sides, record["eventTimes"], record["keepUs"], strict=True
    ):
        if side.event_time != event_time and (side.keep_us is not None or keep_us is not None):
            raise CheckpointMismatchError(
                f"the {name} rows that wait have {event_time!r} as event time, the {name} side has "
                f"{side.event_time!r} now, by which nothing tells when those are over; keep it, or start with another "
                "checkpointLocation [upgrade:U14]"
            )
        if side.keep_us != keep_us:
            changes.append(
                f"{name} rows wait {_duration(side.keep_us)} now, they waited {_duration(keep_us)}; those that were "
                "over by then do not come back"
            )
    if join.condition_text != record["condition"]:
        changes.append("pairs are tested by another condition from now on")
    return changes


def _check_columns(join: StreamJoin, stored: StateRegistry) -> None:
    before, now = stored.get(HEADS).schema, join.state_schema()
    for place in range(max(len(before), len(now))):
        old = before.field(place) if place < len(before) else None
        new = now.field(place) if place < len(now) else None
        if old is None or new is None or old.name != new.name or old.type != new.type:
            raise StateSchemaError(
                f"the rows that wait in the state have {_column(old)} where the join has {_column(new)}; the columns "
                "of both sides must stay as they are, or start with another checkpointLocation [upgrade:U14]",
                code="MIXEDMODE_STATE_EVOLUTION",
            )


def _column(field: Any) -> str:
    return "no column" if field is None else f"column {field.name!r} ({field.type})"


def _duration(keep_us: int | None) -> str:
    return "for ever" if keep_us is None else f"{keep_us / 1_000_000:g} s after their event time"
