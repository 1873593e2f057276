"""Checkpoints that are completed beside epochs: whatever happens meanwhile, all rows come out once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from beside_support import POINTS, Checkpointed, Died, at
from graph_kinds import Buckets, Unique, Windows
from graph_support import Job, Stage
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import CheckpointError, QueryError
from mixedmode.runtime.checkpoints import folders
from mixedmode.runtime.checkpoints.lease.driver_lease import LocationLost
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.driver.checkpoint import housekeeping
from mixedmode.runtime.driver.checkpoint.async_checkpoint import CheckpointAbandoned
from mixedmode.runtime.driver.coordinators.task_graph import lifecycle_of
from mixedmode.runtime.driver.requests.pause_switch import PauseSwitch
from mixedmode.runtime.driver.run.pausing import stands_still
from mixedmode.runtime.driver.run.phases import commit_now
from mixedmode.runtime.driver.run.rescaling import reassign_shards
from mixedmode.state.store import state_manifest

GRAPHS = [
    [Stage("a", Windows(5))],
    [Stage("a", Buckets(5)), Stage("b", Windows(10), ("a",))],
    [Stage("a", Unique("key")), Stage("b", Buckets(10), ("a",), 5)],
    [Stage("a", Windows(5)), Stage("b", Buckets(5)), Stage("c", Unique("time"), ("a", "b"))],
]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small states are compacted, too, and what is old goes with each checkpoint."""
    monkeypatch.setattr(housekeeping, "CLEAN_EVERY_MS", 0)
    monkeypatch.setattr(housekeeping, "KEEP_MS", 0)
    monkeypatch.setattr(state_manifest, "_FULL_MIN_BYTES", 0)
    monkeypatch.setattr(state_manifest, "_LOGS_MAX", 2)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Checkpointed]:
    made = Checkpointed(tmp_path, GRAPHS[0])
    yield made
    made.close()


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """What happens to a job, in order."""
    made: list[tuple[str, Any]] = []
    base = 1000
    for _ in range(draw(st.integers(3, 14))):
        what = draw(st.sampled_from(["live", "live", "live", "clock", "cut", "cut", "complete", "look", "die", "dies"]))
        if what == "live":
            steps = draw(st.lists(st.integers(-10, 15), min_size=1, max_size=4))
            made.append((what, [(draw(st.sampled_from(["a", "b", "c"])), (base + t) * 1000, t % 7) for t in steps]))
            base += draw(st.sampled_from([0, 5, 10]))
        else:
            made.append((what, draw(st.sampled_from(POINTS)) if what == "dies" else None))
    return made


@pytest.mark.slow
@given(graph=st.sampled_from(GRAPHS), life=lives())
@settings(max_examples=25, deadline=None)
def test_every_row_comes_once_whenever_a_checkpoint_is_completed(graph: list[Stage], life: list[Any]) -> None:
    """Epochs go on between a cut and its completion; a process that dies in between, or at any point of it, goes on
    from the newest checkpoint that is there.  State files that anybody names stay, others go."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/disturbed")
        os.mkdir(f"{folder}/plain")
        job, plain = Checkpointed(f"{folder}/disturbed", graph), Job(f"{folder}/plain", graph)
        #: What the source gave, and how much of that there was before each cut.
        given, cuts = [], {0: 0}
        for what, how in life:
            if what in ("live", "clock"):
                given.append((what, how or ()))
                job.take(*given[-1])
            elif what == "cut":
                number = job.coordinator.next_id
                job.cut()
                if job.coordinator.next_id > number:
                    cuts[number] = len(given)
            elif what == "complete":
                job.complete()
            elif what == "look":
                job.coordinator.look()
            else:
                job.complete(how or "")
                for one in given[cuts[job.die()] :]:
                    job.take(*one)
            job.check_files()
        job.end()
        job.check_files(nothing_else=True)
        expected = [row for one in given for row in plain.take(*one)]
        assert job.shown() == sorted(expected, key=repr)
        job.close()
        plain.close()


def test_output_of_epochs_beside_belongs_to_the_next_checkpoint(job: Checkpointed) -> None:
    """The cut's rows are shown with it, those of epochs that ran meanwhile with the next; one is in flight at a time,
    and what is told is told when the run has taken it over."""
    job.take("live", at(1, 20))
    job.take("clock")
    job.cut()
    assert (job.shown(), job.outcomes, job.state.checkpoint_id) == ([], [], 0)
    job.take("live", at(21, 40))
    job.take("clock")
    job.cut()
    assert len(job.beside) == 1, "one is in flight"
    job.complete()
    assert len(job.shown()) == 1
    assert (job.outcomes, job.state.checkpoint_id) == ([], 0)
    job.coordinator.look()
    assert (job.outcomes, job.state.checkpoint_id) == (["1 complete"], 1)
    assert {file.name[:9] for file in job.state.pending} <= {"e00000003", "e00000004"}
    job.end()
    assert len(job.shown()) == 2
    assert job.outcomes == ["1 complete", "2 complete"]


def test_a_checkpoint_asks_the_store_for_nothing_that_the_driver_knows(
    job: Checkpointed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can have shown the output of a checkpoint that was just written, so nobody looks; what a sorted pass may
    have left is looked for once after it."""
    asked: list[object] = []
    monkeypatch.setattr(CheckpointStore, "is_committed", lambda self, number: asked.append(number))
    monkeypatch.setattr(folders, "delete_quietly", lambda filesystem, path: asked.append(path))

    def after(what: str, *times_ms: int) -> list[object]:
        asked.clear()
        job.take(what, at(*times_ms))
        job.cut()
        job.complete()
        job.coordinator.look()
        return list(asked)

    left = [job.store.backlog_pin, job.store.backlog]
    assert after("live", 1, 20) == left
    assert after("live", 21, 40) == []
    assert after("lag", 41, 60) == left
    assert after("live", 61, 80) == []
    assert job.outcomes == [f"{number} complete" for number in (1, 2, 3, 4)]
    assert len(job.shown()) == 3


def test_the_place_in_the_source_is_that_of_the_cut(job: Checkpointed) -> None:
    """Spark may have removed the entry of its log by the time that the checkpoint is completed."""
    entry = Path(job.store.spark_log._folder) / "offsets" / "7"
    entry.parent.mkdir(parents=True)
    entry.write_text("v1\n{}\n7")
    job.take("live", at(1))
    job.state.batch_id = 7
    job.cut()
    entry.unlink()
    job.take("live", at(2))
    job.state.batch_id = 8
    job.complete()
    job.coordinator.look()
    found = job.store.latest()
    assert found is not None and found.spark is not None
    assert (job.outcomes, found.spark.batch_id, found.spark.offset_entry) == (["1 complete"], 7, "v1\n{}\n7")


def test_a_compaction_beside_epochs_replaces_what_was_cut(job: Checkpointed) -> None:
    """Epochs add files behind the compacted ones; the files before stay as long as a task may read them."""
    for time_ms in (1, 2, 3):
        job.take("live", at(time_ms))
    cut = [one for one in job.stages[0].manifests if one.files]
    assert any(one.needs_compaction() for one in cut)
    job.cut()
    job.complete()
    job.take("live", at(4))
    job.coordinator.look()  # the checkpoint is complete, and a round of housekeeping begins
    assert job.outcomes == ["1 complete"]
    job.take("live", at(5))  # by the files before
    job.cut()
    assert job.coordinator.in_flight == 2, "a compaction holds up no checkpoint"
    job.complete()
    job.check_files()
    job.coordinator.look()
    now = [one for one in job.stages[0].manifests if one.replaced]
    assert now
    assert all(len(one.files) == one.replaced_by + 1 for one in now), "one file was added behind it"
    job.check_files()
    job.take("live", at(30))
    job.take("clock")
    job.end()
    job.check_files(nothing_else=True)
    assert sum(row[2] for row in job.shown()) == 5


def test_whoever_needs_a_complete_checkpoint_waits_for_the_one_in_flight(job: Checkpointed) -> None:
    """It is completed first; one that holds all leaves nothing to be taken."""
    job.take("live", at(1))
    job.cut()
    assert job.scheduler.next_trigger_ms() is None, "the clock need not look while one is in flight"
    job.complete()
    job.at_once = True
    assert job.coordinator.checkpoint_if_behind("stop")
    assert job.outcomes == ["1 complete"]
    job.take("live", at(2))
    job.cut()
    assert job.coordinator.checkpoint("savepoint") is not None
    assert job.outcomes == ["1 complete", "2 complete", "3 complete"]


def test_a_checkpoint_that_fails_beside_epochs_leaves_its_rows_to_the_next(job: Checkpointed) -> None:
    """It counts as one in a row; what is tolerated is told, and one too many ends the job."""
    job.take("live", at(1, 20))
    job.take("clock")
    job.spec.settings.__dict__["tolerable_failed_checkpoints"] = 1
    job.store.guard = lambda: (_ for _ in ()).throw(OSError("no space"))
    job.cut()
    job.take("live", at(21))
    job.complete()
    job.coordinator.look()
    assert (job.outcomes, job.shown()) == (["1 failed"], [])
    job.cut()
    job.complete()
    with pytest.raises(CheckpointError, match=r"checkpoint 2 failed \(no space\); 2 in a row"):
        job.coordinator.look()
    job.store.guard = lambda: None
    job.end()
    assert (job.outcomes[-1], len(job.shown())) == ("3 complete", 1)


def test_shards_that_are_dealt_anew_are_news_until_a_checkpoint_holds_them(job: Checkpointed) -> None:
    """Where no row comes: the one that was to hold them may have failed, and whoever has asked for them waits."""
    job.spec.settings.__dict__["tolerable_failed_checkpoints"] = 1
    job.take("live", at(1))
    job.take("clock")
    job.at_once = True
    assert job.coordinator.checkpoint_if_behind("before")
    reassign_shards(job.state, job.events, mock.Mock(), dict.fromkeys(job.state.stages, 3))
    job.tasks.lifecycle = lifecycle_of(job.spec, job.state)
    guard, job.store.guard = job.store.guard, lambda: (_ for _ in ()).throw(OSError("no space"))
    job.coordinator.checkpoint_beside("rescale")
    job.coordinator.look()
    job.store.guard, job.scheduler.immediate = guard, False
    job.scheduler._next_ms = 0  # the interval is over
    job.coordinator.checkpoint_if_due()
    job.coordinator.look()
    assert job.outcomes == ["1 complete", "2 failed", "3 complete"]
    assert {len(one.shards) for one in job.store.read(3).operators} == {3}
    assert job.coordinator.checkpoint_if_behind("again") and len(job.outcomes) == 3, "nothing is new any more"


def run_of(job: Checkpointed) -> Any:
    """As much of a run as the steps of its clock need."""
    facts: list[Any] = []
    context = SimpleNamespace(pause=PauseSwitch(lambda: None), listener=SimpleNamespace(on=facts.append))
    epochs = SimpleNamespace(send_events=lambda phase: None, tick=lambda *how, **when: False)
    return SimpleNamespace(checkpoints=job.coordinator, epochs=epochs, context=context, state=job.state, facts=facts)


def failing(job: Checkpointed, tolerated: int) -> None:
    """Rows are pending, and checkpoints fail."""
    job.spec.settings.__dict__["tolerable_failed_checkpoints"] = tolerated
    job.store.guard = lambda: (_ for _ in ()).throw(OSError("no space"))
    job.take("live", at(1, 20))
    job.take("clock")
    job.at_once = True


def test_rows_that_a_user_waits_for_are_tried_again_when_a_checkpoint_is_due(job: Checkpointed) -> None:
    """The steps of a run's clock come many times a second: after a failure that is tolerated they leave the others to
    the scheduler, so that what may fail is not used up before the cause can be gone."""
    failing(job, tolerated=2)
    run, phase = run_of(job), cast(Any, SimpleNamespace(kind="live"))
    assert [commit_now(run, phase) for _ in range(9)] == [False] * 9
    assert job.outcomes == ["1 failed"]
    job.scheduler.request()
    assert [commit_now(run, phase) for _ in range(9)] == [False] * 9
    assert job.outcomes == ["1 failed", "2 failed"]
    job.store.guard = lambda: None
    job.scheduler.request()
    job.coordinator.checkpoint_if_due()  # as the clock does before it looks who waits
    assert commit_now(run, phase), "they are visible"
    assert (job.outcomes[2:], len(job.shown())) == (["3 complete"], 1)


def test_a_pause_whose_checkpoint_fails_is_none(job: Checkpointed) -> None:
    """Whoever has asked for it is told at once, and the run goes on; the next pause tries again."""
    failing(job, tolerated=1)
    run, serving = run_of(job), mock.Mock()
    phase = cast(Any, SimpleNamespace(kind="live"))
    answer = run.context.pause.ask()
    assert [stands_still(run, serving, phase) for _ in range(9)] == [False] * 9
    with pytest.raises(QueryError, match="not paused: its checkpoint failed, and the query goes on"):
        answer.result(0)
    assert (job.outcomes, run.facts, serving.serve.called) == (["1 failed"], [], False)
    job.store.guard = lambda: None
    answer = run.context.pause.ask()
    assert stands_still(run, serving, phase)
    answer.result(0)
    assert (job.outcomes[1:], len(job.shown())) == (["2 complete"], 1)


def test_a_location_that_is_lost_beside_epochs_ends_the_job(job: Checkpointed) -> None:
    """No number of tolerated failures helps: the next look of the run raises."""
    job.spec.settings.__dict__["tolerable_failed_checkpoints"] = 9
    job.take("live", at(1))
    job.coordinator.services.lease.check.side_effect = LocationLost("gone")  # type: ignore[attr-defined]
    job.cut()
    job.complete()
    with pytest.raises(LocationLost):
        job.coordinator.look()
    assert job.outcomes == ["1 aborted"]


def test_a_job_that_fails_gives_up_what_is_not_there(job: Checkpointed) -> None:
    """A checkpoint without ``_metadata`` is aborted; one that has it is completed, and told."""
    job.take("live", at(1, 20))
    job.take("clock")
    job.cut()
    job.coordinator.services.failed.set()
    job.complete()
    job.coordinator.give_up()
    assert (job.outcomes, job.store.ids(), job.shown()) == (["1 aborted"], [], [])
    job.coordinator.services.failed.clear()
    job.take("live", at(21))
    job.cut()
    job.complete()
    job.coordinator.give_up()
    assert (job.outcomes[-1], job.store.ids(), len(job.shown())) == ("2 complete", [2], 1)


def test_what_fails_behind_metadata_is_the_jobs_failure(job: Checkpointed) -> None:
    """The checkpoint is there, so nothing is tolerated: whoever comes next shows its rows."""
    job.take("live", at(1, 20))
    job.take("clock")
    job.cut()
    job.complete("checkpoint-after-metadata")
    with pytest.raises(Died):
        job.coordinator.look()
    assert (job.state.checkpoint_id, job.shown()) == (1, [])
    assert job.die() == 1
    assert len(job.shown()) == 1


def test_giving_up_says_so() -> None:
    """The reason is one of checkpoints."""
    assert issubclass(CheckpointAbandoned, CheckpointError)
