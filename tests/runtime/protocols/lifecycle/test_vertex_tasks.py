"""One state machine for all subtasks of a vertex: it does what one for each of them would do, and costs no more."""

from __future__ import annotations

from itertools import count, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import CheckpointError
from mixedmode.runtime.protocols.lifecycle.actions import Commit, TaskStatus
from mixedmode.runtime.protocols.lifecycle.events import Stop
from mixedmode.runtime.protocols.lifecycle.graph import Edge, JobGraph, Pattern, TaskId, Vertex
from mixedmode.runtime.protocols.lifecycle.index_set import IndexSet
from mixedmode.runtime.protocols.lifecycle.job import JobLifecycle, TaskWork, TriggerCheckpoint


def chain(*widths: int, pattern: Pattern = "all-to-all") -> JobGraph:
    """A source, stages and a sink, of so many subtasks; the pattern is that behind the source."""
    names = ["source", *(f"stage {number}" for number in range(1, len(widths) - 1)), "sink"]
    patterns: list[Pattern] = [pattern, *["all-to-all"] * len(widths)]  # type: ignore[list-item]
    return JobGraph(
        tuple(Vertex(name, width) for name, width in zip(names, widths, strict=True)),
        tuple(Edge(*ends, how) for *ends, how in zip(names, names[1:], patterns, strict=False)),
    )


def job(graph: JobGraph, *finished: TaskId) -> JobLifecycle:
    return JobLifecycle(graph, clock_ms=lambda: 0, finished=finished)


def drive(lifecycle: JobLifecycle) -> list[str]:
    """Do all work that is at hand; what was done."""
    done = []
    while isinstance(work := lifecycle.next(), TaskWork):
        done.append(f"{work.vertex}[{work.subtasks}]: {work.work}")
        lifecycle.done(work)
    return done


def checkpoint(lifecycle: JobLifecycle, number: int) -> list[str]:
    lifecycle.trigger(number)
    done = drive(lifecycle)
    assert lifecycle.is_taken(number)
    lifecycle.completed(number)
    return done + drive(lifecycle)


def history_of(lifecycle: JobLifecycle, task: TaskId) -> list[str]:
    return [event.event for event in lifecycle.events if event.task == str(task)]


# -- what it costs ---------------------------------------------------------------------------------------------------


def steps_of_a_life(shards: int) -> tuple[int, int]:
    """Steps that are taken for a checkpoint, and from then on to the end, by a job of three stages."""
    steps = count()
    noted = [0]

    def clock_ms() -> int:
        noted[0] = next(steps) + 1
        return 0

    lifecycle = JobLifecycle(chain(1, shards, shards, shards, 1), clock_ms=clock_ms)
    checkpoint(lifecycle, 1)
    before_the_end = noted[0]
    lifecycle.source_ended("source")
    drive(lifecycle)
    assert lifecycle.next() == TriggerCheckpoint()
    checkpoint(lifecycle, 2)
    assert lifecycle.is_closed
    return before_the_end, noted[0] - before_the_end


def test_steps_do_not_grow_with_shards() -> None:
    """A checkpoint, and the end of a job, are as many steps with 512 shards a stage as with one."""
    assert steps_of_a_life(512) == steps_of_a_life(1)


def test_every_subtask_has_its_history() -> None:
    """What the shards of a stage did together is told of each of them."""
    lifecycle = job(chain(1, 300, 1))
    checkpoint(lifecycle, 1)
    histories = {tuple(history_of(lifecycle, TaskId("stage 1", index))) for index in (0, 128, 299)}
    assert histories == {("barrier 1", "emit barrier 1", "snapshot 1", "checkpoint 1 completed")}
    assert len({event.task for event in lifecycle.events}) == 302


def test_order_of_the_journal() -> None:
    """What shards do in a row is told shard by shard, behind what they have got and before what comes of it."""
    lifecycle = job(chain(1, 2, 1))
    checkpoint(lifecycle, 1)
    assert [f"{one.task} {one.event}" for one in lifecycle.events][:10] == [
        "source[0] emit barrier 1",
        "source[0] snapshot 1",
        "stage 1[0] barrier 1",
        "stage 1[0] emit barrier 1",
        "stage 1[0] snapshot 1",
        "stage 1[1] barrier 1",
        "stage 1[1] emit barrier 1",
        "stage 1[1] snapshot 1",
        "sink[0] barrier 1",
        "sink[0] snapshot 1",
    ]


# -- stages of which a part has finished -----------------------------------------------------------------------------


def test_sources_that_end_one_by_one() -> None:
    """P1: two of three subtasks of a source end and close; checkpoints then begin at the third, and reach all."""
    lifecycle = job(chain(3, 2, 1))
    lifecycle.source_ended("source", IndexSet.of([0, 1]))
    assert drive(lifecycle) == ["source[0-1]: advance to MAX_WATERMARK", "source[0-1]: endInput, finish"]
    assert lifecycle.finished == {TaskId("source", 0), TaskId("source", 1)}
    assert lifecycle.plan().to_trigger == {"source": IndexSet.below(3)}
    assert checkpoint(lifecycle, 1) == ["sink[0]: commit up to 1", "source[0-1]: close"]

    assert [lifecycle.status(TaskId("source", index))[0] for index in range(3)] == [
        TaskStatus.CLOSED,
        TaskStatus.CLOSED,
        TaskStatus.RUNNING,
    ]
    plan = lifecycle.plan()
    assert plan.to_trigger == {"source": IndexSet.of([2])}
    assert plan.finished == {"source": IndexSet.of([0, 1])}
    assert checkpoint(lifecycle, 2) == ["sink[0]: commit up to 2"]
    assert history_of(lifecycle, TaskId("source", 0))[-1] == "emit EndOfPartition"
    assert history_of(lifecycle, TaskId("stage 1", 1))[-1] == "checkpoint 2 completed"

    lifecycle.source_ended("source", IndexSet.of([2]))
    drive(lifecycle)
    assert lifecycle.next() == TriggerCheckpoint()
    assert checkpoint(lifecycle, 3)[-1] == "sink[0]: close"
    assert lifecycle.is_closed and lifecycle.finished == set(lifecycle.graph.tasks)


def test_one_to_one_partners_end_together() -> None:
    """One-to-one: a task acts when its own partner has delivered, and those of the others go on."""
    lifecycle = job(chain(4, 4, 1, pattern="one-to-one"))
    lifecycle.source_ended("source", IndexSet.of([0, 1]))
    assert drive(lifecycle) == [
        "source[0-1]: advance to MAX_WATERMARK",
        "source[0-1]: endInput, finish",
        "stage 1[0-1]: advance to MAX_WATERMARK",
        "stage 1[0-1]: endInput, finish",
    ]
    assert lifecycle.finished == {TaskId(vertex, index) for vertex in ("source", "stage 1") for index in (0, 1)}
    assert checkpoint(lifecycle, 1) == ["sink[0]: commit up to 1", "source[0-1]: close", "stage 1[0-1]: close"]
    assert lifecycle.plan().to_trigger == {"source": IndexSet.of([2, 3])}
    assert lifecycle.plan().finished == {"source": IndexSet.of([0, 1]), "stage 1": IndexSet.of([0, 1])}
    assert checkpoint(lifecycle, 2) == ["sink[0]: commit up to 2"]
    assert "barrier 2" not in history_of(lifecycle, TaskId("stage 1", 0))
    assert "barrier 2" in history_of(lifecycle, TaskId("stage 1", 3))


def test_task_that_closes_between_planning_and_triggering() -> None:
    """P4: one subtask of a source closes after the plan was made: that checkpoint fails, and the next one works."""
    lifecycle = job(chain(2, 2, 1))
    lifecycle.source_ended("source", IndexSet.of([1]))
    drive(lifecycle)
    plan = lifecycle.plan()
    checkpoint(lifecycle, 1)
    with pytest.raises(CheckpointError, match=r"declined by task source\[1\]: it has finished"):
        lifecycle.trigger(2, plan=plan)
    assert not lifecycle.is_under_way(2)
    checkpoint(lifecycle, 3)


def test_shards_that_had_finished_only_pass_on() -> None:
    """R1: of a stage of which one shard had finished in the checkpoint only the other one is opened, run and closed."""
    lifecycle = job(chain(1, 2, 1), TaskId("source", 0), TaskId("stage 1", 0))
    assert drive(lifecycle) == [
        "stage 1[1]: advance to MAX_WATERMARK",
        "stage 1[1]: endInput, finish",
        "sink[0]: advance to MAX_WATERMARK",
        "sink[0]: endInput, finish",
    ]
    assert checkpoint(lifecycle, 7) == ["sink[0]: commit up to 7", "stage 1[1]: close", "sink[0]: close"]
    passed_on = [event for event in history_of(lifecycle, TaskId("stage 1", 0)) if event.startswith("emit")]
    assert passed_on == ["emit MAX_WATERMARK", "emit EndOfData(finished=true)", "emit barrier 7", "emit EndOfPartition"]


def test_work_that_is_done_for_a_part() -> None:
    """Subtasks whose work is not reported as done still have it at hand, and what comes behind it waits for them."""
    lifecycle = job(chain(1, 2, 1))
    lifecycle.source_ended("source")
    while isinstance(work := lifecycle.next(), TaskWork) and work.vertex == "source":
        lifecycle.done(work)
    assert isinstance(work, TaskWork) and str(work.subtasks) == "0-1"
    lifecycle.done(TaskWork(work.vertex, IndexSet.of([1]), work.work))
    assert drive(lifecycle) == [
        "stage 1[0]: advance to MAX_WATERMARK",
        "stage 1[0-1]: endInput, finish",
        "sink[0]: advance to MAX_WATERMARK",
        "sink[0]: endInput, finish",
    ]


def test_history_from_before_a_part_has_left() -> None:
    """Subtasks that go different ways from some point on keep the history that they have in common."""
    lifecycle = job(chain(2, 1))
    checkpoint(lifecycle, 1)
    lifecycle.source_ended("source", IndexSet.of([1]))
    drive(lifecycle)
    common = ["emit barrier 1", "snapshot 1", "checkpoint 1 completed"]
    assert history_of(lifecycle, TaskId("source", 0)) == common
    assert history_of(lifecycle, TaskId("source", 1))[:4] == [*common, "no more records"]


# -- the same as a machine for each ----------------------------------------------------------------------------------

WIDTH = 3
INDICES = st.integers(0, WIDTH - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.sets(INDICES, min_size=1)),
        st.tuples(st.just("trigger"), st.sampled_from([None, None, None, *Stop])),
        st.tuples(st.just("settle"), st.tuples(st.integers(0, 5), st.booleans())),
    ),
    max_size=25,
)


class Play:
    """A job that is told a script; its sources and its shards are one vertex each, or each of them is one."""

    def __init__(self, together: bool, pattern: Pattern, restored: set[tuple[str, int]]) -> None:
        self.together = together
        graph = chain(WIDTH, WIDTH, 1, pattern=pattern) if together else self._apart(pattern)
        self.lifecycle = job(graph, *(self.task(vertex, index) for vertex, index in restored))
        self.under_way: list[int] = []
        self.answers: list[object] = []

    def _apart(self, pattern: Pattern) -> JobGraph:
        sources, shards = ([self.task(vertex, i).vertex for i in range(WIDTH)] for vertex in ("source", "stage 1"))
        pairs = zip(sources, shards, strict=True) if pattern == "one-to-one" else product(sources, shards)
        return JobGraph(
            tuple(Vertex(name, 1) for name in (*sources, *shards, "sink")),
            (*(Edge(*pair) for pair in pairs), *(Edge(shard, "sink") for shard in shards)),
        )

    def task(self, vertex: str, index: int) -> TaskId:
        return TaskId(vertex, index) if self.together or vertex == "sink" else TaskId(f"{vertex} {index}", 0)

    @property
    def tasks(self) -> list[TaskId]:
        widths = {"source": WIDTH, "stage 1": WIDTH, "sink": 1}
        return [self.task(vertex, index) for vertex, width in widths.items() for index in range(width)]

    def play(self, script: list[tuple[str, object]]) -> None:
        for number, (what, how) in enumerate(script, start=1):
            if what == "end":
                self.end(how)  # type: ignore[arg-type]
            elif what == "trigger":
                self.trigger(number, how)  # type: ignore[arg-type]
            elif self.under_way:
                place, completes = how  # type: ignore[misc]
                checkpoint_id = self.under_way.pop(place % len(self.under_way))
                (self.lifecycle.completed if completes else self.lifecycle.aborted)(checkpoint_id)
            self.drive()

    def end(self, sources: set[int]) -> None:
        if self.together:
            self.lifecycle.source_ended("source", IndexSet.of(sources))
        else:
            for source in sorted(sources):
                self.lifecycle.source_ended(self.task("source", source).vertex)

    def trigger(self, number: int, stop: Stop | None) -> None:
        try:
            self.lifecycle.trigger(number, stop)
        except CheckpointError as error:
            self.answers.append(str(error).rpartition(":")[2])
        else:
            self.under_way.append(number)
            self.drive()
            self.answers.append(self.lifecycle.is_taken(number))

    def drive(self) -> None:
        while isinstance(work := self.lifecycle.next(), TaskWork):
            if isinstance(work.work, Commit):
                self.answers.append(work.work)
            self.lifecycle.done(work)
        self.answers.append(work)

    def outcome(self) -> list[object]:
        """All that can be seen of it, but for acknowledgements, which come for each vertex by itself."""
        events: dict[str, list[tuple[str, str, str]]] = {str(task): [] for task in self.tasks}
        for one in self.lifecycle.events:
            if "acknowledge" not in one.event:
                events[one.task].append((one.event, one.status, one.operator))
        finished = [task in self.lifecycle.finished for task in self.tasks]
        statuses = [self.lifecycle.status(task) for task in self.tasks]
        return [*events.values(), finished, statuses, self.answers]


@settings(max_examples=200, deadline=None)
@given(
    STEPS,
    st.sampled_from(["all-to-all", "one-to-one"]),
    st.sets(st.tuples(st.sampled_from(["source", "stage 1"]), INDICES), max_size=3),
)
def test_a_vertex_is_the_sum_of_its_subtasks(
    script: list[tuple[str, object]], pattern: Pattern, restored: set[tuple[str, int]]
) -> None:
    """Whatever ends, completes and fails in whatever order: a machine for a vertex does what one a subtask does."""
    together, apart = Play(True, pattern, restored), Play(False, pattern, restored)
    together.play(script)
    apart.play(script)
    assert together.outcome() == apart.outcome()
