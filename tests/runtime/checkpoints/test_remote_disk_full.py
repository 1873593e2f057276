"""Disks that are full elsewhere: what is half-written on a filesystem that is not local is nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from mixedmode.errors import CheckpointError
from mixedmode.runtime.checkpoints.identity import JobIdentity
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.staged_output import StagedOutput
from mixedmode.runtime.storage.filesystem import write_atomically
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.sst import SstWriter
from pyarrow import fs
from refusing import NO_SPACE, Refusing

MakeMetadata = Callable[..., CheckpointMetadata]


@pytest.fixture
def disk(tmp_path: Path) -> Refusing:
    return Refusing(tmp_path / "flag")


def files_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("size_bytes", [0, 1, 700])
@pytest.mark.parametrize("writer_class", [SstWriter, LogWriter])
def test_state_that_does_not_fit(
    tmp_path: Path, disk: Refusing, writer_class: type[SstWriter] | type[LogWriter], size_bytes: int
) -> None:
    """A state file that the pool refuses after some bytes is an error with its path; nothing is left, here or there."""
    pool, local = tmp_path / "pool", tmp_path / "local"

    def written() -> list[str]:
        writer = writer_class(fs.PyFileSystem(disk), str(pool), str(local), "e1", 1)
        try:
            for number in range(200):
                writer.put(b"\x00\x05\x01" + number.to_bytes(4, "big"), f"value {number * 7919 % 997}".encode() * 3)
            return [file.name for file in writer.finish()]
        except BaseException:
            writer.abort()
            raise

    disk.refuse_after(size_bytes)
    with pytest.raises(CheckpointError, match=NO_SPACE) as caught:
        written()
    assert f"{pool}/e1-0" in str(caught.value)
    assert files_below(pool) == files_below(local) == []
    disk.accept()
    assert written() == files_below(pool)
    assert files_below(local) == []


@pytest.mark.parametrize("size_bytes", [0, 5, 400])
def test_a_checkpoint_that_does_not_fit(
    tmp_path: Path, disk: Refusing, make_metadata: MakeMetadata, size_bytes: int
) -> None:
    """Half a ``_metadata`` is no checkpoint: the one before is the latest, and the next one can be written."""
    store = CheckpointStore(fs.PyFileSystem(disk), str(tmp_path / "checkpoints"))
    store.claim(JobIdentity("0123456789abcdef", ({"uid": "stage"},), 128))
    store.write(make_metadata(1))
    store.mark_committed(1)
    disk.refuse_after(size_bytes)
    with pytest.raises(OSError, match=NO_SPACE):
        store.write(make_metadata(2))
    assert store.ids() == [1]
    latest = store.latest()
    assert latest is not None and latest.checkpoint_id == 1
    disk.accept()
    store.write(make_metadata(2))
    assert store.ids() == [1, 2]
    assert not [name for name in files_below(tmp_path) if name.endswith(".tmp")]


def test_a_file_that_does_not_fit_leaves_the_old_one(tmp_path: Path, disk: Refusing) -> None:
    """A file that is written again keeps its content if the new one does not fit."""
    path = tmp_path / "pointer.json"
    filesystem = fs.PyFileSystem(disk)
    write_atomically(filesystem, str(path), b"old content")
    disk.refuse_after(3)
    with pytest.raises(OSError, match=NO_SPACE):
        write_atomically(filesystem, str(path), b"new content")
    assert path.read_bytes() == b"old content"
    disk.accept()
    write_atomically(filesystem, str(path), b"new content")
    assert path.read_bytes() == b"new content"
    assert files_below(tmp_path) == ["pointer.json"]


def test_where_a_move_does_not_replace(tmp_path: Path) -> None:
    """A file is written again on a filesystem that refuses to move onto one that is there."""

    class Strict(Refusing):
        def move(self, src: str, dest: str) -> None:
            if Path(dest).exists():
                raise OSError(f"{dest} exists")
            super().move(src, dest)

    path = tmp_path / "pointer.json"
    filesystem = fs.PyFileSystem(Strict(tmp_path / "flag"))
    for content in (b"old", b"new"):
        write_atomically(filesystem, str(path), content)
        assert path.read_bytes() == content
    assert files_below(tmp_path) == ["pointer.json"]


@pytest.mark.parametrize("size_bytes", [0, 3, 300])
def test_output_that_does_not_fit(tmp_path: Path, disk: Refusing, size_bytes: int) -> None:
    """Output that cannot be staged is an error with its path, and half of it is removed."""
    schema = pa.schema([("n", pa.int64())])
    output = StagedOutput(fs.PyFileSystem(disk), str(tmp_path / "out"), "e1", schema, "{}")
    disk.refuse_after(size_bytes)
    output.write(pa.RecordBatch.from_pydict({"n": list(range(5000))}, schema=schema))
    with pytest.raises(CheckpointError, match=NO_SPACE) as caught:
        output.finish()
    assert f"{tmp_path}/out/e1.parquet" in str(caught.value)
    output.abort()
    assert files_below(tmp_path / "out") == []
