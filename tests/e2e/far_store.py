"""An object store that is far away: each request takes its time, once it is told to.  Files are on the local disk."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from mixedmode.runtime.storage import filesystem
from pyarrow import fs

sys.path.append(str(Path(__file__).parent.parent))

import refusing

#: What a request takes.
REQUEST_S = 0.08


class FarStore(refusing.ObjectStore):
    """The store.  Each process counts its own requests.

    Args:
        is_slow: a file; while it is there requests take their time, in whatever process.
    """

    requests = 0

    def __init__(self, is_slow: Path) -> None:
        super().__init__(Path("no flag"))
        self._is_slow = is_slow

    def _request(self, count: int = 1) -> None:
        if self._is_slow.exists():
            FarStore.requests += count
            time.sleep(REQUEST_S * count)

    def get_type_name(self) -> str:
        return "far"

    def get_file_info(self, paths: list[str]) -> Any:
        self._request(len(paths))
        return super().get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        self._request()
        return super().get_file_info_selector(selector)

    def delete_dir(self, path: str) -> None:
        self._request()
        super().delete_dir(path)

    def delete_file(self, path: str) -> None:
        self._request()
        super().delete_file(path)

    def copy_file(self, src: str, dest: str) -> None:
        self._request()
        super().copy_file(src, dest)

    def open_input_stream(self, path: str) -> Any:
        self._request()
        return super().open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        self._request()
        return super().open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Upload(self, path), mode="w")


class _Upload(refusing._Upload):
    """A file whose one request is made when it is closed."""

    def __init__(self, store: FarStore, path: str) -> None:
        super().__init__(path)
        self._store = store

    def close(self) -> None:
        if not self.closed:
            self._store._request()
        super().close()


def move_away(folder: Path, is_slow: Path) -> None:
    """Whatever this process has below a folder is in the store from now on.

    Args:
        folder: where the store keeps its files.
        is_slow: while this file is there requests take their time.
    """
    near = filesystem.resolve

    def resolve(location: str) -> tuple[fs.FileSystem, str]:
        found, path = near(location)
        return (fs.PyFileSystem(FarStore(is_slow)) if path.startswith(f"{folder}{os.sep}") else found), path

    for module in list(sys.modules.values()):
        if vars(module).get("resolve") is near:
            module.resolve = resolve  # type: ignore[attr-defined]
