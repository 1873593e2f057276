"""Where a path leads: to where Spark would write if it were given the same text; and how small files are written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mixedmode.errors import OptionError
from mixedmode.runtime.storage import filesystem
from mixedmode.runtime.storage.filesystem import overwrite, resolve, uri
from mixedmode.runtime.storage.folder_checks import check_folder, resolve_option
from pyarrow import fs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.parametrize(
    "written",
    [
        "file://{folder}/a%20b",
        "file://{folder}/a b",
        "file:{folder}/100%",
        "file:{folder}/a#b?c=1",
        "FILE://{folder}/upper/",
        "file:///{folder}/slashes",
        "file://{folder}/x/../ünï",
        "{folder}/plain%20b",
    ],
)
def test_a_folder_is_sparks(spark: SparkSession, tmp_path: Path, written: str) -> None:
    """Spark's Parquet writer finds its own folder under that name, nothing is decoded; and it reads what is there."""
    location = written.format(folder=tmp_path)
    spark.createDataFrame([(1,)], "n int").write.parquet(location)
    (folder,) = (Path(root) for root, _, files in os.walk(tmp_path) if "_SUCCESS" in files)
    found, path = resolve(location)
    assert isinstance(found, fs.LocalFileSystem)
    assert path == str(folder)
    assert spark.read.parquet(uri(location, path)).count() == 1
    check_folder("path", location)


@pytest.mark.parametrize("location", ["file://host/out", "file:out", "file://out"])
def test_a_local_path_on_another_host(location: str) -> None:
    """Spark refuses these, too."""
    with pytest.raises(OptionError, match=rf"^path = '{location}' cannot be reached"):
        resolve_option("path", location)


def test_other_filesystems_are_pyarrows(tmp_path: Path) -> None:
    """Whatever is no local path is looked up by its scheme."""
    found, path = resolve("mock:///out/")
    assert found.type_name == "mock" and path == "out"
    assert uri("s3://bucket/out", "bucket/out/part") == "s3://bucket/out/part"


def test_a_small_file_is_written_again_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other file is made, and only what must survive a crash of the machine is synced."""
    local, path, synced = fs.LocalFileSystem(), tmp_path / "counter", list[int]()
    overwrite(local, str(path), b"the first one", durable=False)
    assert path.read_bytes() == b"the first one", "one that is not there yet is made"
    inode, real = path.stat().st_ino, os.fsync

    def counted(handle: int) -> None:
        synced.append(handle)
        real(handle)

    monkeypatch.setattr(os, "fsync", counted)
    overwrite(local, str(path), b"short", durable=False)
    assert (path.read_bytes(), len(synced)) == (b"short", 0)
    overwrite(local, str(path), b"longer again", durable=True)
    assert (path.read_bytes(), len(synced)) == (b"longer again", 1)
    assert (path.stat().st_ino, os.listdir(tmp_path)) == (inode, ["counter"])


def test_another_name_of_a_file_keeps_what_it_had(tmp_path: Path) -> None:
    """Whoever keeps a copy of a folder by hard links has the moment of the copy."""
    path, copy = tmp_path / "counter", tmp_path / "copy"
    path.write_bytes(b"7")
    os.link(path, copy)
    overwrite(fs.LocalFileSystem(), str(path), b"8", durable=True)
    assert (path.read_bytes(), copy.read_bytes()) == (b"8", b"7")


def test_an_empty_file_needs_no_other_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker is whole as soon as it is there: one entry in its folder, which is made durable."""
    synced = list[str]()
    monkeypatch.setattr(filesystem, "sync_path", synced.append)
    monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("it was renamed"))
    for _ in range(2):  # a marker may be set twice
        filesystem.write_atomically(fs.LocalFileSystem(), str(tmp_path / "marker"), b"")
        assert (tmp_path / "marker").read_bytes() == b""
    assert synced == [str(tmp_path)] * 2
