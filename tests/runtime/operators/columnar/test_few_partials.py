"""Few rows that their task aggregates, without Spark: what it takes of them, and what it leaves."""

from __future__ import annotations

import pyarrow as pa
import pytest
from mixedmode.runtime.operators.columnar import few_partials
from mixedmode.runtime.operators.columnar.few_partials import FewPartialRows, TooManyRowsError
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.scan.expressions.values import Value
from mixedmode.runtime.scan.parquet_scan import NotTakenError, ParquetScan, ScanColumn
from mixedmode.runtime.scan.partial_calls import PartialCall
from mixedmode.runtime.scan.partial_scans import PartialScan, ScanKey
from mixedmode.state.keys.key_hash import key_groups

LONG, DOUBLE = pa.int64(), pa.float64()
PARTIALS = PartialScan(
    ParquetScan((ScanColumn("x", "double", DOUBLE), ScanColumn("k", "bigint", LONG))),
    (ScanKey("__k0", "k"),),
    (
        PartialCall("__rows", "count_all", None, LONG),
        PartialCall("__b0", "sum", "x", DOUBLE, is_rounded=True),
        PartialCall("__b1", "max", "x", DOUBLE),
    ),
    None,
    (("k", Value("column", LONG, (), ("k",))), ("x", Value("column", DOUBLE, (), ("x",)))),
)
#: The task gets a column that nobody asks for, and in the middle.
FEW = FewPartialRows.of_partials(
    (("__k0", LONG),),
    128,
    (),
    ("k", "else", "x"),
    PARTIALS,
    pa.schema([("__k0", LONG), ("__rows", LONG), ("__b0", DOUBLE), ("__b1", DOUBLE)]),
)


def batches(rows: list[tuple[int, float]], size: int) -> list[pa.RecordBatch]:
    """Rows as Spark hands them over, under whatever names."""
    keys, numbers = [key for key, _ in rows], [number for _, number in rows]
    table = pa.table([pa.array(keys, LONG), pa.array([True] * len(rows)), pa.array(numbers, DOUBLE)], list("abc"))
    return table.to_batches(max_chunksize=size)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_key_has_one_row_whatever_batches_its_rows_come_in(size: int) -> None:
    """Fractions are added one after the other: in another order the small ones would not be lost."""
    [found] = FEW.of(iter(batches([(1, 1e16), (2, 0.5), (1, 1.0), (1, 1.0), (2, 0.25)], size)))
    rows = {row["__k0"]: row for row in found.to_pylist()}
    assert [(row["__rows"], row["__b0"]) for row in (rows[1], rows[2])] == [(3, 1e16), (2, 0.75)]
    expected = key_groups([pa.array(list(rows), LONG)], 128, 2)
    assert [row[KEY_GROUP_COLUMN] for row in rows.values()] == expected.tolist()


def test_no_rows_are_no_rows() -> None:
    """Nothing came, or only batches without rows."""
    assert list(FEW.of(iter([]))) == list(FEW.of(iter([batches([(1, 1.0)], 1)[0].slice(0, 0)]))) == []


def test_rows_that_are_not_few_are_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many the epoch before had."""
    monkeypatch.setattr(few_partials, "_MOST_ROWS", 3)
    assert len(list(FEW.of(iter(batches([(1, 1.0)] * 3, 2))))) == 1
    with pytest.raises(TooManyRowsError, match="more than 3 rows"):
        list(FEW.of(iter(batches([(1, 1.0)] * 4, 2))))


def test_what_is_not_known_to_be_the_same_is_left_to_spark() -> None:
    """The greatest of a zero with a sign and one without is the one that came first."""
    with pytest.raises(NotTakenError, match="negative zero"):
        list(FEW.of(iter(batches([(1, -0.0), (1, 0.0)], 2))))
