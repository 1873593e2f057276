"""What one chaos run is: a job, its rows and how they are cut, the steps of its life, and when what is killed.

All of it follows from a seed and the number of the run, so the supervisor, the driver and whoever reproduces a
difference make the same plan.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

from points import CHECKPOINT, LIVE, RESTART, SAVEPOINT, START, TASK_LIVE, TASK_START, Disturbance

Event = tuple[str, int, int]

#: Jobs whose result does not depend on how rows within the delay are spread over files.
AGGREGATES = ("sliding", "means", "session-windows", "totals")
KINDS = ("sessions", "quiet", "reorder", "ticks", *AGGREGATES)
FLUSH_KEY = "flush"
MAX_DELAY_S = 600
INTERVAL = "execution.checkpointing.interval"
#: Both kinds of it, which the starts of a job have in turn; of a history that is a stream, and beside slow checkpoints,
#: those that are due all the time.
INTERVALS = ("auto", "1 ms", "200 ms", "1 hour")
INTERVALS_OF_STREAM, INTERVALS_BESIDE = INTERVALS[:2], (*INTERVALS[:2], "30 ms")
#: How many kills of a run may cost the life of its driver.
MAX_FATAL = 2


@dataclass(frozen=True)
class Step:
    """One thing that is done with the job, and what is killed while it is done.

    ``start`` (again, after a stop), ``restore`` (elsewhere, from a savepoint), ``land`` (files, then everything is
    processed).
    """

    do: str
    #: For ``start`` and ``restore``.
    parallelism: int = 0
    #: For ``restore``: whether the history is still given, and whether the output goes to the same folder.
    keeps_history: bool = True
    same_output: bool = True
    #: For ``land``: numbers of files.
    files: tuple[int, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A run."""

    seed: int
    number: int
    kind: str
    #: ``max`` or ``observed``.
    final_watermark: str
    delay_s: int
    #: ``parquet``, or ``function`` for ``foreachBatch``.
    sink: str
    #: How many live inputs there are; rows are dealt to them in turn.
    inputs: int
    history: list[Event]
    #: What waits at each live input when the job starts.
    waiting: list[list[Event]]
    #: Files that land later: (live input, rows).
    files: list[tuple[int, list[Event]]]
    #: Of all starts; the interval is that of the first one.
    options: dict[str, str]
    compacts_eagerly: bool
    cluster: bool
    #: Ends with a drain instead of a row that pushes the watermark past everything.
    drains: bool
    #: How long store and sink take at each step of a checkpoint that is completed beside epochs; 0: as long as they do.
    #: If it is more, rows come a small file at a time, each an epoch, and checkpoints are due all the time.
    beside_ms: int = 0
    steps: list[Step] = field(default_factory=list)

    def interval_of(self, start: int) -> str:
        """The interval of checkpoints of one of the job's starts, counted from 0: every second one has none."""
        auto, *periods = _intervals(self.options, beside=self.beside_ms > 0)
        turns = [interval for period in periods for interval in (auto, period)]
        return turns[(turns.index(self.options[INTERVAL]) + start) % len(turns)]

    @property
    def backlog(self) -> list[Event]:
        """What is there when the job starts."""
        return [*self.history, *(event for rows in self.waiting for event in rows)]

    @property
    def fires_in_order(self) -> bool:
        """Whether timers fire between the rows of their key."""
        given = self.options.get("pipeline.timers")
        return given == "in-order" or (given is None and self.final_watermark == "observed")

    @property
    def observed_s(self) -> float:
        """The watermark at the switch: that of the live input that is least far."""
        reached = [max((event[1] for event in [*self.history, *rows]), default=-math.inf) for rows in self.waiting]
        return min(reached) - self.delay_s

    @property
    def live(self) -> list[Event]:
        return [event for _, rows in self.files for event in rows]

    @property
    def kills(self) -> int:
        """How many kills it intends."""
        return sum(len(step.disturbances) for step in self.steps)

    def __str__(self) -> str:
        more = ("" if self.inputs == 1 else f", {self.inputs} inputs") + (", cluster" if self.cluster else "")
        more += f", {self.beside_ms} ms beside" if self.beside_ms else ""
        steps = " ".join(f"{step.do}:{step.parallelism}" if step.parallelism else step.do for step in self.steps)
        return f"{self.kind}, {self.final_watermark}, {self.sink}{more} ({steps})"


def plan_of(seed: int, number: int, *, cluster: bool = False) -> Plan:
    """The run of a seed and a number.

    Args:
        seed: of all runs.
        number: which one.
        cluster: on a cluster of two executors.
    """
    chance = random.Random(f"{seed}/{number}")
    # Every kind in turn, so that a few runs are not all of one.
    kind = KINDS[(number + random.Random(seed).randrange(len(KINDS))) % len(KINDS)]
    delay_s = chance.choice([0, 120, MAX_DELAY_S])
    inputs = 2 if kind in (*AGGREGATES, "reorder") and chance.random() < 0.4 else 1
    events = _arriving(chance, delay_s if kind in (*AGGREGATES, "reorder", "ticks") else 0)
    first, then = _cut(chance, len(events))
    final_watermark = chance.choice(["max", "observed"])
    if kind == "totals":  # max is refused for it
        final_watermark = "observed"
    options = _options(chance, final_watermark)
    if kind == "quiet":  # its result depends on the order
        options["pipeline.timers"] = "in-order"
    elif kind in ("sessions", "reorder") and chance.random() < 0.5:
        options["pipeline.timers"] = chance.choice(["in-order", "after-rows"])
    plan = Plan(
        seed,
        number,
        kind,
        final_watermark,
        delay_s,
        "function" if kind == "totals" else chance.choice(["parquet", "parquet", "function"]),
        inputs,
        events[:first],
        [events[first:then][number::inputs] for number in range(inputs)],
        _files(chance, events[then:], inputs),
        options,
        compacts_eagerly=chance.random() < 0.6,
        cluster=cluster,
        drains=kind in ("sessions", *AGGREGATES) and chance.random() < 0.25,
    )
    _fill_in(chance, plan)
    return _beside(random.Random(f"{seed}/{number}/beside"), plan)


def _intervals(options: dict[str, str], *, beside: bool) -> tuple[str, ...]:
    """Those of a job's starts; of a history that is a stream none is longer than its own, as ``start()`` wants it."""
    if "execution.history.rows-per-epoch" in options:
        return INTERVALS_OF_STREAM
    return INTERVALS_BESIDE if beside else INTERVALS


def _beside(chance: random.Random, plan: Plan) -> Plan:
    """The plan, perhaps with checkpoints that take long and epochs that go on beside them."""
    if chance.random() < 0.5:
        return plan
    files: list[tuple[int, list[Event]]] = []
    parts: list[tuple[int, ...]] = []
    for where, rows in plan.files:
        # In order: what is in one file may come in any, but no row of a later file may be late.
        rows, size = sorted(rows, key=lambda event: event[1]), max(1, -(-len(rows) // chance.choice([2, 3, 5])))
        parts.append(tuple(range(len(files), len(files) + -(-len(rows) // size))))
        files += [(where, rows[begin : begin + size]) for begin in range(0, len(rows), size)]
    steps = [replace(step, files=tuple(part for file in step.files for part in parts[file])) for step in plan.steps]
    options = {**plan.options, INTERVAL: chance.choice(_intervals(plan.options, beside=True))}
    return replace(plan, files=files, steps=steps, options=options, beside_ms=chance.choice([30, 100, 300]))


def _arriving(chance: random.Random, disorder_s: int) -> list[Event]:
    """Events in the order in which they arrive: no event time comes twice, and none comes behind one that is greater
    by the disorder, so no row is late however they are cut."""
    keys, step_s = chance.randint(2, 14), chance.choice([25, 90, 200])
    now_s, events = 0, []
    for _ in range(chance.randint(60, 300)):
        now_s += chance.randint(1, step_s)
        events.append((f"k{chance.randrange(keys)}", now_s, chance.randrange(1000)))
    if disorder_s > 1:
        arrives_s = {event: event[1] + chance.uniform(0, disorder_s - 1) for event in events}
        events.sort(key=lambda event: arrives_s[event])
    return events


def _cut(chance: random.Random, rows: int) -> tuple[int, int]:
    """How many rows are history, and how many there are when the job starts."""
    first = round(rows * chance.choice([0, 0.3, 0.6]))
    return first, first + round((rows - first) * chance.choice([0, 0.2, 0.5]))


def _files(chance: random.Random, events: list[Event], inputs: int) -> list[tuple[int, list[Event]]]:
    cuts = sorted(chance.sample(range(1, len(events)), chance.randint(1, 4)))
    files = []
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        for number in range(inputs):
            rows = events[begin:end][number::inputs]
            chance.shuffle(rows)
            if rows:
                files.append((number, rows))
    return files


def _options(chance: random.Random, final_watermark: str) -> dict[str, str]:
    options = {
        "execution.backlog.final-watermark": final_watermark,
        INTERVAL: chance.choice(INTERVALS),
        "execution.backlog.reuse-finished-shards": chance.choice(["true", "true", "false"]),
        "state.checkpoints.num-retained": chance.choice(["1", "2", "3"]),
        "sorter.engine": chance.choice(["arrow", "spark"]),
    }
    if final_watermark == "observed" and chance.random() < 0.25:  # the history as a stream
        options[INTERVAL] = "1 ms"
        options["execution.history.rows-per-epoch"] = "50"
        way = chance.choice([("execution.runtime-mode", "streaming"), ("execution.interval-during-backlog", "1 ms")])
        options[way[0]] = way[1]
    return options


def _fill_in(chance: random.Random, plan: Plan) -> None:
    """The steps of its life."""
    steps = plan.steps
    steps.append(Step("start", chance.choice([1, 2, 3]), disturbances=_some(chance, plan, START, TASK_START)))
    left = list(range(len(plan.files)))
    while left:
        some = chance.choice([1, 1, 2])
        taken, left = left[:some], left[some:]
        steps.append(Step("land", files=tuple(taken), disturbances=_some(chance, plan, LIVE, TASK_LIVE)))
        what = chance.random()
        if left and what < 0.15:
            points = (*CHECKPOINT, *RESTART)
            steps.append(Step("start", chance.choice([1, 2, 3, 5]), disturbances=_some(chance, plan, points, ())))
        elif left and what < 0.35:
            steps.append(
                Step(
                    "restore",
                    chance.choice([1, 2, 3, 5]),
                    keeps_history=chance.random() < 0.5,
                    same_output=chance.random() < 0.5,
                    disturbances=_some(chance, plan, SAVEPOINT, ()),
                )
            )
    steps.append(Step("drain" if plan.drains else "flush", disturbances=_some(chance, plan, LIVE, TASK_LIVE)))


def _some(
    chance: random.Random, plan: Plan, points: tuple[str, ...], tasks: tuple[str, ...]
) -> tuple[Disturbance, ...]:
    """None, one or two disturbances; few in a run cost the life of a driver, since each new one takes long to start."""
    found: list[Disturbance] = []
    fatal = sum(one.is_fatal for step in plan.steps for one in step.disturbances)
    for _ in range(chance.choice([0, 1, 1, 2])):
        one = _disturbance(chance, plan.cluster, points, tasks)
        fatal += one.is_fatal
        found.append(replace(one, victim="worker") if one.is_fatal and fatal > MAX_FATAL else one)
    return tuple(found)


def _disturbance(chance: random.Random, cluster: bool, points: tuple[str, ...], tasks: tuple[str, ...]) -> Disturbance:
    if tasks and chance.random() < 0.5:
        # In local mode the executor is the driver's JVM.
        victim = chance.choices(["worker", "daemon", "executor"], [5, 3, 4 if cluster else 1])[0]
        return Disturbance(
            chance.choice(tasks), "jvm" if victim == "executor" and not cluster else victim, in_task=True
        )
    victim = chance.choices(["driver", "jvm", "executor" if cluster else "daemon", "worker"], [3, 1.5, 2, 2])[0]
    point = chance.choice(points) if chance.random() < 0.7 else "*"
    nth = chance.randint(1, 25) if point == "*" else chance.randint(1, 2)
    return Disturbance(point, victim, nth=nth, after_ms=chance.choice([0, 0, chance.randint(1, 300)]))
