"""Plans ``execution.backlog.rows-per-call``: how a key's rows are cut into calls of a function."""

from __future__ import annotations

from ...errors import PlanError, not_supported
from ...runtime.protocols.rows_per_call import RowsPerCall
from ...runtime.spec import Settings
from ..options.values import format_rows_per_call

NAME = "execution.backlog.rows-per-call"


def rows_per_call(
    settings: Settings, spoken: str, event_time: str | None, whole_keys: str | None
) -> RowsPerCall | None:
    """The cut that a stage's calls have; None: nobody asked for one.

    Args:
        settings: of the job.
        spoken: the user's code.
        event_time: the stage's; None: it has none.
        whole_keys: why each call gets all rows of its keys; None: it need not.

    Raises:
        PlanError: the stage's rows cannot be cut like that.
    """
    cut = settings.rows_per_call
    if cut is None:
        return None
    asked = f"{NAME} is {format_rows_per_call(cut)}"
    if whole_keys is not None:
        raise not_supported(f"{asked}, but {spoken} {whole_keys}; leave the option unset")
    if cut.span_ms is not None and event_time is None:
        raise PlanError(
            f"{asked}, a span of event time, but {spoken} has no event time; give a number of rows, such as 10000, or"
            " call withWatermark('<column>', '<delay>') before groupBy"
        )
    return cut
