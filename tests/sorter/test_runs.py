"""Tests of sorter.runs."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from mixedmode.errors import SorterError
from mixedmode.sorter.runs import Run, RunReader, write_run

SCHEMA = pa.schema([("key", pa.string()), ("n", pa.int64())])


def batches(count: int = 3) -> list[pa.RecordBatch]:
    return [
        pa.record_batch([[f"key-{row}" for row in range(100)], range(start, start + 100)], schema=SCHEMA)
        for start in range(0, 100 * count, 100)
    ]


def write(folder: Path, codec: str | None = "lz4") -> Run:
    return write_run(str(folder / "run.arrows"), SCHEMA, iter(batches()), codec)


def read(run: Run) -> list[pa.RecordBatch]:
    with RunReader(run, SCHEMA) as reader:
        return list(reader)


@pytest.mark.parametrize("codec", ["lz4", "zstd", None])
def test_run_gives_back_its_batches(tmp_path: Path, codec: str | None) -> None:
    """What was written comes back block by block, whatever the compression."""
    run = write(tmp_path, codec)

    assert read(run) == batches()
    assert run.size_bytes == os.path.getsize(run.path)
    assert run.max_block_bytes == max(batch.nbytes for batch in batches())


def test_slices_write_only_their_rows(tmp_path: Path) -> None:
    """A slice of a batch is stored as such, and comes back equal."""
    whole = batches(1)[0]
    run = write_run(str(tmp_path / "run"), SCHEMA, [whole.slice(3, 5), whole.slice(90)], None)

    assert read(run) == [whole.slice(3, 5), whole.slice(90)]
    assert run.size_bytes < write(tmp_path, None).size_bytes


@pytest.mark.parametrize("block", [0, 1, 2])
def test_every_flipped_bit_is_found(tmp_path: Path, block: int) -> None:
    """A changed byte anywhere in a block is an error that names the file."""
    run = write(tmp_path)
    whole = Path(run.path).read_bytes()
    place = run.blocks[block]
    for offset in range(place.offset, place.offset + place.size_bytes, 97):
        altered = bytearray(whole)
        altered[offset] ^= 0x10
        Path(run.path).write_bytes(altered)

        with pytest.raises(SorterError, match=f"{run.path} is corrupt: block {block} .*wrong checksum"):
            read(run)


def test_truncated_file_is_not_fewer_rows(tmp_path: Path) -> None:
    """A file that was cut is an error that names the file, wherever the cut is."""
    run = write(tmp_path)
    last = run.blocks[-1]
    for size in (last.offset + last.size_bytes - 1, last.offset, run.blocks[0].offset, 0):
        os.truncate(run.path, size)

        with pytest.raises(SorterError, match=f"{run.path} is corrupt"):
            read(run)


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is gone is an error that names it."""
    run = write(tmp_path)
    os.unlink(run.path)

    with pytest.raises(SorterError, match=f"{run.path} is missing"):
        read(run)
