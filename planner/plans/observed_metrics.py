"""``observe()`` in a graph of stages: each call's rows are counted in one place, under a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...errors import PlanError
from ...runtime.operators.frame_steps import FrameStep, Metrics, metrics_of
from ...runtime.operators.output_transform import OutputTransform
from ...runtime.spec import LaneRead, Settings, StageSpec


def observed_once(
    specs: Sequence[StageSpec], output_transform: OutputTransform | None, settings: Settings, bounded: Sequence[bool]
) -> tuple[tuple[StageSpec, ...], OutputTransform | None]:
    """The stages and what follows them, with metrics where a call's rows come first; they do not compute them again.

    Args:
        specs: the stages.
        output_transform: what follows the last one; None: nothing.
        settings: of the job.
        bounded: of each lane, whether there is a history in it.

    Raises:
        PlanError: two calls have one name, or one cannot see the rows of an epoch, each once.
    """
    known = _Known()
    found = []
    for spec in specs:
        reads = tuple(replace(read, steps=known.first(spec.uid, read.steps)) for read in spec.reads)
        edges = tuple(replace(edge, steps=known.first(spec.uid, edge.steps)) for edge in spec.edges)
        for read in reads:
            if settings.runtime_mode == "streaming" and bounded[read.lane]:
                _check_slices(spec, read)
        found.append(replace(spec, reads=reads, edges=edges))
        _check_sides(found[-1])
    if output_transform is None:
        return tuple(found), None
    branches = tuple(replace(branch, steps=known.first("", branch.steps)) for branch in output_transform.branches)
    return tuple(found), replace(output_transform, steps=known.first("", output_transform.steps), branches=branches)


@dataclass
class _Known:
    """The calls that have been met, by name, and where their rows come first."""

    _calls: dict[str, object] = field(default_factory=dict)
    _places: dict[object, tuple[str, Metrics]] = field(default_factory=dict)

    def first(self, uid: str, steps: Sequence[FrameStep]) -> tuple[FrameStep, ...]:
        """The steps that precede a stage without the metrics whose rows come by elsewhere before."""
        return tuple(step for step in steps if step.metrics is None or self._is_first(uid, step.metrics))

    def _is_first(self, uid: str, metrics: Metrics) -> bool:
        if self._calls.setdefault(metrics.name, metrics.call) is not metrics.call:
            raise PlanError(
                f"two calls of observe() have the name {metrics.name!r}, by which query.lastProgress shows their"
                " metrics; give each a name of its own"
            )
        return self._places.setdefault(metrics.call, (uid, metrics)) == (uid, metrics)


def _check_sides(spec: StageSpec) -> None:
    """Raise PlanError if rows of sources and of earlier stages are observed together: they come at different times."""
    of_sources = metrics_of(*(read.steps for read in spec.reads))
    for metrics in metrics_of(*(edge.steps for edge in spec.edges)):
        if metrics in of_sources:
            raise PlanError(
                f"observe({metrics.name!r}) sees rows of sources together with those of another keyed stage, which"
                " come at different times; call it on each side before their union, under two names"
            )


def _check_slices(spec: StageSpec, read: LaneRead) -> None:
    """Raise PlanError if a history is cut by event times that rows do not have yet where they are observed."""
    if read.is_observed and spec.event_time is not None and read.event_time is None:
        name = metrics_of(read.steps)[0].name
        raise PlanError(
            f"observe({name!r}) sees rows of a history that have no event time yet, by which execution.runtime-mode"
            " streaming cuts the history into epochs; call withWatermark before observe"
        )
