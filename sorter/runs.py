"""A run: sorted rows in one spill file, as compressed Arrow IPC blocks with a checksum each.

The list of blocks stays in memory (a run never outlives its process), so a reader fetches a block by its offset,
compares the checksum over exactly the bytes that were written, and a file that was cut or altered cannot be read as
"fewer rows".
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import SorterError


@dataclass(frozen=True)
class Block:
    """Where a batch lies in its file."""

    offset: int
    size_bytes: int
    crc32: int


@dataclass(frozen=True)
class Run:
    """A finished spill file."""

    path: str
    blocks: tuple[Block, ...]
    #: Bytes on disk.
    size_bytes: int
    #: The largest block in memory: what a merge holds of this run at any time.
    max_block_bytes: int


class _CheckedFile:
    """A file that sums up what is written between two calls of :meth:`cut`."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "xb", buffering=1 << 16)  # noqa: SIM115 - closed by RunWriter
        self._start = self._end = self._crc32 = 0

    def write(self, data: Any) -> int:
        self._file.write(data)
        self._crc32 = zlib.crc32(data, self._crc32)
        self._end += len(data)
        return len(data)

    def cut(self) -> Block:
        """The block that ends here; the next one starts here."""
        block = Block(self._start, self._end - self._start, self._crc32)
        self._start, self._crc32 = self._end, 0
        return block

    @property
    def closed(self) -> bool:
        return self._file.closed

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def write_run(path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], codec: str | None) -> Run:
    """Write sorted batches, one block each, to a new file."""
    blocks: list[Block] = []
    max_block_bytes = 0
    file = _CheckedFile(path)
    try:
        # No threads: the other cores have their own tasks.
        options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
        with pa.ipc.new_stream(file, schema, options=options) as stream:
            # The stream writes its schema together with the first batch; the reader has the schema already.
            stream.write_batch(pa.RecordBatch.from_pylist([], schema=schema))
            file.cut()
            for batch in batches:
                stream.write_batch(batch)
                blocks.append(file.cut())
                max_block_bytes = max(max_block_bytes, batch.nbytes)
        end = file.cut()
    finally:
        file.close()
    return Run(path, tuple(blocks), end.offset + end.size_bytes, max_block_bytes)


class RunReader:
    """The batches of a run, one in memory at a time.  Holds the file open until :meth:`close`."""

    def __init__(self, run: Run, schema: pa.Schema) -> None:
        self.run = run
        self._schema_message = schema.serialize()
        try:
            self._descriptor: int | None = os.open(run.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise SorterError(
                f"spill file {run.path} is missing: another process removed it; run the job again",
                code="MIXEDMODE_SPILL_FAILED",
            ) from error

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number, block in enumerate(self.run.blocks):
            assert self._descriptor is not None, "reader is closed"
            # A stream of its own: reading without threads takes a stream, and that starts with a schema.
            stream = bytearray(self._schema_message.size + block.size_bytes)
            stream[: self._schema_message.size] = self._schema_message
            data = memoryview(stream)[self._schema_message.size :]
            size_bytes = os.preadv(self._descriptor, [data], block.offset)
            if size_bytes != block.size_bytes or zlib.crc32(data) != block.crc32:
                raise SorterError(
                    f"spill file {self.run.path} is corrupt: block {number} at offset {block.offset} has "
                    f"{size_bytes} of {block.size_bytes} bytes or a wrong checksum; "
                    "check the disk under sorter.spill-dir and run the job again",
                    code="MIXEDMODE_SPILL_FAILED",
                )
            yield pa.ipc.open_stream(stream, options=pa.ipc.IpcReadOptions(use_threads=False)).read_next_batch()

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
