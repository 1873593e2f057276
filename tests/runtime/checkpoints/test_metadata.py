"""The content of a checkpoint's ``_metadata``: nothing is lost, nothing damaged or unknown is accepted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import CheckpointMismatchError, CorruptStateError
from mixedmode.runtime.checkpoints import metadata
from mixedmode.runtime.checkpoints.format import Format
from mixedmode.runtime.checkpoints.metadata import FORMAT_VERSION, CheckpointMetadata
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.connectors.transaction import SinkTransaction

Make = Callable[..., CheckpointMetadata]
DATA = Path(__file__).parents[2] / "data"


def envelope(body: str, version: object = FORMAT_VERSION) -> bytes:
    """A file with a right checksum around any body."""
    digest = hashlib.sha256(body.encode()).hexdigest()
    return json.dumps({"format_version": version, "sha256": digest, "body": body}).encode()


def test_round_trip(make_metadata: Make) -> None:
    """What is written is what is read: sources, positions, shards, transaction."""
    written = make_metadata(7)
    assert CheckpointMetadata.from_bytes(written.to_bytes(), "here") == written


def test_round_trip_of_awkward_values() -> None:
    """Extreme watermarks, any file name and any offset text come back as they were."""

    @given(
        watermark_ms=st.sampled_from([-(2**63), -1, 0, 2**63 - 1]),
        names=st.lists(st.text(max_size=5), max_size=3),
        offsets=st.text(st.characters(codec="utf-8"), max_size=20),
    )
    def check(watermark_ms: int, names: list[str], offsets: str) -> None:
        from mixedmode.runtime.checkpoints.metadata import SparkPosition

        written = CheckpointMetadata(
            checkpoint_id=1,
            job_id="job",
            timestamp_ms=0,
            epoch=1,
            watermark_ms=watermark_ms,
            sources={},
            spark=SparkPosition(batch_id=0, offset_entry=offsets),
            operators=(),
            transaction=SinkTransaction(
                id=1, files=tuple(StagedFile(name=name, rows=0, size_bytes=0) for name in names)
            ),
        )
        assert CheckpointMetadata.from_bytes(written.to_bytes(), "here") == written

    check()


def test_altered_body_is_found_by_checksum(make_metadata: Make) -> None:
    """A changed digit in the body is an error that names the file."""
    data = make_metadata().to_bytes().replace(b'\\"epoch\\":1', b'\\"epoch\\":2')
    assert data != make_metadata().to_bytes()
    with pytest.raises(CorruptStateError, match="chk-1/_metadata does not match its checksum"):
        CheckpointMetadata.from_bytes(data, "chk-1/_metadata")


def test_any_truncation_is_found(make_metadata: Make) -> None:
    """However much of the file's end is missing, it is refused by name."""
    data = make_metadata().to_bytes()
    for length in range(0, len(data), 7):
        with pytest.raises(CorruptStateError, match="chk-1/_metadata"):
            CheckpointMetadata.from_bytes(data[:length], "chk-1/_metadata")


def test_newer_format_is_refused(make_metadata: Make) -> None:
    """A newer format version is named together with the newest one that can be read."""
    data = envelope(make_metadata().model_dump_json(), FORMAT_VERSION + 1)
    with pytest.raises(CheckpointMismatchError, match=rf"format version {FORMAT_VERSION + 1}.*up to {FORMAT_VERSION}"):
        CheckpointMetadata.from_bytes(data, "here")


def test_version_that_is_no_number_is_refused(make_metadata: Make) -> None:
    """A version of another type is not taken for an old one."""
    with pytest.raises(CheckpointMismatchError, match=r"format version 1\.5"):
        CheckpointMetadata.from_bytes(envelope(make_metadata().model_dump_json(), "1.5"), "here")


def test_fields_added_later_may_be_absent(make_metadata: Make) -> None:
    """A file without the fields that have defaults, as an earlier writer of the format left it, is read."""
    body = make_metadata().model_dump(mode="json")
    for name in ("kind", "rows_late_total", "max_event_time_ms", "drained", "savepoint"):
        del body[name]
    del body["operators"][0]["buffered_events"]
    read = CheckpointMetadata.from_bytes(envelope(json.dumps(body)), "here")
    assert (read.kind, read.rows_late_total, read.operators[0].buffered_events) == ("checkpoint", 0, ())
    assert (read.drained, read.is_drained, read.savepoint) == (False, False, None)


def test_body_of_another_shape_is_corrupt() -> None:
    """A body that has a right checksum but lacks fields is refused, naming the file."""
    with pytest.raises(CorruptStateError, match="here cannot be understood"):
        CheckpointMetadata.from_bytes(envelope('{"checkpoint_id": 1}'), "here")


@pytest.mark.parametrize("version", [0, -1, 1.0, True, None, [1]])
def test_version_that_never_was_is_refused(make_metadata: Make, version: object) -> None:
    """Only a whole number from 1 on is a version; what equals one is not."""
    with pytest.raises(CheckpointMismatchError, match="format version"):
        CheckpointMetadata.from_bytes(envelope(make_metadata().model_dump_json(), version), "here")


def test_there_is_a_file_of_each_version() -> None:
    """Every version that this code reads has a file that was written when it was the newest."""
    versions = range(1, FORMAT_VERSION + 1)
    assert sorted(path.name for path in DATA.glob("checkpoint-*")) == [f"checkpoint-{version}" for version in versions]


def test_version_1_is_read_for_ever() -> None:
    """M1: a checkpoint as version 1 wrote it says what it said then."""
    found = CheckpointMetadata.from_bytes((DATA / "checkpoint-1").read_bytes(), "here")
    assert (found.checkpoint_id, found.epoch, found.kind, found.trigger) == (4, 5, "checkpoint", "savepoint")
    assert found.watermark_ms == found.max_event_time_ms == 1_704_068_715_000
    assert {name: source.finished for name, source in found.sources.items()} == {"history": True, "live": False}
    assert found.spark is not None
    assert (found.spark.batch_id, found.spark.offset_entry.splitlines()[-1]) == (1, '{"logOffset":1}')
    (operator,) = found.operators
    assert (operator.uid, operator.finished, operator.max_parallelism) == ("sessions", False, 128)
    assert [len(shard.load().files) for shard in operator.shards] == [5, 4]
    assert operator.layout is not None and operator.layout.key_labels == ("key",)
    assert (found.transaction.id, found.late_rows, found.rows_late_total) == (4, None, 0)


def test_key_groups_are_of_whole_keys_before_version_2() -> None:
    """Version 2 says which key columns decide the key groups; where it says nothing, as version 1, all do."""
    (operator,) = CheckpointMetadata.from_bytes((DATA / "checkpoint-1").read_bytes(), "here").operators
    assert operator.layout is not None and operator.layout.key_group_places is None
    found = CheckpointMetadata.from_bytes((DATA / "checkpoint-2").read_bytes(), "here")
    layouts = {one.uid: one.layout for one in found.operators}
    said = {uid: layout and (layout.key_labels, layout.key_group_places) for uid, layout in layouts.items()}
    assert said == {
        "sessions": (("key",), None),
        "hours": (("who", "window"), (0,)),
        "busy": (("busy", "window", "key"), (2,)),
    }


def test_transactions_have_ordinals_since_version_3() -> None:
    """Before that what stood for it is made of the branch and the id."""
    older, found = (
        CheckpointMetadata.from_bytes((DATA / f"checkpoint-{version}").read_bytes(), "here") for version in (1, 3)
    )
    assert older.transaction.ordinal is None and older.transaction.ordinal_in(3) == (3 << 32) + 4
    assert found.transaction.ordinal == found.transaction.ordinal_in(3) > older.transaction.ordinal_in(3)


def test_calls_have_ids_of_their_own_since_version_4() -> None:
    """Before that there was one call a checkpoint, with all of its rows, under the checkpoint's id."""
    older, found = (
        CheckpointMetadata.from_bytes((DATA / name).read_bytes(), "here")
        for name in ("location-3/mixedmode/checkpoints/chk-00000004/_metadata", "checkpoint-4")
    )
    assert older.checkpoint_id == found.checkpoint_id == 4
    assert [(call.id, call.epochs) for call in older.transaction.all_calls] == [(4, (6, 7))]
    assert [(call.id, call.epochs) for call in found.transaction.all_calls] == [(6, (6,)), (7, (7,))]
    assert (older.last_call, found.last_call) == (4, 7)


def renamed(body: dict[str, Any]) -> dict[str, Any]:
    """An upgrade: what was called ``epoch_number`` is called ``epoch``."""
    return {**{name: value for name, value in body.items() if name != "epoch_number"}, "epoch": body["epoch_number"]}


def test_older_versions_are_upgraded_step_by_step(make_metadata: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """M1: a body goes through the upgrade of each version from its own on; one of today's is taken as it is."""
    upgrades = {1: lambda body: {**body, "epoch_number": body.pop("era")}, 2: renamed}
    monkeypatch.setattr(metadata, "FORMAT", Format(3, upgrades))
    now = make_metadata()
    body = now.model_dump(mode="json")
    second = {**{name: value for name, value in body.items() if name != "epoch"}, "epoch_number": now.epoch}
    first = {**{name: value for name, value in second.items() if name != "epoch_number"}, "era": now.epoch}
    for version, old in ((1, first), (2, second), (3, body)):
        assert CheckpointMetadata.from_bytes(envelope(json.dumps(old), version), "here") == now
    assert json.loads(now.to_bytes())["format_version"] == 3
    with pytest.raises(CorruptStateError, match="here cannot be understood: 'era'"):
        CheckpointMetadata.from_bytes(envelope(json.dumps(second), 1), "here")
    with pytest.raises(CheckpointMismatchError, match=r"format version 4.*up to 3"):
        CheckpointMetadata.from_bytes(envelope(json.dumps(body), 4), "here")


@pytest.mark.parametrize("upgrades", [{}, {2: renamed}, {1: renamed, 2: renamed}])
def test_no_version_is_left_behind(upgrades: dict[int, Any]) -> None:
    """A format that cannot read each of its older versions is an error in the code."""
    with pytest.raises(ValueError, match="needs upgrades from each before it"):
        Format(2, upgrades)
