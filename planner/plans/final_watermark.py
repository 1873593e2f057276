"""What fires at the switch by default, and what may be asked for: ``execution.backlog.final-watermark`` of a job.

The default depends on the job, so it is known only when the whole job is.  From then on ``Settings.final_watermark``
holds what applies, whoever chose it: that is what every reader of the settings sees.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import OptionError
from ...runtime.spec import Settings
from ..options.layers import ResolvedOptions

NAME = "execution.backlog.final-watermark"
_FIELD = "final_watermark"
#: Output modes in which a group's row takes the place of the one before it.
_REPLACING_MODES = ("update", "complete")
_WHY_OBSERVED = (
    "a group's row replaces the one before it, so after MAX_WATERMARK a window that straddles the switch would start"
    " again at nothing, and its live part would overwrite its total"
)
_WHY_OBSERVED_BETWEEN = (
    "after MAX_WATERMARK a later stage would get the first part of a window that straddles the switch, and then the"
    " rest of it as if it were another one"
)


@dataclass(frozen=True)
class FinalWatermark:
    """The settings with the final watermark that applies, and why it does."""

    settings: Settings
    reason: str


def resolve_final_watermark(
    options: ResolvedOptions,
    *,
    is_aggregate: bool,
    output_mode: str,
    stages: int = 1,
    why_observed: str | None = None,
    prefers_observed: str | None = None,
    kind: str | None = None,
) -> FinalWatermark:
    """The final watermark of the backlog: what was asked for, or else the default for this job.

    Args:
        options: what was asked for.
        is_aggregate: the last keyed stage is an aggregate; False: a processor or a deduplication.
        output_mode: of that stage.
        stages: how many the job has.
        why_observed: why a deduplication, or an aggregate over grouping sets, cannot have MAX_WATERMARK at the switch;
            None: there is none, or it can.
        prefers_observed: why a processor of two inputs has MAX_WATERMARK only if it is asked for; None: there is none.
        kind: what that stage is, if it is none of these.

    Raises:
        OptionError: ``max`` was asked for a job in which it would overwrite results by parts of them, or repeat them.
    """
    settings, given = options.settings, options.given.get(_FIELD)
    if stages > 1:
        what, why, instead = f"a job of {stages} keyed stages", _WHY_OBSERVED_BETWEEN, ""
    elif is_aggregate and output_mode in _REPLACING_MODES:
        what, why = f"an aggregate in outputMode {output_mode}", _WHY_OBSERVED
        instead = ", or outputMode append" if why_observed is None else ""
    elif why_observed is not None:
        what, why, instead = kind or ("grouping sets" if is_aggregate else "a deduplication"), why_observed, ""
    elif prefers_observed is not None and given is None:
        observed = settings.model_copy(update={_FIELD: "observed"})
        return FinalWatermark(observed, f"the default for two inputs: {prefers_observed}")
    else:
        return FinalWatermark(settings, f"set by {given.origin}" if given else "the default")
    if given is not None and settings.final_watermark != "observed":
        raise OptionError(
            f"{given.name} = {given.text!r} (from {given.origin}) does not go with {what}: {why}; allowed: observed,"
            f" which is the default here{instead}",
            code="MIXEDMODE_OPTION_CONFLICT",
        )
    return FinalWatermark(settings.model_copy(update={_FIELD: "observed"}), f"the only one for {what}: {why}")
