"""Resolves ``pipeline.timers``: how rows and event-time timers of a key are ordered.

The default follows what was asked of the final watermark.  From then on ``Settings.timers`` holds what applies, whoever
chose it.
"""

from __future__ import annotations

from ...runtime.spec import Settings
from ..options.layers import ResolvedOptions

NAME = "pipeline.timers"


def resolve_timers(options: ResolvedOptions, *, needs_after_rows: bool = False) -> tuple[Settings, str]:
    """The settings with the order that applies, and why it does.

    Args:
        options: what was asked for.
        needs_after_rows: the job's one stage gets many keys at once, and no timer can fire between their rows.
    """
    settings = options.settings
    if settings.timers is not None:
        return settings, f"set by {options.given['timers'].origin}"
    if settings.final_watermark == "max":
        return settings.model_copy(update={"timers": "after-rows"}), "the default under final watermark max"
    if settings.final_watermark == "auto" and needs_after_rows:
        return settings.model_copy(update={"timers": "after-rows"}), "the only one for a processor with handleArrowRows"
    return settings.model_copy(
        update={"timers": "in-order"}
    ), f"the default under final watermark {settings.final_watermark}"
