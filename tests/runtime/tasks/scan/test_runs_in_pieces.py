"""Runs of batches that are each in the order of key groups; no Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from mixedmode.errors import MixedModeError
from mixedmode.runtime.tasks.scan import row_scan
from mixedmode.runtime.tasks.scan.partial_runs import Buckets, _Run, write_run
from pyarrow import fs

BUCKETS = Buckets(2, 8)
FILES = fs.LocalFileSystem()


def rows(groups: list[int], first: int) -> pa.RecordBatch:
    """Rows with these key groups, numbered."""
    numbers = np.arange(first, first + len(groups))
    texts = pa.array([f"text {number}" for number in numbers], pa.string())
    return pa.RecordBatch.from_pydict(
        {"__kg": pa.array(groups, pa.int32()), "number": pa.array(numbers), "text": texts}
    )


@pytest.mark.parametrize("piece_rows", [1, 3, 100])
def test_rows_of_a_bucket_come_in_the_order_of_arrival(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_rows: int
) -> None:
    """However large the pieces are in which rows are put in order; shards that nobody asks for have none."""
    monkeypatch.setattr(row_scan, "_PIECE_ROWS", piece_rows)
    batches = [rows([3, 0, 7, 3, 0], 0), rows([], 5), rows([5, 3, 0, 1, 7], 5)]
    whole = pa.concat_batches(batches).to_pylist()
    schema = batches[0].schema
    for without in ((), (1,)):
        path = str(tmp_path / f"{len(without)}.run")
        write_run(FILES, path, row_scan._in_pieces(batches), BUCKETS, without)
        run = _Run(FILES, path, len(BUCKETS.firsts))
        for shard in range(2):
            found = []
            for bucket in BUCKETS.of_shard(shard):
                found += [row for batch in run.batches([bucket], schema) for row in batch.to_pylist()]
            wanted = [row for row in whole if row["__kg"] // 4 == shard and shard not in without]
            assert found == sorted(wanted, key=lambda row: row["__kg"])
        run.close()


def test_a_run_with_a_wrong_byte_is_refused(tmp_path: Path) -> None:
    """Rows of pieces have a checksum, too."""
    path = tmp_path / "a.run"
    write_run(FILES, str(path), [rows([0, 1], 0), rows([0, 2], 2)], BUCKETS)
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    run = _Run(FILES, str(path), len(BUCKETS.firsts))
    with pytest.raises(MixedModeError, match="checksum"):
        list(run.batches(list(BUCKETS.of_shard(0)), rows([], 0).schema))
    run.close()
