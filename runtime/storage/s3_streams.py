"""Files of S3 as they are read and written, where pyarrow's own would give up too early."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import fs

_PIECE_BYTES = 1 << 20


class Pieces:
    """A stream of bytes as a file of pyarrow's that is read from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int | None = None) -> bytes:
        """So many bytes, fewer at the end."""
        wanted = sys.maxsize if size is None or size < 0 else size
        taken, length = [self._rest], len(self._rest)
        while length < wanted and (piece := next(self._pieces, b"")):
            taken.append(piece)
            length += len(piece)
        data = b"".join(taken)
        self._rest = data[wanted:]
        return data[:wanted]

    def read_buffer(self) -> pa.Buffer:
        """All that is left."""
        return pa.py_buffer(self.read())

    def close(self) -> None:
        self._pieces, self._rest = iter(()), b""

    def __enter__(self) -> Pieces:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Upload:
    """A file that is there when it is closed.

    Args:
        filesystem: where.
        path: the file.
        stream: pyarrow's, which uploads it.
    """

    closed = False

    def __init__(self, filesystem: fs.FileSystem, path: str, stream: pa.NativeFile) -> None:
        self._filesystem, self._path, self._stream = filesystem, path, stream
        self._size_bytes, self._checksum = 0, 0
        self.flush = stream.flush

    def write(self, data: Any) -> int:
        """Add bytes."""
        size_bytes = int(self._stream.write(data))
        self._size_bytes += size_bytes
        self._checksum = zlib.crc32(data, self._checksum)
        return size_bytes

    def tell(self) -> int:
        return self._size_bytes

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            self._stream.close()
        except OSError:
            if not self._is_there():
                raise

    def _is_there(self) -> bool:
        """Whether the file is what was written; an earlier one of its name may be as long."""
        if self._filesystem.get_file_info(self._path).size != self._size_bytes:
            return False
        checksum = 0
        with self._filesystem.open_input_stream(self._path) as there:
            while piece := there.read(_PIECE_BYTES):
                checksum = zlib.crc32(piece, checksum)
        return checksum == self._checksum

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Anywhere:
    """A reader of the library's as a file of Python's."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.seek, self.tell = reader.seek, reader.tell
        self.closed = False

    def read(self, size: int | None = None) -> bytes:
        """So many bytes, fewer at the end."""
        return bytes(self._reader.read(size))

    def close(self) -> None:
        self.closed = True
        self._reader.close()
