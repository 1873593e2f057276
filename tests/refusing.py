"""A filesystem that is not local, whose disk is full from a given byte on: what the tests of remote pools write to."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

#: What a refusing filesystem says.
NO_SPACE = os.strerror(errno.ENOSPC)


class Refusing(fs.FileSystemHandler):
    """Keeps files on the local disk; while ``flag`` exists, writing to some of them fails after a number of bytes.

    Args:
        flag: a file whose content is the number of bytes that can be written before the disk is full.
        part: files with this in their path are concerned.
    """

    def __init__(self, flag: Path, part: str = "") -> None:
        self.flag = flag
        self.part = part
        self.inner = fs.LocalFileSystem()

    def refuse_after(self, size_bytes: int) -> None:
        self.flag.write_text(str(size_bytes))

    def accept(self) -> None:
        self.flag.unlink(missing_ok=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusing) and self.flag == other.flag

    def __hash__(self) -> int:
        return hash(self.flag)

    def get_type_name(self) -> str:
        return "refusing"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self.inner.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        return self.inner.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self.inner.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.inner.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.inner.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.inner.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self.inner.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self.inner.copy_file(src, dest)

    def open_input_stream(self, path: str) -> Any:
        return self.inner.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self.inner.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Output(self, path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError


class _Output:
    """An open file of a refusing filesystem; what fits is written, as a real disk does."""

    def __init__(self, owner: Refusing, path: str) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 - closed by close()
        refuses = owner.part in path and owner.flag.exists()
        self._left = int(owner.flag.read_text()) if refuses else None

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        if self._left is not None:
            fits = data[: self._left]
            self._left -= len(fits)
            self._file.write(fits)
            if len(fits) < len(data):
                raise OSError(errno.ENOSPC, NO_SPACE)
            return len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class ObjectStore(Refusing):
    """A filesystem without rename: a move is a copy and a removal, and a file is there when it was closed."""

    appears_whole = True

    def move(self, src: str, dest: str) -> None:
        self.copy_file(src, dest)
        self.delete_file(src)

    def create_dir(self, path: str, recursive: bool) -> None:
        self.inner.create_dir(path, recursive=True)

    def copy_file(self, src: str, dest: str) -> None:
        hidden = f"{dest}.{uuid.uuid4().hex}"
        self.inner.copy_file(src, hidden)
        os.replace(hidden, dest)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Upload(path), mode="w")


class _Upload:
    """A file that appears when it is closed."""

    def __init__(self, path: str) -> None:
        self._path, self._hidden = path, f"{path}.{uuid.uuid4().hex}"
        self._file = open(self._hidden, "wb")  # noqa: SIM115 - closed by close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if not self._file.closed:
            self._file.close()
            os.replace(self._hidden, self._path)
