"""An object store that counts: files on the local disk, told apart from a disk by having no rename."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from pyarrow import fs


class CountedStore(fs.FileSystemHandler):
    """What a driver asks of the store that its checkpoints and its output are in, by kind."""

    #: Files are there when they are complete, as of object stores.
    appears_whole = True

    def __init__(self) -> None:
        self._disk = fs.LocalFileSystem()
        self._lock = threading.Lock()
        #: Only what this thread's epochs and checkpoints ask for, not the lease's heartbeat.
        self.counts: Counter[str] = Counter()

    def __reduce__(self) -> Any:
        return CountedStore, ()  # what a task gets counts for itself

    def _count(self, what: str) -> None:
        if "lease" not in threading.current_thread().name:
            with self._lock:
                self.counts[what] += 1

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """A conditional write."""
        self._count("put")
        if self._disk.get_file_info(path).type != fs.FileType.NotFound:
            return False
        with self._disk.open_output_stream(path) as stream:
            stream.write(data)
        return True

    def get_type_name(self) -> str:
        return "counted"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        for _ in paths:
            self._count("look")
        found: list[fs.FileInfo] = self._disk.get_file_info(paths)
        return found

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._disk.get_file_info(selector)
        for _ in range(1 + len(found) // 1000):  # a store tells of a thousand at a time
            self._count("list")
        return found

    def create_dir(self, path: str, recursive: bool) -> None:
        self._disk.create_dir(path, recursive=recursive)  # a store has none

    def delete_dir(self, path: str) -> None:
        self._count("delete")
        self._disk.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._disk.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self._count("delete")
        self._disk.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self._count("copy")
        self._count("delete")
        self._disk.move(source, target)

    def copy_file(self, source: str, target: str) -> None:
        self._count("copy")
        self._disk.copy_file(source, target)

    def open_input_stream(self, path: str) -> Any:
        self._count("get")
        return self._disk.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        self._count("get")
        return self._disk.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self._count("put")
        return self._disk.open_output_stream(path)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError
