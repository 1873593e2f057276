"""Changes the number of shards of a running job, between two epochs, without stopping it.

1. What is pending becomes visible with a checkpoint of the old shards: rows of one key that different shards have
   staged would have no order within one transaction.  One is completed beside the epochs first, so that there is little
   left for the one that the next epoch waits for.
2. The key groups of each stage are dealt to its new shards, as a restart from that checkpoint would: files of the state
   are named by other manifests, none is read or written; events that wait for shards go along; plans are made anew.
3. A checkpoint holds the new shards, completed beside the epochs, too.  Until it is complete the old ones are what a
   restart finds, from then on the new ones: ``_metadata`` names one dealing or the other.

Should the first checkpoint fail within what is tolerated, nothing is done.  Should the last one, the job goes on with
its new shards, the next checkpoint holds them, and whoever has asked is answered then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....errors import OptionError, QueryError
from ...checkpoints.metadata import CheckpointMetadata
from ...metrics.events.events import ShardsRescaled
from ...spec import JobSpec
from ...support.failpoints import failpoint
from ..clocks import clock_ms
from ..coordinators.event_channels import JobEvents
from ..coordinators.task_graph import lifecycle_of
from ..epochs.graph_epochs import GraphEpochs
from ..requests.rescale_queue import RescaleRequest
from ..state.job_state import JobState
from .running_job import RunningJob

#: The trigger of its checkpoints.
RESCALE = "rescale"
#: Why it cannot be done now.
IN_BACKLOG = (
    "the job works through its backlog as one sorted pass over the shards that it has; ask with wait=True to have it"
    " done at the switch"
)


def check_rescale(job: JobSpec, request: RescaleRequest) -> None:
    """Raise what is wrong with a request, whatever the job does.

    Raises:
        QueryError: the job keeps no state, or has no such stage.
        OptionError: there cannot be so many shards.
    """
    most = job.settings.max_parallelism
    if not job.keeps_state:
        request.refuse("execution.runtime-mode is batch, which keeps no state")
    if all(stage.operator.is_stateless for stage in job.stages):
        request.refuse(
            "the job has no keyed stage, so it has no shards; its rows stay in the partitions that Spark reads them in"
        )
    number = request.parallelism
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
        raise OptionError(
            f"parallelism of rescale() is {number!r}; it must be a whole number from 1 to {most}, the key groups of the"
            " state (pipeline.max-parallelism, fixed with the first run)"
        )
    uids = [stage.uid for stage in job.stages]
    if request.stage is not None and request.stage not in uids:
        raise QueryError(
            f"the query has no stage {request.stage!r}; its stages are {', '.join(uids)}",
            code="MIXEDMODE_RESCALE_NOT_DONE",
        )


def redealt_at_restart(checkpoint: CheckpointMetadata, state: JobState) -> ShardsRescaled | None:
    """What to tell of a run whose ``pipeline.parallelism`` is not that of the checkpoint it goes on from.

    Args:
        checkpoint: the checkpoint.
        state: what it has become.
    """
    now = state.parallelism
    before = {held.uid: len(held.shards) for held in checkpoint.operators if held.shards and held.uid in now}
    after = {uid: now[uid] for uid in before}
    return None if before == after else ShardsRescaled(before=before, after=after)


def reassign_shards(state: JobState, events: JobEvents, graph: GraphEpochs, shards: Mapping[str, int]) -> None:
    """Deal the state of some stages to other numbers of shards.

    Args:
        state: where the job stands.
        events: what goes to shards; no checkpoint is under way.
        graph: runs epochs; none is under way.
        shards: how many, by stage.

    Raises:
        CoordinatorError: a coordinator raised.
    """
    for uid, parallelism in shards.items():
        stage = state.stages[uid]
        before = stage.key_groups
        stage.redeal(parallelism)
        events.redeal(stage, before, state.checkpoint_id)
    graph.forget_shards(shards)


@dataclass
class Rescaling:
    """Does what users ask for.

    Args:
        run: the run.
    """

    run: RunningJob
    #: What was dealt and is in no checkpoint yet: shards by stage, before and after, and the last checkpoint before.
    _reassigned: tuple[dict[str, int], dict[str, int], int] | None = field(init=False, default=None)
    #: Whether another checkpoint was asked for, since the one that was to hold that has failed.
    _asked_again: bool = field(init=False, default=False)
    #: The checkpoint that is completed beside the epochs before shards are dealt.
    _ahead: int | None = field(init=False, default=None)

    def serve(self) -> None:
        """Do what is asked for; the caller stands between two epochs."""
        run, requests = self.run, self.run.context.rescales
        if requests.is_idle or all(source.finished for source in run.state.sources.values()):
            return  # where no row comes any more, the job ends
        with run.context.turn:
            run.checkpoints.look()
            self._tell_if_held()
            if self._reassigned is not None:
                self._go_on_holding()
                return
            shards = self._wanted(requests.begin())
            if not shards:
                requests.grant()
            elif self._is_beside():
                return
            elif self._has_failed_beside() or not run.checkpoints.checkpoint_if_behind(RESCALE):
                requests.refuse_begun("its checkpoint failed, and the query goes on with the shards that it has")
            else:
                self._reassign(shards)
            self._ahead = None

    def finish(self) -> None:
        """The run has come to its end: what was asked for before, and waits for a checkpoint, is done first, unless the
        run was stopped."""
        run, requests = self.run, self.run.context.rescales
        with run.context.turn:
            while not (requests.is_idle or run.context.stopping.is_set()):
                self.serve()
                if run.checkpoints.in_flight is None:
                    break  # it is answered, or cannot be done
                run.checkpoints.wait()
            self._tell_if_held()

    def settle(self) -> None:
        """The run ends: a dealing that its last checkpoint holds is told, and answered."""
        with self.run.context.turn:
            self._tell_if_held()

    def _is_beside(self) -> bool:
        """Whether the checkpoint before the dealing is being completed; one that is in flight already is as good."""
        checkpoints = self.run.checkpoints
        if self._ahead is None:
            self._ahead = checkpoints.beside_if_behind(RESCALE)
        return self._ahead is not None and self._ahead == checkpoints.in_flight

    def _has_failed_beside(self) -> bool:
        return self._ahead is not None and self.run.state.checkpoint_id < self._ahead

    def _go_on_holding(self) -> None:
        """Have another checkpoint hold the shards if the one that was to hold them has failed: at once, or else when
        one is due, since many failures in a row are not tolerated.  In a pause nobody else takes one."""
        run = self.run
        if run.checkpoints.in_flight is not None:
            return
        if not self._asked_again:
            self._asked_again = True
            run.scheduler.request()
        if run.scheduler.due(clock_ms()):
            run.checkpoints.checkpoint_beside(RESCALE)

    def _wanted(self, requests: Sequence[RescaleRequest]) -> dict[str, int]:
        """The stages that change, with their numbers of shards; what a later request says counts."""
        stages, wanted = self.run.state.stages, dict[str, int]()
        for request in requests:
            if request.stage is not None and stages[request.stage].finished:
                self.run.context.rescales.refuse(request, "all input of the stage has ended, and it has finished")
                continue
            uids = stages if request.stage is None else [request.stage]
            wanted.update({uid: request.parallelism for uid in uids if not stages[uid].finished})
        return {uid: count for uid, count in wanted.items() if count != len(stages[uid].shards)}

    def _reassign(self, shards: Mapping[str, int]) -> None:
        run, state = self.run, self.run.state
        before = state.parallelism
        failpoint("rescale-before-dealing")
        reassign_shards(state, run.events, run.epochs.graph, shards)
        run.tasks.lifecycle = lifecycle_of(run.job, state)  # whose sources are as after a restart: some have ended
        run.context.published.of_state(state)
        self._reassigned, self._asked_again = (before, state.parallelism, state.checkpoint_id), False
        failpoint("rescale-dealt")
        run.checkpoints.checkpoint_beside(RESCALE)

    def _tell_if_held(self) -> None:
        """Answer and tell of a dealing, once a checkpoint holds it."""
        if self._reassigned is None:
            return
        before, after, checkpoint_id = self._reassigned
        if self.run.state.checkpoint_id > checkpoint_id:
            self._reassigned = None
            self.run.context.listener.on(
                ShardsRescaled(before=before, after=after, checkpoint_id=self.run.state.checkpoint_id)
            )
            self.run.context.rescales.grant()
