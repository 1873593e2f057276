"""Rows of Parquet files are worked on in tables that memory has room for."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.runtime.scan import parquet_scan
from mixedmode.runtime.scan.parquet_scan import FilePart, ParquetScan, ScanColumn
from pyarrow import fs

ROWS, LETTERS = 500, 1_000


def tables(path: Path) -> list[pa.Table]:
    scan = ParquetScan((ScanColumn("text", "string", pa.string()),))
    return list(scan.batches(fs.LocalFileSystem(), FilePart(str(path), 0, os.path.getsize(path))))


def test_long_texts_come_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as fit into so many bytes, by what the file says of its rows; at least one; all in the end."""
    chance = random.Random(1)
    texts = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=LETTERS)) for _ in range(ROWS)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=200)
    assert len(tables(tmp_path / "a.parquet")) <= 3
    monkeypatch.setattr(parquet_scan, "_BATCH_BYTES", 50 * LETTERS)
    found = tables(tmp_path / "a.parquet")
    assert max(map(len, found)) <= 50
    assert pa.concat_tables(found)["text"].to_pylist() == texts
    monkeypatch.setattr(parquet_scan, "_BATCH_BYTES", 1)
    assert {len(table) for table in tables(tmp_path / "a.parquet")} == {1}
