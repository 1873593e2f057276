"""Savepoints as folders: what is copied, what is refused, and what a writer that fails leaves behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from failing import fail_at
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mixedmode.errors import CheckpointError, CheckpointMismatchError, CorruptStateError
from mixedmode.runtime.checkpoints import metadata
from mixedmode.runtime.checkpoints.format import Format
from mixedmode.runtime.checkpoints.identity import JobIdentity
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.savepoints.store import (
    MANIFEST,
    SAVEPOINT_VERSION,
    Savepoint,
    SavepointStore,
    open_savepoint,
    open_store,
)
from mixedmode.runtime.checkpoints.spark_log import crc_file
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.support import failpoints
from mixedmode.state.store.files import StateFile
from pyarrow import fs
from savepoint_support import write_savepoint

UID = "stage"
DATA = Path(__file__).parents[3] / "data"
PLAN_TEXT = '{"name": "job"}'

MakeMetadata = Callable[..., CheckpointMetadata]
MakeFile = Callable[..., StateFile]


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    made = CheckpointStore(fs.LocalFileSystem(), str(tmp_path / "checkpoints"))
    made.claim(JobIdentity("job", ({"uid": UID},), 128))
    log = Path(made.spark_location, "sources", "0")
    log.mkdir(parents=True)
    for name in ("9.compact", "10", ".11.abc.tmp"):
        (log / name).write_text(name)
    (log / ".10.crc").write_bytes(crc_file(b"10"))
    return made


@pytest.fixture
def taken(store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile) -> CheckpointMetadata:
    """A visible checkpoint with two files, one of which two shards share."""
    files = [make_state_file(store, f"e0000000{number}-s0") for number in (1, 2)]
    metadata = make_metadata(2, *files)
    (operator,) = metadata.operators
    twice = operator.model_copy(update={"shards": (*operator.shards, *operator.shards)})
    metadata = metadata.model_copy(update={"operators": (twice,)})
    store.write(metadata)
    store.mark_committed(2)
    return metadata


@pytest.fixture
def written(store: CheckpointStore, taken: CheckpointMetadata, tmp_path: Path) -> Path:
    return Path(write_savepoint(store, taken, str(tmp_path / "sp"), PLAN_TEXT))


@pytest.fixture
def whole(written: Path) -> bytes:
    """The bytes of a savepoint's metadata."""
    return (written / MANIFEST).read_bytes()


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_savepoint_is_one_folder(written: Path) -> None:
    """State, the sources' logs without their debris, the plan and the metadata, and nothing else."""
    assert contents(written) == {
        MANIFEST,
        "plan.json",
        f"state/{UID}/e00000001-s0-0.log",
        f"state/{UID}/e00000002-s0-0.log",
        "spark/sources/0/9.compact",
        "spark/sources/0/10",
    }
    assert (written / "plan.json").read_text() == PLAN_TEXT


def test_every_file_is_described(written: Path) -> None:
    """The metadata names each file by its relative path, with size and checksum."""
    described = {file.path: file for file in open_savepoint(str(written)).savepoint.files}
    assert described.keys() == contents(written) - {MANIFEST}
    for path, file in described.items():
        content = (written / path).read_bytes()
        assert (file.size_bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert str(written) not in (written / MANIFEST).read_text()


def test_moved_savepoint_is_read_where_it_is(written: Path, taken: CheckpointMetadata, tmp_path: Path) -> None:
    """After a move, and without the checkpoints it came from, it holds the checkpoint without pending output."""
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    shutil.move(written, moved)
    shutil.rmtree(tmp_path / "checkpoints")
    opened = open_store(fs.LocalFileSystem(), str(moved))
    assert isinstance(opened, SavepointStore)
    found = opened.latest()
    assert found.operators == taken.operators
    assert found.spark == taken.spark
    assert taken.transaction.files and not found.transaction.files
    opened.check_files(found, checksums=True)


def test_savepoint_shares_nothing(store: CheckpointStore, written: Path, taken: CheckpointMetadata) -> None:
    """Damage to the job's files leaves the savepoint whole: files are copies, not links."""
    for name in os.listdir(store.pool(UID)):
        with open(f"{store.pool(UID)}/{name}", "r+b") as file:
            file.write(b"damage")
    open_savepoint(str(written)).check_files(taken, checksums=True)


def test_other_filesystem(store: CheckpointStore, taken: CheckpointMetadata, tmp_path: Path) -> None:
    """A URI is written to and read from as a folder is."""
    uri = f"file://{tmp_path}/by-uri"
    write_savepoint(store, taken, uri, PLAN_TEXT)
    assert open_savepoint(uri).latest().checkpoint_id == 2


def test_filesystem_without_renames(
    store: CheckpointStore, taken: CheckpointMetadata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a filesystem that is not the local one (as object stores) it is the same folder."""
    remote = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for module in ("folder", "destination"):
        monkeypatch.setattr(
            f"mixedmode.runtime.checkpoints.savepoints.{module}.resolve", lambda path: (remote, "bucket/sp")
        )
    assert write_savepoint(store, taken, "s3://bucket/sp", PLAN_TEXT) == "s3://bucket/sp"
    opened = SavepointStore(remote, "bucket/sp")
    opened.check_files(opened.latest(), checksums=True)
    assert contents(tmp_path / "bucket" / "sp") == {MANIFEST, *(file.path for file in opened.savepoint.files)}


@pytest.mark.parametrize("held", ["savepoint", "left", "other", "file"])
def test_destination_must_be_empty(
    store: CheckpointStore, taken: CheckpointMetadata, tmp_path: Path, held: str
) -> None:
    """A destination that holds anything is refused, in words that say what it is, and left as it is."""
    there = tmp_path / "there"
    if held == "file":
        there.write_text("x")
    else:
        there.mkdir()
        name = {"savepoint": MANIFEST, "left": "plan.json", "other": "notes.txt"}[held]
        (there / name).write_text("x")
    words = {"savepoint": "holds a savepoint", "left": "never finished", "other": "notes.txt", "file": "is a file"}
    with pytest.raises(CheckpointError, match=words[held]):
        write_savepoint(store, taken, str(there), PLAN_TEXT)
    assert there.read_text() == "x" if held == "file" else len(list(there.iterdir())) == 1


def test_empty_destination_is_taken(store: CheckpointStore, taken: CheckpointMetadata, tmp_path: Path) -> None:
    """A folder that was made beforehand will do."""
    (tmp_path / "made").mkdir()
    write_savepoint(store, taken, str(tmp_path / "made"), PLAN_TEXT)
    assert (tmp_path / "made" / MANIFEST).exists()


@pytest.mark.parametrize("point", ["savepoint-copy=raise:2", "savepoint-before-metadata=raise"])
def test_failed_writer_leaves_nothing(
    store: CheckpointStore, taken: CheckpointMetadata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """A writer that fails half way removes what it wrote; the same path can be used again."""
    fail_at(monkeypatch, point)
    with pytest.raises(failpoints.InjectedFailure):
        write_savepoint(store, taken, str(tmp_path / "sp"), PLAN_TEXT)
    assert not (tmp_path / "sp").exists()
    fail_at(monkeypatch, "")
    write_savepoint(store, taken, str(tmp_path / "sp"), PLAN_TEXT)


def test_unfinished_savepoint_is_none(written: Path) -> None:
    """Without its metadata a folder is not a savepoint, and the error says that it was never finished."""
    (written / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match="never finished"):
        open_savepoint(str(written))


def test_damaged_state_makes_no_savepoint(store: CheckpointStore, taken: CheckpointMetadata, tmp_path: Path) -> None:
    """A state file with a flipped bit is found while it is copied and named; no savepoint comes of it."""
    path = Path(store.pool(UID), "e00000002-s0-0.log")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptStateError, match=r"e00000002-s0-0\.log has been altered"):
        write_savepoint(store, taken, str(tmp_path / "sp"), PLAN_TEXT)
    assert not (tmp_path / "sp").exists()


def test_checkpoint_with_pending_output_is_refused(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile, tmp_path: Path
) -> None:
    """The output of a savepoint's checkpoint must be visible first: nobody would ever show it."""
    metadata = make_metadata(1, make_state_file(store, "e00000001-s0"))
    store.write(metadata)
    with pytest.raises(CheckpointError, match="not visible yet"):
        write_savepoint(store, metadata, str(tmp_path / "sp"), PLAN_TEXT)


def outcome(content: bytes) -> Savepoint | CheckpointError:
    """What reading a savepoint's metadata gives."""
    try:
        return Savepoint.from_bytes(content, f"sp/{MANIFEST}")
    except CheckpointError as error:
        return error


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flipped_bit_in_the_metadata(whole: bytes, data: st.DataObject) -> None:
    """Whichever bit of a savepoint's metadata flips: it is refused, and the file is named, or it says what it said."""
    content = bytearray(whole)
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = outcome(bytes(content))
    assert found == outcome(whole) or (isinstance(found, CheckpointError) and f"sp/{MANIFEST}" in str(found))


@pytest.mark.parametrize("length", [0, 1, 40, 400])
def test_truncated_metadata(written: Path, length: int) -> None:
    """A savepoint whose metadata was cut off is refused, and the file is named."""
    path = written / MANIFEST
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorruptStateError, match=MANIFEST):
        open_savepoint(str(written))


def test_newer_version_is_refused(written: Path) -> None:
    """A savepoint of a newer format is refused with both versions."""
    path = written / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": SAVEPOINT_VERSION + 1}))
    with pytest.raises(CheckpointMismatchError, match=f"version {SAVEPOINT_VERSION + 1}.* up to {SAVEPOINT_VERSION}"):
        open_savepoint(str(written))


def test_checkpoint_metadata_is_no_savepoint(store: CheckpointStore, taken: CheckpointMetadata) -> None:
    """The folder of a single checkpoint is not taken for a savepoint, and neither is a checkpointLocation."""
    with pytest.raises(CorruptStateError, match="not that of a savepoint"):
        open_savepoint(store.folder(2))
    with pytest.raises(CheckpointError, match="it is a checkpointLocation"):
        open_savepoint(store.location)


def test_damaged_source_log_makes_no_savepoint(
    store: CheckpointStore, taken: CheckpointMetadata, tmp_path: Path
) -> None:
    """A source's log that does not match its checksum is not copied as if it were whole."""
    log = Path(store.spark_location, "sources", "0")
    (log / ".10.crc").write_bytes(crc_file(b"what it said before"))
    with pytest.raises(CorruptStateError, match="sources/0/10"):
        write_savepoint(store, taken, str(tmp_path / "sp"), PLAN_TEXT)
    assert not (tmp_path / "sp").exists()


def test_there_is_a_savepoint_of_each_version() -> None:
    """Every version that this code reads has a savepoint that was written when it was the newest."""
    versions = range(1, SAVEPOINT_VERSION + 1)
    assert sorted(path.name for path in DATA.glob("savepoint-*")) == [f"savepoint-{version}" for version in versions]


def test_version_1_is_read_for_ever() -> None:
    """M1: a savepoint as version 1 wrote it is whole, and holds the checkpoint that it was made of."""
    store = open_savepoint(str(DATA / "savepoint-1"))
    found = store.latest()
    store.check_files(found, checksums=True)
    origin = CheckpointMetadata.from_bytes((DATA / "checkpoint-1").read_bytes(), "there")
    assert found == origin.model_copy(update={"transaction": found.transaction})
    assert store.kind_of(found) == "savepoint" and not found.is_drained
    assert not found.transaction.files
    assert sorted(file.path for file in store.savepoint.files if file.path.startswith("spark")) == [
        "spark/sources/0/0",
        "spark/sources/0/1",
    ]


def test_checkpoint_inside_has_its_own_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A savepoint whose checkpoint is of an older version than today's is upgraded; a newer one is refused by it."""
    shutil.copytree(DATA / "savepoint-1", tmp_path / "old")
    then = open_savepoint(str(tmp_path / "old")).latest()
    today = metadata.FORMAT
    more = {today.version: lambda body: {**body, "epoch": body["epoch"] + 1000}}
    later = Format(today.version + 1, {**today.upgrades, **more})
    monkeypatch.setattr(metadata, "FORMAT", later)
    assert open_savepoint(str(tmp_path / "old")).latest().epoch == then.epoch + 1000

    newer = open_savepoint(str(tmp_path / "old")).savepoint.to_bytes()
    (tmp_path / "old" / MANIFEST).write_bytes(newer)
    monkeypatch.undo()
    with pytest.raises(
        CheckpointMismatchError, match=rf"the checkpoint in .* version {later.version}; .* up to {today.version}"
    ):
        open_savepoint(str(tmp_path / "old"))
