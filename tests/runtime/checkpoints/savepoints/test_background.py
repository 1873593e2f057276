"""Savepoints that are written while the job goes on: what they hold does not change, and nobody waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from failing import fail_at
from mixedmode.errors import QueryError
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.savepoints import writer as savepoint
from mixedmode.runtime.checkpoints.savepoints.background import SavepointCopies
from mixedmode.runtime.checkpoints.savepoints.queue import SavepointRequest
from mixedmode.runtime.checkpoints.savepoints.store import open_savepoint
from mixedmode.runtime.checkpoints.savepoints.writer import SavepointDraft
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.state.store.files import StateFile

UID = "stage"

MakeMetadata = Callable[..., CheckpointMetadata]
MakeFile = Callable[..., StateFile]


@pytest.fixture
def take(store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile) -> MakeMetadata:
    """Takes a checkpoint with a state file of its own, as the job does; the ones before are subsumed."""

    def take(number: int) -> CheckpointMetadata:
        metadata = make_metadata(number, make_state_file(store, f"e{number:08d}-s0", number), spark=None)
        store.write(metadata)
        store.mark_committed(number)
        store.retention.subsume(1)
        store.retention.collect_garbage(UID, [])
        return metadata

    return take


@pytest.fixture
def copies(store: CheckpointStore) -> Iterator[SavepointCopies]:
    made = SavepointCopies(store, "{}", lambda path: None)
    yield made
    made.wait()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Copies wait until it is set."""
    made = threading.Event()
    monkeypatch.setattr(savepoint, "failpoint", lambda name: made.wait(300))
    return made


def pool(store: CheckpointStore) -> list[str]:
    return sorted(path.name.split("-")[0] for path in Path(store.pool(UID)).iterdir())


def test_job_goes_on_while_a_savepoint_is_written(
    store: CheckpointStore, take: MakeMetadata, copies: SavepointCopies, gate: threading.Event, tmp_path: Path
) -> None:
    """Checkpoints that subsume the savepoint's own leave its files until it is complete, and then they go."""
    request = SavepointRequest(str(tmp_path / "sp"))
    copies.begin(take(1), [request])
    take(2)
    take(3)
    assert not request.answer.done()
    assert pool(store) == ["e00000001", "e00000003"]

    gate.set()
    assert request.answer.result(300) == str(tmp_path / "sp")
    written = open_savepoint(str(tmp_path / "sp"))
    assert written.latest().checkpoint_id == 1
    written.check_files(written.latest(), checksums=True)
    copies.wait()
    take(4)
    assert pool(store) == ["e00000004"]


def test_each_savepoint_has_its_own_checkpoint(
    take: MakeMetadata, copies: SavepointCopies, gate: threading.Event, tmp_path: Path
) -> None:
    """Savepoints that are asked for while another one is written hold what the job had when they were asked for."""
    requests = {number: SavepointRequest(str(tmp_path / str(number))) for number in (1, 2, 3)}
    for number, request in requests.items():
        copies.begin(take(number), [request])
    gate.set()
    for number, request in requests.items():
        assert open_savepoint(request.answer.result(300)).latest().checkpoint_id == number


def test_failure_is_its_askers(
    store: CheckpointStore,
    take: MakeMetadata,
    copies: SavepointCopies,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that cannot be written is answered with the reason and leaves nothing; the next is written."""
    fail_at(monkeypatch, "savepoint-copy=raise:1")
    (tmp_path / "file").touch()
    failing = [SavepointRequest(str(tmp_path / "sp")), SavepointRequest(str(tmp_path / "file" / "sp"))]
    fine = SavepointRequest(str(tmp_path / "sp"))
    copies.begin(take(1), [*failing, fine])
    for request, reason in zip(failing, ["failpoint", "Not a directory"], strict=True):
        with pytest.raises(QueryError, match=f"the savepoint failed: .*{reason}"):
            request.answer.result(300)
    assert open_savepoint(fine.answer.result(300)).latest().checkpoint_id == 1
    copies.wait()
    take(2)
    assert pool(store) == ["e00000002"]


def test_output_must_be_visible(
    store: CheckpointStore, make_metadata: MakeMetadata, copies: SavepointCopies, tmp_path: Path
) -> None:
    """A checkpoint whose output nobody has shown makes no savepoint."""
    request = SavepointRequest(str(tmp_path / "sp"))
    copies.begin(make_metadata(1), [request])
    with pytest.raises(QueryError, match="not visible yet"):
        request.answer.result(0)
    assert not (tmp_path / "sp").exists()


def test_all_are_answered_before_the_end(
    take: MakeMetadata, copies: SavepointCopies, gate: threading.Event, tmp_path: Path
) -> None:
    """Waiting for the copies returns when the last one is answered."""
    request = SavepointRequest(str(tmp_path / "sp"))
    copies.begin(take(1), [request])
    waiting = threading.Thread(target=copies.wait)
    waiting.start()
    assert waiting.is_alive() and not request.answer.done()
    gate.set()
    waiting.join(300)
    assert request.answer.done()


def test_files_copied_ahead_are_not_copied_again(
    store: CheckpointStore, take: MakeMetadata, make_state_file: MakeFile, tmp_path: Path
) -> None:
    """What was copied before the checkpoint is taken as it is; what the checkpoint has besides is copied then."""
    early = make_state_file(store, "e00000001-s0-early")
    with SavepointDraft(store, str(tmp_path / "sp"), "{}") as draft:
        draft.copy([(UID, early)], 1)
        Path(store.pool(UID), early.name).unlink()
        metadata = take(1)
        (operator,) = metadata.operators
        shard = operator.shards[0].model_copy(update={"lineage": operator.shards[0].load().append([early]).to_json()})
        both = metadata.model_copy(update={"operators": (operator.model_copy(update={"shards": (shard,)}),)})
        draft.finish(both)
    written = open_savepoint(str(tmp_path / "sp"))
    written.check_files(both, checksums=True)
    assert len(written.savepoint.files) == 3, "the plan and two state files"


def test_draft_that_is_given_up_leaves_nothing(store: CheckpointStore, tmp_path: Path) -> None:
    """A draft claims its destination at once, and gives it up if it is never finished."""
    with SavepointDraft(store, str(tmp_path / "sp"), "{}"):
        assert (tmp_path / "sp" / "plan.json").exists()
    assert not (tmp_path / "sp").exists()
