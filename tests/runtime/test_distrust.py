"""No file below a checkpoint location is trusted: any bit or end may be missing, and nothing goes wrong in silence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mixedmode.errors import CheckpointError, CheckpointMismatchError, CorruptStateError
from mixedmode.runtime.checkpoints.identity import JobIdentity
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease, LeaseClock
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.connectors.staged_output import StagedOutput
from mixedmode.runtime.connectors.staging import check_staged
from mixedmode.runtime.driver.epochs.pinned_backlog import PinnedBacklog
from mixedmode.runtime.driver.requests.remote_requests import Answer, Request, RequestFolder
from mixedmode.runtime.operators.contract import EpochSpec, InOrder, ShardCounters
from mixedmode.runtime.storage.checksummed import seal, unseal
from mixedmode.runtime.tasks.report import REPORT_SUFFIX, ShardReport
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.pool import StatePool
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs

UID = "stage"
LOCAL = fs.LocalFileSystem()
IDENTITY = JobIdentity("0123456789abcdef", ({"uid": UID, "key": ["k string"]},), 128)
MakeMetadata = Callable[..., CheckpointMetadata]
MakeFile = Callable[..., StateFile]


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    made = CheckpointStore(LOCAL, str(tmp_path / "checkpoints"))
    made.claim(IDENTITY)
    return made


def harms(whole: bytes, step: int = 1) -> Iterator[bytes]:
    """Every ``step``-th truncation and a flipped bit in every ``step``-th byte."""
    for place in range(0, len(whole), step):
        yield whole[:place]
        yield whole[:place] + bytes([whole[place] ^ (1 << place // step % 8)]) + whole[place + 1 :]


def answer(ask: Callable[[], object], *refusals: type[Exception]) -> tuple[object, str | None]:
    """What is answered, or the text of the refusal."""
    try:
        return ask(), None
    except refusals as error:
        return None, str(error)


def taken(store: CheckpointStore, metadata: CheckpointMetadata) -> None:
    store.write(metadata)
    store.mark_committed(metadata.checkpoint_id)


# -- single files ------------------------------------------------------------------------------------------------------


def state_file(folder: Path, kind: str) -> StateFile:
    """A state file of one epoch with some entries and a tombstone."""
    writer_class = SstWriter if kind == "sst" else LogWriter
    writer = writer_class(LOCAL, str(folder / "pool"), str(folder / "local"), "e1", 1)
    for number in range(60):
        writer.put(b"\x00\x05\x01" + number.to_bytes(4, "big"), f"value {number}".encode())
    writer.delete(b"\x00\x06\x01gone")
    (file,) = writer.finish()
    return file


@pytest.mark.parametrize("kind", ["sst", "log"])
def test_a_harmed_state_file_is_named(tmp_path: Path, kind: str) -> None:
    """Every truncation and flipped bit of a table or change log is an error with the file's name, never fewer rows."""
    file = state_file(tmp_path, kind)
    pool = StatePool(LOCAL, str(tmp_path / "pool"))
    path = Path(pool.path(file.name))
    whole = path.read_bytes()
    manifest = StateManifest(KeyGroupRange(0, 127), (file,))
    for number, harmed in enumerate(harms(whole, 3)):
        path.write_bytes(harmed)
        with pytest.raises(CorruptStateError, match=file.name):
            pool.check(file)
        if number % 40 == 0:
            with pytest.raises(CorruptStateError, match=file.name):
                LocalStateCache().acquire("job", 0, manifest, LOCAL, pool.folder, str(tmp_path / "replicas"), 1 << 20)
    path.write_bytes(whole)
    pool.check(file)


def test_harmed_metadata_is_refused_or_the_same(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """Whatever happens to ``_metadata``, the store reads what was written or names the file, and never an older one."""
    for number in (1, 2):
        taken(store, make_metadata(number))
    path = Path(store.folder(2), "_metadata")
    whole, written = path.read_bytes(), store.read(2)
    refused = 0
    for harmed in harms(whole, 2):
        path.write_bytes(harmed)
        found, refusal = answer(store.latest, CorruptStateError, CheckpointMismatchError)
        assert found == written if refusal is None else str(path) in refusal
        refused += refusal is not None
    assert refused > 0.98 * len(whole)


def test_a_harmed_identity_is_refused_or_the_same(store: CheckpointStore) -> None:
    """A changed digit of the job's id or key in job.json is not taken for another job: the file is named."""
    path = Path(store.root, "job.json")
    for harmed in harms(path.read_bytes()):
        path.write_bytes(harmed)
        found, refusal = answer(store.identity, CorruptStateError, CheckpointMismatchError)
        assert found == IDENTITY if refusal is None else "job.json" in refusal


def test_an_identity_without_checksum_is_read(store: CheckpointStore) -> None:
    """A job.json of before the checksum is as good as it was."""
    path = Path(store.root, "job.json")
    body = json.loads(path.read_bytes())
    del body["sha256"]
    path.write_text(json.dumps(body))
    assert store.identity() == IDENTITY


def test_a_harmed_lease_never_breaks_a_driver(tmp_path: Path) -> None:
    """A driver that finds a damaged claim, or counter, takes the location after its expiry, or is told who has it; the
    holder goes on or is told."""
    now_ms, number = 0, 0

    def sleep(ms: float) -> None:
        nonlocal now_ms
        now_ms += round(ms) + 1

    clock = LeaseClock(lambda: now_ms, sleep)
    for suffix in (".claim", ".beat"):
        sample = DriverLease(LOCAL, str(tmp_path / suffix), "run", clock=clock)
        sample.take(heartbeat=False)
        (content,) = [path.read_bytes() for path in (tmp_path / suffix / "lease").glob(f"*{suffix}")]
        for harmed in harms(content, 9):
            number += 1
            folder = tmp_path / str(number)
            first, second = (DriverLease(LOCAL, str(folder), run, clock=clock) for run in ("run-one", "run-two"))
            first.take(heartbeat=False)
            (path,) = (folder / "lease").glob(f"*{suffix}")
            path.write_bytes(harmed)
            for act in (lambda lease=second: lease.take(heartbeat=False), first.check, first.release):
                _, refusal = answer(act, CheckpointError)
                assert refusal is None or "another driver" in refusal
            second.release()


@example(b"", 64, 0)
@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(0, 7))
def test_a_sealed_file_is_whole_or_refused(content: bytes, place: int, bit: int) -> None:
    """Unsealing gives what was sealed; with any one bit flipped, or cut off anywhere, it is a ValueError."""
    sealed = seal(content)
    assert unseal(sealed) == content
    place %= len(sealed)
    for harmed in (sealed[:place], sealed[:place] + bytes([sealed[place] ^ (1 << bit)]) + sealed[place + 1 :]):
        with pytest.raises(ValueError, match="altered or cut off"):
            unseal(harmed)


def test_harmed_staged_output_is_named(tmp_path: Path) -> None:
    """Rows that wait for their checkpoint are checked before they are shown late: any harm is named, absence is not."""
    schema = pa.schema([("n", pa.int64())])
    output = StagedOutput(LOCAL, str(tmp_path), "e1", schema, "{}")
    output.write(pa.RecordBatch.from_pydict({"n": list(range(50))}, schema=schema))
    (file,) = output.finish()
    path = tmp_path / file.name
    whole = path.read_bytes()
    assert len(whole) == file.size_bytes
    check_staged(LOCAL, str(tmp_path), [file])
    for harmed in harms(whole, 2):
        path.write_bytes(harmed)
        with pytest.raises(CorruptStateError, match=file.name):
            check_staged(LOCAL, str(tmp_path), [file])
    os.unlink(path)  # moved to its place already
    check_staged(LOCAL, str(tmp_path), [file])


def test_a_pin_comes_back_as_it_was_and_of_another_version_not_at_all(store: CheckpointStore) -> None:
    """All of the pass is in the pin; what a version that knew other kinds of passes has pinned is not gone on with."""
    pin = PinnedBacklog(store, "fingerprint")
    epoch = EpochSpec(1, "sorted", 0, 5, -(2**63), 7, -(2**63), in_order=InOrder(0, 60_000, 5))
    pin.save(epoch, None)
    assert pin.load(None) == epoch and pin.belongs
    path = Path(pin.folder, "pin.json")
    body = json.loads(unseal(path.read_bytes()))
    body["epoch"]["ignore_new_timers"] = True
    path.write_bytes(seal(json.dumps(body).encode()))
    assert pin.load(None) is None and not pin.belongs


def test_a_harmed_pin_or_report_is_not_used(store: CheckpointStore, make_state_file: MakeFile) -> None:
    """Of a finished shard every file is checked; one wrong bit in pin, report or state and it is computed again."""
    pin = PinnedBacklog(store, "fingerprint")
    epoch = EpochSpec(1, "sorted", -(2**63), 2**63 - 1, -(2**63), 1_700_000_000_000, -(2**63))
    pin.save(epoch, "live")
    file = make_state_file(store, "e00000001-a")
    report = ShardReport(3, "attempt", (file,), (), ShardCounters(rows_in=12, max_event_time_ms=17), {})
    assert pin.reports is not None
    written = Path(pin.reports, f"attempt{REPORT_SUFFIX}")
    written.write_bytes(seal(report.to_bytes()))
    staging = OutputPlace(LOCAL, str(store.output))
    assert pin.finished(UID, staging) == {3: report} and pin.live_position == "live"
    state = Path(store.pool(UID), file.name)
    for path in (written, state):
        whole = path.read_bytes()
        for harmed in harms(whole, 5):
            path.write_bytes(harmed)
            assert pin.finished(UID, staging) == {}
        path.write_bytes(whole)
    path = Path(pin.folder, "pin.json")
    whole = path.read_bytes()
    for harmed in harms(whole, 2):
        path.write_bytes(harmed)
        assert pin.load("live") is None and not pin.belongs
    path.write_bytes(whole)
    assert pin.load("live") == epoch


def test_a_harmed_message_says_nothing(tmp_path: Path) -> None:
    """A request with any one bit wrong, or cut off, is nobody's; an answer like that is an error with its name."""
    folder = RequestFolder(LOCAL, str(tmp_path))
    request = Request("savepoint", "/savepoints/1", True, "run-1", 1_700_000_000_000)
    folder.put(request)
    folder.answer(request.id, Answer("done", "/savepoints/1"))
    asked, answered = (Path(folder.path, f"{request.id}.{kind}") for kind in ("request", "answer"))
    for harmed in harms(asked.read_bytes()):
        asked.write_bytes(harmed)
        assert folder.requests() == []
        assert not asked.exists(), "what cannot be read cannot be answered"
    for harmed in harms(answered.read_bytes()):
        answered.write_bytes(harmed)
        with pytest.raises(CorruptStateError, match=answered.name):
            folder.answer_to(request.id)


# -- whole folders -----------------------------------------------------------------------------------------------------


def test_lost_checkpoints_are_no_new_job(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """With the whole folder of checkpoints gone the job does not begin again, whatever has become of the pointer."""
    for number in (1, 2):
        taken(store, make_metadata(number))
    shutil.rmtree(Path(store.root, "checkpoints"))
    pointer = Path(store.root, "newest.json")
    whole = pointer.read_bytes()
    for content in [whole, *harms(whole)]:
        pointer.write_bytes(content)
        with pytest.raises(CorruptStateError, match="No older checkpoint is whole") as caught:
            store.latest()
        assert "newest.json" in str(caught.value) and "new checkpointLocation" in str(caught.value)


def test_a_lost_newest_checkpoint_is_no_step_back(store: CheckpointStore, make_metadata: MakeMetadata) -> None:
    """The folder of the newest checkpoint cannot go unnoticed; the way back that the error tells does work."""
    for number in (1, 2, 3):
        taken(store, make_metadata(number))
    shutil.rmtree(store.folder(3))
    with pytest.raises(CorruptStateError, match="older checkpoint that is whole is 2") as caught:
        store.latest()
    pointer = f"{store.root}/newest.json"
    assert store.folder(3) in str(caught.value) and pointer in str(caught.value)
    os.unlink(pointer)
    found = store.latest()
    assert found is not None and found.checkpoint_id == 2


def test_a_harmed_pointer_is_harmless_while_checkpoints_are_there(
    store: CheckpointStore, make_metadata: MakeMetadata
) -> None:
    """The pointer only says that there was a checkpoint: damage to it stops nobody who has one."""
    taken(store, make_metadata(12))
    pointer = Path(store.root, "newest.json")
    for harmed in harms(pointer.read_bytes()):
        pointer.write_bytes(harmed)
        found = store.latest()
        assert found is not None and found.checkpoint_id == 12
    os.unlink(pointer)
    assert store.latest() is not None


def test_a_crash_before_the_first_checkpoint_is_a_fresh_start(store: CheckpointStore) -> None:
    """A log of Spark's with commits and no checkpoint is what a crash in the backlog leaves: nothing is wrong."""
    Path(store.spark_location, "commits").mkdir(parents=True)
    Path(store.spark_location, "commits", "0").write_text("v1\n{}")
    assert store.identity() == IDENTITY and store.latest() is None


@pytest.mark.parametrize("left", ["mixedmode/checkpoints/chk-00000001", "mixedmode/state/stage", "spark/offsets/0"])
def test_a_lost_identity_is_no_new_job(tmp_path: Path, left: str) -> None:
    """Without job.json a folder that holds anything of a job's run is refused, and left as it is."""
    (tmp_path / left).mkdir(parents=True)
    store = CheckpointStore(LOCAL, str(tmp_path))
    with pytest.raises(CorruptStateError, match=r"job\.json is missing"):
        store.identity()
    assert (tmp_path / left).exists()
