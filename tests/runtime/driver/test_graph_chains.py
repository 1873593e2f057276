"""Whole chains, trees and diamonds of stages, epoch by epoch, against models in plain Python; without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from graph_joins import Joined
from graph_kinds import Buckets, Cogrouped, Emitted, Model, Turn, Unique, Windows
from graph_support import Failed, Job, Row, Stage
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK

DELAY_MS = 20


class Graph:
    """What a graph of stages gives, by the rules of the design and nothing else."""

    def __init__(self, stages: Sequence[Stage], timers: str) -> None:
        self.stages, self.in_order = stages, timers == "in-order"
        #: A stage with timers may have fired what an earlier stage hands on only now: so all fire what is due.
        self.at_once = False
        out_of_order: set[str] = set()
        for stage in stages if self.in_order else ():
            timers = isinstance(stage.kind, Buckets)
            outer = isinstance(stage.kind, Joined) and stage.kind.how != "inner"
            mixed = len(stage.origins) > 1 or not out_of_order.isdisjoint(stage.origins)
            self.at_once |= timers and mixed
            out_of_order |= {stage.uid} if timers or outer or mixed else set()
        self.models: dict[str, Model] = {stage.uid: stage.kind.model() for stage in stages}
        #: Of those that read the source, where event times have brought them.
        self.current = {stage.uid: MIN_WATERMARK for stage in stages}
        #: Of those that take rows of the source and of others the greatest event time of the source's.
        self.seen = {stage.uid: MIN_WATERMARK for stage in stages}
        self.fired = {stage.uid: MIN_WATERMARK for stage in stages}
        self.late: dict[str, int] = dict.fromkeys(self.models, 0)

    def take(self, what: str, rows: Sequence[Row] = ()) -> list[Row]:
        """As :meth:`graph_support.Job.take`."""
        if what != "end":
            return self._epoch(what, [Emitted(row) for row in rows], None)
        out = []
        for stage in self.stages:
            if self.models[stage.uid].is_due():
                out += self._epoch("end", [], stage.uid)
        return sorted(out, key=repr)

    def _epoch(self, what: str, rows: list[Emitted], ends: str | None) -> list[Row]:
        """One epoch, begun by the source's rows, or by the end of the stage ``ends``."""
        given: dict[str, list[Emitted]] = {} if ends else {"": rows}
        fired, reached, ended = dict(self.fired), dict(self.current), set()
        for stage in self.stages:
            uid, reads, start_ms = stage.uid, stage.origins == ("",), self.current[stage.uid]
            if uid != ends and not any(origin in given for origin in stage.origins):
                continue
            some = [
                replace(one, row=row)
                for origin in stage.origins
                for one in given.get(origin, ())
                for row in stage.taken([one.row])
            ]
            if reads:
                reached[uid] = self._reached(stage, some)
                firing_ms = reached[uid] if what in ("backlog", "lag") or self.at_once else start_ms
                upto_ms = MAX_WATERMARK if what in ("live", "clock") and not self.at_once else reached[uid]
            else:
                own = [one for one in given.get("", ()) if stage.condition(one.row) and one.time_us is not None]
                seen = {**self.seen, uid: max([self.seen[uid], *(one.row[1] // 1000 for one in own)])}
                firing_ms = self._behind(
                    stage, fired, seen if what in ("backlog", "lag") or self.at_once else self.seen
                )
                reached[uid] = upto_ms = self._behind(stage, reached, seen)
                self.seen = seen
            if what == "more":
                firing_ms = MIN_WATERMARK
            fired[uid] = max(fired[uid], firing_ms)
            if uid == ends or ended.issuperset(stage.origins):
                ended.add(uid)
                firing_ms = MAX_WATERMARK
            given[uid], late = self.models[uid].epoch(
                some,
                Turn(
                    late_ms=self.fired[uid] if what in ("live", "clock", "lag") else MIN_WATERMARK,
                    firing_ms=firing_ms,
                    clock=(start_ms, stage.delay_ms, upto_ms) if self.in_order and what != "more" else None,
                    delay_ms=stage.delay_ms,
                ),
            )
            self.late[uid] += len(late)
            if reads:
                self.current[uid] = self._reached(stage, [one for one in some if one not in late])
            else:
                self.current[uid] = self._behind(stage, fired, self.seen)
        self.fired = fired
        return sorted((one.row for one in given.get(self.stages[-1].uid, ())), key=repr)

    def _reached(self, stage: Stage, rows: list[Emitted]) -> int:
        """Where event times bring a stage that reads the source."""
        times = [one.time_us // 1000 - stage.delay_ms for one in rows if one.time_us is not None]
        return max([self.current[stage.uid], *times])

    def _behind(self, stage: Stage, times_ms: dict[str, int], seen: dict[str, int]) -> int:
        """Where other stages, and the source, bring one."""
        before = [times_ms[origin] if origin else seen[stage.uid] for origin in stage.origins]
        reached_ms = MIN_WATERMARK if MIN_WATERMARK in before else min(before) - stage.delay_ms
        return max(self.current[stage.uid], reached_ms)


JOINS = [Joined("inner", 10), Joined("left", 5), Joined("full", 10)]
KINDS = st.sampled_from(
    [Windows(5), Windows(10), Buckets(5), Buckets(15), Cogrouped(5), Unique("time"), Unique("key"), *JOINS]
)
DELAYS = st.sampled_from([0, 0, 5, DELAY_MS])


@st.composite
def graphs(draw: st.DrawFn, kinds: st.SearchStrategy[Any] = KINDS, first: Any = DELAYS) -> list[Stage]:
    """A chain of two or three stages, whose later ones may take rows of the source, too, or a diamond of three.

    ``first``: delays of those that read the source.
    """
    if draw(st.integers(0, 3)) == 0:
        one = Stage("a", draw(kinds), ("",), draw(first), lambda row: row[2] % 2 == 0)
        other = Stage("b", draw(kinds), ("",), draw(first), lambda row: row[2] % 3 > 0)
        return [one, other, Stage("c", draw(kinds), ("a", "b"), draw(DELAYS))]
    chain = [Stage("a", draw(kinds), ("",), draw(first))]
    for uid in "bc"[: draw(st.integers(1, 2))]:
        beside = draw(st.sampled_from([(), (), ("",)]))
        rekeyed = draw(st.sampled_from([False, False, True]))
        chain.append(Stage(uid, draw(kinds), (*beside, chain[-1].uid), draw(DELAYS), rekeyed=rekeyed))
    return chain


def value_of(time_ms: int | None, key: Any) -> int:
    """Rows of one key and time are equal, so it does not matter which of them stays."""
    return 7 if time_ms is None else time_ms % 7


#: Steps of the time from one row to the next, behind the one before and in front of it; ties are frequent.
@st.composite
def epochs(draw: st.DrawFn) -> list[tuple[str, list[Row]]]:
    """How a job's rows are cut, and what happens between the cuts."""
    made: list[tuple[str, list[Row]]] = []
    base = 1000
    history = draw(st.sampled_from(["", "backlog", "more"]))
    kinds = [*(["more", "backlog"] if history == "more" else [history] if history else [])]
    kinds += draw(
        st.lists(st.sampled_from(["live", "live", "live", "clock", "lag", "restart", "fail", "rescale"]), max_size=7)
    )
    for kind in kinds:
        times = draw(st.lists(st.one_of(st.integers(-25, 15), st.none()), max_size=6)) if kind != "clock" else []
        rows = [(draw(st.sampled_from(["a", "b", None])), None if t is None else base + t) for t in times]
        made.append((kind, [(k, None if t is None else t * 1000, value_of(t, k)) for k, t in rows]))
        base += draw(st.sampled_from([0, 5, 10, 15]))
    return made


def failing(job: Job, rows: list[Row]) -> list[Row]:
    """A micro-batch whose last stage fails once, if it has anything to do; of that attempt nothing is left."""
    last = job.executors[job.spec.last_stage.uid]
    last.fails = True
    try:
        return job.take("live", rows)
    except Failed:
        assert not job.tables
        return job.take("live", rows)
    finally:
        last.fails = False


def rescaled(job: Job) -> None:
    """Some of the stages have other shards from now on; which, and how many, changes with the epochs."""
    epoch, uids = job.state.epoch, list(job.state.stages)
    before = job.state.parallelism
    chosen = uids if epoch % 2 else uids[-1:]
    job.rescale({uid: 1 + (before[uid] + epoch) % 5 for uid in chosen})
    assert all(job.state.parallelism[uid] == 1 + (before[uid] + epoch) % 5 for uid in chosen)


@pytest.mark.slow
@given(stages=graphs(), cuts=epochs(), timers=st.sampled_from(["in-order", "after-rows"]), shards=st.integers(1, 3))
@settings(max_examples=60)
def test_a_graph_gives_what_its_model_does_epoch_by_epoch(
    stages: list[Stage], cuts: list[tuple[str, list[Row]]], timers: str, shards: int
) -> None:
    """Rows that come out, late rows and watermarks of each stage, over random graphs, cuts, restarts with other
    numbers of shards, stages that are dealt anew without one, failures in the last stage, and a drain."""
    with tempfile.TemporaryDirectory() as folder:
        job, model = Job(folder, stages, timers, shards), Graph(stages, timers)
        for kind, rows in cuts:
            if kind == "restart":
                job.restart(1 + job.epochs.state.epoch % 3)
                kind = "live"
            elif kind == "rescale":
                rescaled(job)
                kind = "live"
            given = failing(job, rows) if kind == "fail" else job.take(kind, rows)
            assert given == model.take("live" if kind == "fail" else kind, rows)
            assert job.late == model.late
            assert job.fired_ms() == model.fired
        assert job.take("clock") == model.take("clock")
        assert job.take("end") == model.take("end")
        job.close()


@st.composite
def orderly_cuts(draw: st.DrawFn) -> list[tuple[str, list[Row]]]:
    """Rows out of order by less than the delay, of which none is late, in cuts of any kind."""
    steps = draw(st.lists(st.tuples(st.sampled_from([0, 0, 2, 5, 20]), st.integers(0, DELAY_MS - 1)), max_size=25))
    rows, now = [], 1000
    for step, back in steps:
        now += step
        time_ms = now - back
        rows.append((draw(st.sampled_from(["a", "b", None])), time_ms * 1000, value_of(time_ms, "")))
    kinds = draw(st.sampled_from([["backlog"], ["more", "backlog"], ["live"]]))
    kinds = kinds + draw(st.lists(st.sampled_from(["live", "clock", "lag", "restart", "rescale"]), max_size=5))
    places = sorted(draw(st.integers(0, len(rows))) for _ in kinds[1:])
    return [(kind, rows[low:high]) for kind, low, high in zip(kinds, [0, *places], [*places, len(rows)], strict=True)]


ORDERLY = st.sampled_from([Windows(5), Windows(15), Buckets(5), Cogrouped(5), Buckets(15), Unique("time"), *JOINS])


def chooses(stages: Sequence[Stage]) -> bool:
    """Whether a deduplication may get rows of one key and time that differ: sums, and rows of somebody else."""
    sums = {"": False}
    for stage in stages:
        is_unique = isinstance(stage.kind, Unique)
        if is_unique and len(stage.origins) > 1 and any(sums[origin] for origin in stage.origins):
            return True
        sums[stage.uid] = isinstance(stage.kind, Buckets) or (is_unique and any(sums[one] for one in stage.origins))
    return False


#: A row without a partner goes out by a look at the clock, when the watermark is behind the timers of its bucket.
OVERDUE = [("a", time_ms * 1000, value_of(time_ms, "")) for time_ms in (996, 1018, 1019, 1043)]

#: What a deduplication hands on of a window comes before the timer at the window's end, in a micro-batch, too.
AT_ITS_END = [("a", time_ms * 1000, value_of(time_ms, "")) for time_ms in (999, 1000, 1020)]

#: A row without a partner that waits while a later pair goes out.
ALONE = [("a", time_ms * 1000, value_of(time_ms, "")) for time_ms in (1000, 1011, 1012, 1036, 1037)]


@given(
    stages=graphs(ORDERLY, st.just(DELAY_MS)),
    cuts=orderly_cuts(),
    timers=st.sampled_from(["in-order", "after-rows"]),
    shards=st.integers(1, 3),
)
@example(
    [
        Stage("a", Joined("full", 10), delay_ms=DELAY_MS),
        Stage("b", Buckets(15), ("a",)),
        Stage("c", Unique("time"), ("b",)),
    ],
    [("live", OVERDUE)],
    "in-order",
    1,
)
@example(
    [
        Stage("a", Windows(5), delay_ms=DELAY_MS),
        Stage("b", Unique("time"), ("a",)),
        Stage("c", Buckets(5), ("", "b")),
    ],
    [("live", AT_ITS_END)],
    "in-order",
    1,
)
@example(
    [
        Stage("a", Windows(5), delay_ms=DELAY_MS),
        Stage("b", Unique("time"), ("", "a")),
        Stage("c", Buckets(5), ("b",)),
    ],
    [("live", AT_ITS_END)],
    "in-order",
    1,
)
@example(
    [Stage("a", Joined("full", 10), delay_ms=DELAY_MS), Stage("b", Buckets(5), ("a",))],
    [("live", ALONE)],
    "in-order",
    1,
)
@settings(max_examples=40)
def test_what_a_graph_gives_does_not_depend_on_the_cut(
    stages: list[Stage], cuts: list[tuple[str, list[Row]]], timers: str, shards: int
) -> None:
    """Where no row is late: history and live, epochs, clock, restarts and other shards anywhere give what one batch
    gives."""
    assume(not chooses(stages))
    whole = Graph(stages, timers)
    rows = [row for kind, some in cuts if kind != "clock" for row in some]
    expected = sorted([*whole.take("backlog", rows), *whole.take("end")], key=repr)
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        job = Job(folder, stages, timers, shards)
        for kind, some in cuts:
            if kind == "restart":
                job.restart(shards % 3 + 1)
            elif kind == "rescale":
                rescaled(job)
            found += job.take("live" if kind in ("restart", "rescale") else kind, some)
        found += job.take("clock") + job.take("end")
        assert set(job.late.values()) == {0}
        job.close()
    assert sorted(found, key=repr) == expected
