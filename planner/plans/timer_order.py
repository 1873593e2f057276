"""How rows and event-time timers of a key are ordered: ``pipeline.timers`` of a job.

The default follows the final watermark, so it is known only when that is.  From then on ``Settings.timers`` holds what
applies, whoever chose it.
"""

from __future__ import annotations

from ...runtime.spec import Settings
from ..options.layers import ResolvedOptions

NAME = "pipeline.timers"


def resolve_timers(settings: Settings, options: ResolvedOptions) -> tuple[Settings, str]:
    """The settings with the order that applies, and why it does.

    Args:
        settings: with the final watermark that applies.
        options: what was asked for.
    """
    if settings.timers is not None:
        return settings, f"set by {options.given['timers'].origin}"
    if settings.final_watermark == "observed":
        return settings.model_copy(update={"timers": "in-order"}), "the default under final watermark observed"
    return settings.model_copy(update={"timers": "after-rows"}), "the default under final watermark max"
