"""Putting a file where none is yet, on a filesystem with the means for it and on one without."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mixedmode.runtime.storage.exclusive import put_if_absent
from pyarrow import fs
from refusing import Refusing


class Conditional(Refusing):
    """A filesystem whose handler can put a file if there is none."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        try:
            with open(path, "xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        return True


class Hdfs(Refusing):
    """A filesystem whose rename does not replace."""

    def get_type_name(self) -> str:
        return "hdfs"

    def move(self, src: str, dest: str) -> None:
        os.link(src, dest)
        os.unlink(src)


@pytest.mark.parametrize("kind", ["local", "conditional", "hdfs", "plain"])
def test_the_first_one_stays(tmp_path: Path, kind: str) -> None:
    """A second writer is told so, and leaves the file and the folder as they are."""
    handlers = {"conditional": Conditional, "hdfs": Hdfs, "plain": Refusing}
    filesystem = fs.LocalFileSystem() if kind == "local" else fs.PyFileSystem(handlers[kind](tmp_path / "flag"))
    path = tmp_path / "file"
    assert put_if_absent(filesystem, str(path), b"one")
    assert not put_if_absent(filesystem, str(path), b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["file"]


def test_of_many_local_writers_one_succeeds(tmp_path: Path) -> None:
    """However many there are at the same time."""
    path = str(tmp_path / "file")
    with ThreadPoolExecutor(8) as writers:
        done = list(writers.map(lambda n: put_if_absent(fs.LocalFileSystem(), path, b"%d" % n), range(64)))
    (winner,) = [number for number, won in enumerate(done) if won]
    assert Path(path).read_bytes() == b"%d" % winner
    assert os.listdir(tmp_path) == ["file"]
