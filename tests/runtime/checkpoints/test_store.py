"""The folder of a job's checkpoints: what exists, what is kept, what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from failing import fail_at
from mixedmode.errors import CheckpointError, CheckpointMismatchError, CorruptStateError
from mixedmode.planner.cli.locations import held_checkpoint
from mixedmode.runtime.checkpoints import branch, reader_marks
from mixedmode.runtime.checkpoints.identity import JobIdentity
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.store import CheckpointStore, has_checkpoint
from mixedmode.runtime.storage.filesystem import list_files
from mixedmode.runtime.support import failpoints
from mixedmode.state.store.files import StateFile
from pyarrow import fs

UID = "stage"
IDENTITY = JobIdentity("job-1", ({"uid": UID, "key": ["k string"]},), 128)

MakeMetadata = Callable[..., CheckpointMetadata]
MakeFile = Callable[..., StateFile]


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    made = CheckpointStore(fs.LocalFileSystem(), str(tmp_path / "checkpoints"))
    made.claim(IDENTITY)
    return made


def pool_names(store: CheckpointStore) -> set[str]:
    return set(os.listdir(store.pool(UID)))


def damage(path: str) -> None:
    """Flip one bit in the middle of a file."""
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def test_new_location_has_no_identity(tmp_path: Path) -> None:
    """A folder that does not exist yet belongs to nobody, and asking does not create it."""
    made = CheckpointStore(fs.LocalFileSystem(), str(tmp_path / "new"))
    assert made.identity() is None
    assert made.latest() is None
    assert not (tmp_path / "new").exists()


def test_a_job_has_a_checkpoint_once_one_is_complete(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile, tmp_path: Path
) -> None:
    """Not before, and not where no location is, or none can be: what is wrong there is said by the start."""
    assert not has_checkpoint(store.location)
    store.write(make_metadata(1, make_state_file(store, "e00000001-s0")))
    assert has_checkpoint(store.location)
    (tmp_path / "file").touch()
    for location in (None, str(tmp_path / "none"), str(tmp_path / "file"), "nothing://x/y"):
        assert not has_checkpoint(location)


def test_the_folders_are_listed_once(
    store: CheckpointStore,
    make_metadata: MakeMetadata,
    make_state_file: MakeFile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store may be slow: each look for checkpoints lists them once, and asks of those without metadata alone whether
    they were visible."""
    for number in (1, 2):
        store.write(make_metadata(number, make_state_file(store, f"e0000000{number}-s0")))
        store.mark_committed(number)
    asked: list[str] = []
    monkeypatch.setattr(branch, "list_files", lambda *args: asked.append("list") or list_files(*args))
    monkeypatch.setattr(store, "is_committed", lambda number: asked.append(f"committed {number}"))
    for look, found in ((store.ids, [1, 2]), (store.known_ids, [1, 2])):
        assert look() == found
    assert store.latest() is not None
    assert asked == ["list"] * 3


def test_identity_is_remembered(store: CheckpointStore) -> None:
    """The claimed identity comes back as it was written."""
    assert store.identity() == IDENTITY


def test_damaged_identity_is_refused(store: CheckpointStore) -> None:
    """A job.json that was cut off is named, not taken for an empty location."""
    path = Path(store.root, "job.json")
    path.write_text(path.read_text()[:20])
    with pytest.raises(CorruptStateError, match=r"job\.json is damaged"):
        store.identity()


def test_newer_identity_is_refused(store: CheckpointStore) -> None:
    """A job.json of a newer format version is refused with both versions."""
    path = Path(store.root, "job.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 99}))
    with pytest.raises(CheckpointMismatchError, match="format version 99"):
        store.identity()


def test_folder_of_a_stock_query_is_refused(tmp_path: Path) -> None:
    """The checkpoint of a stock Structured Streaming query is recognised and left alone."""
    (tmp_path / "offsets").mkdir()
    with pytest.raises(CheckpointMismatchError, match="stock Structured Streaming"):
        CheckpointStore(fs.LocalFileSystem(), str(tmp_path)).identity()
    assert os.listdir(tmp_path) == ["offsets"]


def test_written_checkpoint_is_the_latest(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile
) -> None:
    """The newest complete checkpoint is found and read back."""
    for number in (1, 2):
        store.write(make_metadata(number, make_state_file(store, f"e0000000{number}-s0")))
    assert store.ids() == [1, 2]
    latest = store.latest()
    assert latest is not None and latest.checkpoint_id == 2


def test_checkpoint_without_metadata_does_not_exist(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """A folder without ``_metadata`` is not a checkpoint, so one that was cut short never counts."""
    store.write(make_metadata(1))
    os.makedirs(store.folder(2))
    assert store.ids() == [1]


def test_failure_before_metadata_leaves_nothing(
    store: CheckpointStore, make_metadata: MakeMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that dies just before the metadata leaves no checkpoint, and the same id can be written again."""
    fail_at(monkeypatch, "checkpoint-before-metadata=raise")
    with pytest.raises(failpoints.InjectedFailure):
        store.write(make_metadata(1))
    assert store.ids() == []
    store.write(make_metadata(1))
    assert store.ids() == [1]


def test_second_driver_is_noticed(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """Writing an id that exists is refused: two drivers must not work on one location."""
    store.write(make_metadata(1))
    with pytest.raises(CheckpointError, match="another driver"):
        store.write(make_metadata(1))


def test_commit_marker(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """A checkpoint counts as committed only once it was marked."""
    store.write(make_metadata(1))
    assert not store.is_committed(1)
    store.mark_committed(1)
    assert store.is_committed(1)


def test_subsume_keeps_the_newest(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """Of five checkpoints two are retained, the newest."""
    for number in range(1, 6):
        store.write(make_metadata(number))
    store.retention.subsume(2)
    assert store.ids() == [4, 5]
    assert not os.path.exists(store.folder(3))


def test_a_checkpoint_that_somebody_reads_is_kept(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints come and go while it is read, by another process; it and its files go when the reader has finished,
    or has been away for too long."""
    for number in (1, 2):
        store.write(make_metadata(number, make_state_file(store, f"e0000000{number}-s0")))
    reader = CheckpointStore(store.filesystem, store.location)
    with held_checkpoint(reader, 1, holds=True) as metadata:
        for number in (3, 4):
            store.write(make_metadata(number, make_state_file(store, f"e0000000{number}-s0")))
            store.retention.subsume(1)
            store.retention.collect_garbage(UID, ())
        assert store.ids() == [1, 4] and reader.read(1) == metadata
        assert pool_names(store) == {"e00000001-s0-0.log", "e00000004-s0-0.log"}
    store.retention.subsume(1)
    assert store.ids() == [4]

    store.write(make_metadata(5, make_state_file(store, "e00000005-s0")))
    monkeypatch.setattr(reader_marks, "HOLDS_MS", -1)
    with held_checkpoint(reader, 4, holds=True):
        store.retention.subsume(1)
        assert store.ids() == [5]
    with pytest.raises(typer.BadParameter, match="has no checkpoint 4"), held_checkpoint(reader, 4, holds=True):
        pass


def test_interrupted_subsume_is_finished_later(
    store: CheckpointStore, make_metadata: MakeMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-removed checkpoint is none, and removing goes on where it was."""
    for number in (1, 2, 3):
        store.write(make_metadata(number))
    fail_at(monkeypatch, "gc-after-metadata=raise")
    with pytest.raises(failpoints.InjectedFailure):
        store.retention.subsume(1)
    assert store.ids() == [2, 3]
    store.retention.subsume(1)
    assert store.ids() == [3]


def test_garbage_is_what_nobody_names(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile
) -> None:
    """Files of retained checkpoints and of the running job stay, all others go."""
    retained = make_state_file(store, "e00000001-s0-won")
    make_state_file(store, "e00000001-s0-lost")
    running = make_state_file(store, "e00000002-s0-won")
    store.write(make_metadata(1, retained))
    live = make_metadata(2, retained, running).operators[0].shards[0].load()
    assert store.retention.collect_garbage(UID, [live]) == 1
    assert pool_names(store) == {retained.name, running.name}


def test_checkpoints_of_this_run_are_not_read_to_find_garbage(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they name is known from writing them; those of an earlier run are read."""
    store.write(make_metadata(1, make_state_file(store, "e00000001-s0-won")))
    again = CheckpointStore(store.filesystem, store.location)
    again.write(make_metadata(2, make_state_file(store, "e00000002-s0-won")))
    make_state_file(store, "e00000002-s0-lost")
    read: list[int] = []
    whole = CheckpointStore.read

    def counted(reader: CheckpointStore, checkpoint_id: int) -> CheckpointMetadata:
        read.append(checkpoint_id)
        return whole(reader, checkpoint_id)

    monkeypatch.setattr(CheckpointStore, "read", counted)
    assert again.retention.collect_garbage(UID, []) == 1
    assert read == [1]
    again.retention.subsume(1)
    assert again.retention.collect_garbage(UID, []) == 1
    assert read == [1]


def test_garbage_collection_spares_running_epochs(store: CheckpointStore, make_state_file: MakeFile) -> None:
    """Files of epochs after the given one are left alone: their attempts may still be writing."""
    make_state_file(store, "e00000001-s0-lost")
    running = make_state_file(store, "e00000002-s0-running")
    assert store.retention.collect_garbage(UID, [], up_to_epoch=1) == 1
    assert pool_names(store) == {running.name}


def test_missing_file_names_the_file_and_the_way_back(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile
) -> None:
    """A missing state file is named together with the newest older checkpoint that is whole."""
    first, second = make_state_file(store, "e00000001-s0"), make_state_file(store, "e00000002-s0")
    store.write(make_metadata(1, first))
    store.write(make_metadata(2, first, second))
    os.unlink(f"{store.pool(UID)}/{second.name}")
    with pytest.raises(CorruptStateError) as caught:
        store.latest()
    assert second.name in str(caught.value)
    assert "older checkpoint that is whole is 1" in str(caught.value)


def test_truncated_file_is_found_at_the_start(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile
) -> None:
    """A state file of another size is found when the job starts; without an older checkpoint the error says so."""
    file = make_state_file(store, "e00000001-s0")
    store.write(make_metadata(1, file))
    os.truncate(f"{store.pool(UID)}/{file.name}", file.size_bytes - 1)
    with pytest.raises(CorruptStateError, match="No older checkpoint is whole") as caught:
        store.latest()
    assert file.name in str(caught.value)


def test_damaged_older_checkpoint_is_no_way_back(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile
) -> None:
    """The alternative is verified by content: an older checkpoint with a flipped bit is passed over."""
    files = [make_state_file(store, f"e0000000{number}-s0") for number in (1, 2, 3)]
    for number, file in enumerate(files, 1):
        store.write(make_metadata(number, file))
    damage(f"{store.pool(UID)}/{files[1].name}")
    os.unlink(f"{store.pool(UID)}/{files[2].name}")
    with pytest.raises(CorruptStateError, match="older checkpoint that is whole is 1"):
        store.latest()


def test_damaged_metadata_is_never_skipped(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """A latest checkpoint whose metadata is damaged is an error, not a silent step back."""
    store.write(make_metadata(1))
    store.write(make_metadata(2))
    damage(f"{store.folder(2)}/_metadata")
    with pytest.raises(CorruptStateError, match="chk-00000002"):
        store.latest()


def test_lost_metadata_is_no_step_back(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """A committed checkpoint whose metadata is gone is an error that names the older one, not a silent step back."""
    for number in (1, 2):
        store.write(make_metadata(number))
        store.mark_committed(number)
    os.unlink(f"{store.folder(2)}/_metadata")
    with pytest.raises(CorruptStateError, match=r"chk-00000002/_metadata is missing\. .* that is whole is 1"):
        store.latest()
    os.unlink(f"{store.folder(1)}/_metadata")
    with pytest.raises(CorruptStateError, match="No older checkpoint is whole"):
        store.latest()


def test_damaged_old_metadata_stops_only_the_clean_up(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile
) -> None:
    """While an older checkpoint cannot say which files it needs, none is removed; the newest one is unaffected."""
    store.write(make_metadata(1, make_state_file(store, "e00000001-s0")))
    store.write(make_metadata(2))
    damage(f"{store.folder(1)}/_metadata")
    latest = store.latest()
    assert latest is not None
    assert latest.checkpoint_id == 2
    assert store.retention.collect_garbage(UID, []) == 0
    store.retention.subsume(1)
    assert store.retention.collect_garbage(UID, []) == 1
