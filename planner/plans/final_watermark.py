"""The final watermark of each keyed stage: what ``execution.backlog.final-watermark`` comes to.

``auto``, the default, gives what a stream over the same rows in event-time order gives: MAX_WATERMARK where nothing of
a stage can straddle the switch, or where its input ends with the backlog; elsewhere the greatest watermark that the
backlog itself has observed.  The decision needs the whole job, so it is made when that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...errors import OptionError
from ...runtime.spec import Settings, StageSpec
from ..options.layers import ResolvedOptions
from ..stages.stage import KeyedStage

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
class MaxRefusal:
    """The reason why a stage cannot have MAX_WATERMARK at its switch."""

    what: str
    why: str
    #: What else the author may do, for the error; empty: nothing.
    instead: str = ""


@dataclass(frozen=True)
class FinalWatermark:
    """The final watermark of a stage, and the reason."""

    value: Literal["max", "observed"]
    reason: str


def max_refusal(stage: KeyedStage, output_mode: str, stages: int) -> MaxRefusal | None:
    """The reason why a stage cannot have MAX_WATERMARK at its switch; None: it can.

    Args:
        stage: the stage.
        output_mode: of its rows.
        stages: how many stages the job has.
    """
    if stages > 1:
        return MaxRefusal(f"a job of {stages} keyed stages", _WHY_OBSERVED_BETWEEN)
    if stage.is_aggregate and output_mode in _REPLACING_MODES:
        instead = ", or outputMode append" if stage.why_observed is None else ""
        return MaxRefusal(f"an aggregate in outputMode {output_mode}", _WHY_OBSERVED, instead)
    if stage.why_observed is not None:
        what = stage.kind or ("grouping sets" if stage.is_aggregate else "a deduplication")
        return MaxRefusal(what, stage.why_observed)
    return None


def refuse_max(options: ResolvedOptions, refusal: MaxRefusal | None) -> None:
    """Raise OptionError if ``max`` was asked for where it would overwrite results by parts of them, or repeat them."""
    given = options.given.get(_FIELD)
    if refusal is None or given is None or options.settings.final_watermark != "max":
        return
    raise OptionError(
        f"{given.name} = {given.text!r} (from {given.origin}) does not go with {refusal.what}: {refusal.why}; allowed:"
        f" observed, which is what auto gives here{refusal.instead}",
        code="MIXEDMODE_OPTION_CONFLICT",
    )


def resolve_final_watermark(
    options: ResolvedOptions, refusal: MaxRefusal | None, *, straddles: str | None, ends: bool
) -> FinalWatermark:
    """The final watermark of a stage.

    Args:
        options: what was asked for, which :func:`refuse_max` has let pass.
        refusal: why the stage cannot have MAX_WATERMARK; None: it can.
        straddles: what an event-time watermark can fire of it; None: nothing.
        ends: its input ends with the backlog.
    """
    asked, given = options.settings.final_watermark, options.given.get(_FIELD)
    if ends:
        return FinalWatermark("max", "the input of this stage ends with the backlog")
    if refusal is not None:
        return FinalWatermark("observed", f"the only one for {refusal.what}: {refusal.why}")
    if asked != "auto":
        return FinalWatermark(asked, f"set by {given.origin}" if given else "set in the settings")
    if straddles is not None:
        return FinalWatermark("observed", f"auto, as {straddles} that straddle the switch must fire once, and whole")
    return FinalWatermark("max", "auto, as nothing of this stage can straddle the switch")


def with_final_watermarks(
    options: ResolvedOptions, settings: Settings, stages: Sequence[KeyedStage], specs: Sequence[StageSpec], mode: str
) -> tuple[tuple[StageSpec, ...], tuple[FinalWatermark, ...]]:
    """The stages with their final watermarks, and these with their reasons.

    Args:
        options: what was asked for.
        settings: of the job.
        stages: its stages, as described.
        specs: the same with their operators.
        mode: output mode of the last one.
    """
    finals = tuple(
        resolve_final_watermark(
            options,
            max_refusal(stage, mode if stage is stages[-1] else "append", len(stages)),
            straddles=_what_straddles(stage, spec),
            ends=settings.runtime_mode == "batch" or not stage.inputs.is_streaming,
        )
        for stage, spec in zip(stages, specs, strict=True)
    )
    # Of several stages one whose input ends hands on what it fires when that end is told, behind the backlog.
    at_switch = tuple(final.value if len(finals) == 1 else "observed" for final in finals)
    return tuple(replace(spec, final_watermark=one) for spec, one in zip(specs, at_switch, strict=True)), finals


def _what_straddles(stage: KeyedStage, spec: StageSpec) -> str | None:
    if not spec.operator.uses_event_time:
        return None
    return "windows" if stage.is_aggregate else "event-time timers"
