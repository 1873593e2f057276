"""Compares where live inputs begin with where their histories end, and reports it at the switch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ....errors import CheckpointMismatchError, DataLossError
from ...connectors.sources.data_loss import ForgottenMessages, Offsets
from ...connectors.sources.seam_claim import SeamClaim
from ...metrics.events.facts import FactListener, SeamPassed, messages_lost
from ...spec import JobSpec
from ...support.ids import NO_BATCH, EpochNumber
from ..state.job_state import JobState
from .source_losses import SourceLosses, loss_text


@dataclass
class SeamReport:
    """Checks and tells the seams of a run.

    Args:
        job: whose inputs they are.
        state: says how far they are read.
        losses: knows the positions of the live inputs.
        listener: is told.
    """

    job: JobSpec
    state: JobState
    losses: SourceLosses
    listener: FactListener
    _reported: set[ForgottenMessages] = field(init=False, default_factory=set)

    def check(self) -> None:
        """Once live has begun, and while there is history to read.

        Raises:
            DataLossError: live has begun behind where the history ends, and that is not tolerated.
            CheckpointMismatchError: the history has grown beyond where live began.
        """
        history = self.state.sources.get("history")
        if history is None or history.finished:
            return
        for name, claim, began in self._begun():
            is_tolerated = self.losses.tolerates(name) or claim.tolerates_gaps
            gone = [ForgottenMessages(*one, is_tolerated) for one in claim.gaps(began)]
            if any(not one.is_tolerated for one in gone):
                raise DataLossError(loss_text(gone))
            for one in gone:
                if one not in self._reported:
                    self._reported.add(one)
                    self.listener.on(messages_lost(one, name, EpochNumber(self.state.epoch + 1)))
            for topic, number, first, last in claim.overlaps(began):
                raise CheckpointMismatchError(
                    f"the job began to read topic {topic}, partition {number}, at offset {first}, and what is now its"
                    f" history goes up to offset {last}: the messages {first} to {last} would be read twice. Read the"
                    " history as it was when the job first began, or start again with a new checkpointLocation"
                    " [upgrade:U21]",
                    code="MIXEDMODE_SEAM_BROKEN",
                )

    def report(self) -> None:
        """At the switch: how each live input went on from its history."""
        for one in self.job.live_inputs:
            if one.seam is not None:
                began, reached = (self.losses.position_of(one.name, at) for at in (NO_BATCH, self.state.batch_id))
                self.listener.on(SeamPassed(one.name, one.seam.in_words(began, reached)))

    def _begun(self) -> Iterator[tuple[str, SeamClaim, Offsets]]:
        for one in self.job.live_inputs:
            began = None if one.seam is None else self.losses.position_of(one.name, NO_BATCH)
            if one.seam is not None and began is not None:
                yield one.name, one.seam, began
