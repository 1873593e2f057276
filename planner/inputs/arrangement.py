"""Puts a whole result in order or cuts it short: the rows are staged first, so only columns of the result can be used.

Spark sorts by columns that a ``select`` has hidden, too.  Where that is asked for, the stage's own rows are staged, and
all that was done to them is done where the result is shown, so that Spark finds the column there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from ...errors import PlanError
from ...runtime.catalyst.spark_plans import is_repeatable
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.jvm.log_levels import unlogged
from ...runtime.jvm.spark_errors import error_text
from ...runtime.operators.frame_steps import FrameStep, stepped
from .event_time import CARRIER, without_carrier
from .inputs import Inputs


def arranged(inputs: Inputs, what: str, function: Callable[[DataFrame], DataFrame]) -> Inputs:
    """The outputs of stages, with a whole result put in order or cut short by a function.

    Args:
        inputs: they.
        what: names the function.
        function: is applied to all rows of the result each time that it is shown.

    Raises:
        AnalysisException: Spark's own, if the columns do not take it.
        PlanError: these are no outputs of stages, or the function needs a column that they do not have any more.
    """
    if not inputs.outputs:
        raise PlanError(
            f"{what} needs a whole result, and a stream's rows never are one; call it after agg(…), with"
            " outputMode complete"
        )
    function(inputs.shown)
    step = FrameStep(what, function)
    try:
        return _as_shown(inputs, (*inputs.arrangement, step))
    except AnalysisException as error:
        moved = _with_all_that_hides(inputs, step)
        if moved is None:
            columns = without_carrier(inputs.template.schema).fieldNames()
            raise PlanError(
                f"{what} needs a column that is not in the result any more: {error_text(error)} The result has"
                f" {', '.join(columns)}; call {what} before the column is renamed or left out"
            ) from error
        return moved


def _as_shown(inputs: Inputs, arrangement: tuple[FrameStep, ...]) -> Inputs:
    """The same with an arrangement; Spark's AnalysisException if the columns that are staged do not take it."""
    with unlogged():
        stepped(empty_frame(inputs.spark, inputs.template.schema), arrangement)
    return replace(inputs, arrangement=arrangement)


def _with_all_that_hides(inputs: Inputs, step: FrameStep) -> Inputs | None:
    """The same with all that is done to the stage's rows where the result is shown; None: it cannot be done there."""
    part = inputs.parts[0]
    if len(inputs.parts) > 1 or part.origin is None or any(one.metrics is not None for one in part.steps):
        return None
    own = part.origin.output.parts[0]
    rows = replace(inputs, parts=(replace(part, frame=own.frame, steps=own.steps),))
    # Nothing that comes behind needs the event time that users do not see.
    last = FrameStep(step.what, lambda frame: step(frame).drop(CARRIER))
    try:
        found = _as_shown(rows, (*part.steps[len(own.steps) :], *inputs.arrangement, last))
    except AnalysisException:
        return None
    return found if is_repeatable(found.shown) else None  # the whole result is shown once more after a failure
