"""``withWatermark`` on a streaming frame before ``read()``: taken over, so that it is the job's and not Spark's own."""

from __future__ import annotations

from dataclasses import replace

from ...errors import PlanError
from ...runtime.catalyst.spark_plans import has_node, without_nodes
from .event_time import Watermark, check_event_time, marked
from .inputs import InputPart, Inputs

#: Spark's node, and the entry of a column's metadata with the delay.
_NODE, _DELAY = "EventTimeWatermark", "spark.watermarkDelayMs"


def take_over_watermark(inputs: Inputs) -> tuple[Inputs, Watermark | None]:
    """The inputs without watermarks of Spark's, and the watermark of the job that they say.

    Raises:
        PlanError: they say no one watermark: of other columns, or of one that has gone since, or not all live inputs
            have one.
    """
    found = {live.name: _said_by(live) for live in inputs.lives if has_node(live.frame, _NODE)}
    if not found:
        return inputs, None
    columns = {column for column, _ in found.values()}
    if len(columns) > 1 or len(found) < len(inputs.lives):
        said = ", ".join(f"{name} of {column}" for name, (column, _) in found.items())
        raise PlanError(
            f"not all live inputs have a watermark of one column ({said}); call withWatermark on what mixedmode.read()"
            " returns",
            code="MIXEDMODE_STATE_IN_INPUT",
        )
    [column] = columns
    check_event_time(column, inputs.schema[column].dataType)
    bare = [
        replace(part, frame=without_nodes(part.frame, _NODE)) if part.name in found else part for part in inputs.parts
    ]
    cleaned = replace(inputs, parts=tuple(bare)).map("withWatermark", lambda frame: marked(frame, column))
    delays = {name: delay_ms for name, (_, delay_ms) in found.items()}
    several = tuple(delays.items()) if len(delays) > 1 else ()
    return cleaned.timed(column), Watermark(column, max(delays.values()), several)


def _said_by(live: InputPart) -> tuple[str, int]:
    """Column and delay of a live input's own watermark."""
    fields = [field for field in live.frame.schema.fields if _DELAY in (field.metadata or {})]
    if len(fields) != 1:
        what = "in several columns" if fields else "in none of its columns any more"
        raise PlanError(
            f"{live.name} has a watermark of its own, whose event time is {what}; call withWatermark on what"
            " mixedmode.read() returns",
            code="MIXEDMODE_STATE_IN_INPUT",
        )
    return fields[0].name, int(fields[0].metadata[_DELAY])
