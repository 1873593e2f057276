"""Random orders of barriers, ends, notifications and savepoints against the invariants of one task and of a job."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from mixedmode.errors import CheckpointError
from mixedmode.runtime.protocols.lifecycle.actions import (
    Abort,
    AdvanceToMaxWatermark,
    Close,
    Commit,
    Emit,
    EndInputAndFinish,
    Fail,
    Snapshot,
    Step,
    TaskStatus,
)
from mixedmode.runtime.protocols.lifecycle.channel_task import ChannelTask
from mixedmode.runtime.protocols.lifecycle.events import (
    Barrier,
    CancelBarrier,
    EndOfData,
    EndOfPartition,
    MaxWatermark,
    Stop,
)
from mixedmode.runtime.protocols.lifecycle.graph import JobGraph
from mixedmode.runtime.protocols.lifecycle.index_set import IndexSet
from mixedmode.runtime.protocols.lifecycle.job import JobLifecycle, TaskWork, TriggerCheckpoint
from mixedmode.runtime.protocols.lifecycle.source_task import SourceTask


class TaskMachine(RuleBasedStateMachine):
    """One task whose channels behave, and whose notifications get lost, doubled and mixed up."""

    @initialize(channels=st.integers(1, 3), receivers=st.integers(0, 2), drained=st.booleans())
    def start(self, channels: int, receivers: int, drained: bool) -> None:
        self.task = ChannelTask(channels, receivers, transactional=receivers == 0)
        self.channels, self.receivers = channels, receivers
        #: How the data will end on every channel.
        self.drained = drained
        #: Per channel: what it has sent, as far as the order goes.
        self.stage = [0] * channels
        self.sent = [0] * channels
        self.triggered = 0
        self.steps: list[Step] = []
        self.completed: set[int] = set()
        self.acknowledged = 0

    def take(self, steps: list[Step]) -> None:
        assert not (steps and self.was_closed), "a closed task does nothing"
        self.steps += steps

    @property
    def was_closed(self) -> bool:
        return any(isinstance(step.action, Close) for step in self.steps)

    @property
    def emitted(self) -> list[object]:
        return [step.action.event for step in self.steps if isinstance(step.action, Emit)]

    def actions(self, kind: type) -> list[object]:
        return [step.action for step in self.steps if isinstance(step.action, kind)]

    @rule()
    def trigger(self) -> None:
        self.triggered += 1

    def which(self, channel: int, together: bool) -> IndexSet:
        """A channel, or with it all those that have sent the same: what senders do together comes at once."""
        alike = [
            other
            for other in range(self.channels)
            if (self.stage[other], self.sent[other]) == (self.stage[channel], self.sent[channel])
        ]
        return IndexSet.of(alike if together else [channel])

    @rule(channel=st.integers(0, 2), together=st.booleans(), cancelled=st.booleans())
    def barrier(self, channel: int, together: bool, cancelled: bool) -> None:
        channel %= self.channels
        if self.stage[channel] < 3 and self.sent[channel] < self.triggered:
            channels = self.which(channel, together)
            for one in channels:
                self.sent[one] += 1
            number = self.sent[channel]
            event = CancelBarrier(number) if cancelled and number % 3 == 0 else Barrier(number)
            self.take(self.task.receive(channels, event))

    @rule(channel=st.integers(0, 2), together=st.booleans())
    def next_stage(self, channel: int, together: bool) -> None:
        channel %= self.channels
        ends = [MaxWatermark(), EndOfData(self.drained), EndOfPartition()]
        if self.stage[channel] < 3:
            channels = self.which(channel, together)
            # There is no MAX_WATERMARK without drain.
            stage = max(self.stage[channel], 0 if self.drained else 1)
            for one in channels:
                self.stage[one] = stage + 1
            self.take(self.task.receive(channels, ends[stage]))

    @precondition(lambda self: self.actions(Snapshot))
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        # A checkpoint completes only when every task has taken its snapshot.
        number = data.draw(st.sampled_from([action.checkpoint_id for action in self.actions(Snapshot)]))
        self.completed.add(number)
        self.take(self.task.completed(number))

    @precondition(lambda self: self.triggered)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, self.triggered))
        latest = max((done for done in self.completed if done < number), default=0)
        self.take(self.task.aborted(number, latest))

    @rule()
    def acknowledge(self) -> None:
        if self.task.end_of_data is not None and self.acknowledged < self.receivers:
            self.acknowledged += 1
            self.take(self.task.acknowledged())

    @invariant()
    def closes_once_and_only_when_it_may(self) -> None:
        """Close: at most once, after a checkpoint since EndOfData, all acknowledgements, all EndOfPartition."""
        closes = self.actions(Close)
        assert len(closes) <= 1
        if closes:
            end = next(place for place, step in enumerate(self.steps) if step.status is TaskStatus.WAITING_FOR_FINAL_CP)
            since = {s.action.checkpoint_id for s in self.steps[end:] if isinstance(s.action, Snapshot)}
            assert since and max(self.completed) >= min(since)
            assert self.acknowledged == self.receivers
            assert self.stage == [3] * self.channels

    @invariant()
    def commits_no_more_than_is_complete(self) -> None:
        """A transaction is committed by a completion that was reported, and never aborted after it."""
        committed = [action.up_to for action in self.actions(Commit)]
        assert all(up_to in self.completed for up_to in committed)
        assert committed == sorted(set(committed))
        for action in self.actions(Abort):
            assert not committed or min(action.checkpoint_ids) > max(committed)

    @invariant()
    def says_each_thing_once(self) -> None:
        """MAX_WATERMARK, EndOfData, EndOfPartition: at most once, in this order; barriers with growing numbers."""
        ends = [event for event in self.emitted if not isinstance(event, Barrier | CancelBarrier)]
        order = [MaxWatermark, EndOfData, EndOfPartition]
        assert [type(event) for event in ends] == sorted({type(event) for event in ends}, key=order.index)
        for actions in (self.actions(Snapshot), [event for event in self.emitted if isinstance(event, Barrier)]):
            numbers = [action.checkpoint_id for action in actions]
            assert numbers == sorted(set(numbers))

    @invariant()
    def finishes_only_with_drain(self) -> None:
        """Timers fire and the operator finishes once, in this order, and only if the data has really ended."""
        assert len(self.actions(AdvanceToMaxWatermark)) <= self.drained
        assert len(self.actions(EndInputAndFinish)) <= len(self.actions(AdvanceToMaxWatermark))


class JobMachine(RuleBasedStateMachine):
    """A job whose sources end in any order while checkpoints and savepoints complete and fail."""

    under_way = Bundle("under_way")

    @initialize(sources=st.integers(1, 3), shards=st.integers(1, 3), restored=st.integers(0, 2))
    def start(self, sources: int, shards: int, restored: int) -> None:
        self.sources = [f"source {number}" for number in range(sources)]
        graph = JobGraph.of_job(self.sources, "stage", shards)
        done = [task for task in graph.tasks if task.vertex.startswith("source")][: min(restored, sources)]
        self.job = JobLifecycle(graph, clock_ms=lambda: 0, finished=done)
        self.last_id = 0
        self.under: dict[int, Stop | None] = {}
        self.completed: set[int] = set()
        self.done: list[TaskWork] = []
        self.failed = False
        self.stopping = False

    def drive(self) -> None:
        while isinstance(work := self.job.next(), TaskWork):
            assert not any(isinstance(one.work, Close) for one in self.done if self._overlap(one, work))
            self.done.append(work)
            self.failed |= isinstance(work.work, Fail)
            self.job.done(work)
        if isinstance(work, TriggerCheckpoint):
            assert self.job.is_ending and not self.job.is_closed

    @staticmethod
    def _overlap(one: TaskWork, other: TaskWork) -> bool:
        return one.vertex == other.vertex and bool(set(one.subtasks) & set(other.subtasks))

    @rule(number=st.integers(0, 2))
    def end_source(self, number: int) -> None:
        if not self.failed and not self.stopping:
            self.job.source_ended(self.sources[number % len(self.sources)])
            self.drive()

    @rule(stop=st.sampled_from([None, None, *Stop]))
    def trigger(self, stop: Stop | None) -> None:
        if self.failed:
            return
        self.last_id += 1
        before = self.job.events
        try:
            self.job.trigger(self.last_id, stop)
        except CheckpointError:
            assert self.job.events == before, "a declined checkpoint leaves no trace"
            return
        self.under[self.last_id] = stop
        self.stopping |= stop is not None
        self.drive()
        assert self.job.is_taken(self.last_id)

    @precondition(lambda self: self.under)
    @rule(data=st.data(), fails=st.booleans())
    def settle(self, data: st.DataObject, fails: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.under)))
        stop = self.under.pop(number)
        if fails:
            self.job.aborted(number)
            self.drive()
            assert self.failed or stop is None or self.job.is_closed
        else:
            self.completed.add(number)
            self.job.completed(number)
            self.drive()
            assert stop is None or self.failed or self.job.is_closed

    @invariant()
    def commits_only_what_is_complete(self) -> None:
        """The sink commits in order, and only what a complete checkpoint holds."""
        committed = [one.work.up_to for one in self.done if isinstance(one.work, Commit)]
        assert all(up_to in self.completed for up_to in committed)
        assert committed == sorted(set(committed))

    @invariant()
    def tasks_close_in_the_order_of_the_graph(self) -> None:
        """A task that has closed has no sender that has not; a closed job has nothing to do."""
        order = [one.vertex for one in self.done if isinstance(one.work, Close)]
        if "sink" in order:
            assert order[-1] == "sink"
        if self.job.is_closed:
            assert self.job.next() is None

    def teardown(self) -> None:
        """Whatever happened: a job that did not fail comes to its end when its sources do."""
        if not hasattr(self, "job") or self.failed:
            return
        for number in [number for number, stop in self.under.items() if stop is not None]:
            self.job.completed(number)
            self.drive()
        for source in self.sources if not self.stopping else ():
            self.job.source_ended(source)
            self.drive()
        for _ in range(3):
            if isinstance(self.job.next(), TriggerCheckpoint):
                self.last_id += 1
                self.job.trigger(self.last_id)
                self.job.completed(self.last_id)
                self.completed.add(self.last_id)
                self.drive()
        for number in sorted(self.under):
            self.job.completed(number)
            self.drive()
        assert self.job.is_closed


class SourceMachine(RuleBasedStateMachine):
    """One source that is asked to end in several ways at once."""

    @initialize()
    def start(self) -> None:
        self.task = SourceTask(1)
        self.last_id = 0
        self.steps: list[Step] = []

    @rule()
    def end(self) -> None:
        self.steps += self.task.no_more_records()

    @rule(stop=st.sampled_from([None, *Stop]))
    def trigger(self, stop: Stop | None) -> None:
        self.last_id += 1
        self.steps += self.task.trigger(self.last_id, stop)

    @precondition(lambda self: self.last_id)
    @rule(data=st.data(), completes=st.booleans())
    def settle(self, data: st.DataObject, completes: bool) -> None:
        number = data.draw(st.integers(1, self.last_id))
        self.steps += self.task.completed(number) if completes else self.task.aborted(number)

    @rule()
    def acknowledge(self) -> None:
        if self.task.end_of_data is not None:
            self.steps += self.task.acknowledged()

    @invariant()
    def ends_once(self) -> None:
        """EndOfData is sent once, close comes once and last, and only after EndOfData."""
        kinds = [type(step.action.event) for step in self.steps if isinstance(step.action, Emit)]
        assert kinds.count(EndOfData) <= 1
        assert kinds.count(EndOfPartition) == sum(isinstance(step.action, Close) for step in self.steps) <= 1
        if EndOfPartition in kinds:
            assert kinds.index(EndOfData) < kinds.index(Barrier) or kinds.count(Barrier) > 1
            after = kinds[kinds.index(EndOfPartition) + 1 :]
            assert set(after) <= {CancelBarrier}
            closed = [isinstance(step.action, Close) for step in self.steps].index(True)
            assert not any(isinstance(step.action, Fail) for step in self.steps[closed:])


TestTask = TaskMachine.TestCase
TestJob = JobMachine.TestCase
TestSource = SourceMachine.TestCase
for _machine in (TestTask, TestJob, TestSource):
    _machine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
del _machine
