"""Tests of sorter.external (and, through it, of sorter.merge): sorted, stable, within budget, nothing left behind."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import SorterError
from mixedmode.sorter import ExternalSorter, SortStats
from mixedmode.sorter.external import MIN_MEMORY_BYTES
from mixedmode.state.keys.keys import KeyCodec

SCHEMA = pa.schema(
    [
        ("group", pa.int32()),
        ("key", pa.string()),
        ("weight", pa.float64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("n", pa.int64()),
        ("pad", pa.binary()),
    ]
)
Row = tuple[Any, ...]

ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.sampled_from(["", "a", "ab", "a\0", "é", "zz"]),
        st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf")]),
        st.none() | st.integers(-2, 5),
    ),
    max_size=40,
)


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def model_sort(batches: list[pa.RecordBatch], key: list[str], then: list[str]) -> list[Row]:
    """Python's own stable sort by the encoded columns."""
    codec = KeyCodec(pa.schema([SCHEMA.field(name) for name in (*key, *then)]))
    table = pa.Table.from_batches(batches, SCHEMA)
    order = codec.encode_columns([table.column(name) for name in (*key, *then)]).to_pylist()
    rows = rows_of(iter(batches))
    return [rows[number] for number in sorted(range(len(rows)), key=order.__getitem__)]


def random_rows(count: int, seed: int, hot_share: float = 0.0) -> list[Row]:
    """Rows with many equal keys, numbered in order of arrival."""
    rng = random.Random(seed)
    rows = []
    for n in range(count):
        hot = rng.random() < hot_share
        key = "hot" if hot else rng.choice([None, f"key-{rng.randrange(40)}", "x" * rng.randrange(30)])
        rows.append(
            (0 if hot else rng.choice([None, 1, -1]), key, None, rng.choice([None, 1, 2]), n, rng.randbytes(40))
        )
    return rows


def sorter_for(tmp_path: Path, key: tuple[str, ...] = ("group", "key"), **options: Any) -> ExternalSorter:
    options = {"then": ["ts"], "memory_bytes": MIN_MEMORY_BYTES, "spill_dir": str(tmp_path), **options}
    return ExternalSorter(SCHEMA, key, **options)


def add_parts(sorter: ExternalSorter) -> None:
    """Several times the smallest budget."""
    for part in range(20):
        sorter.add(batch_of(random_rows(500, seed=part)))


@settings(max_examples=60)
@given(
    lists=st.lists(ROWS, max_size=6),
    spill_after=st.sets(st.integers(0, 5)),
    key=st.lists(st.sampled_from(["group", "key", "weight"]), min_size=1, max_size=3, unique=True),
    then=st.sampled_from([[], ["ts"], ["ts", "weight"]]),
    block_bytes=st.sampled_from([64, 512, 1 << 20]),
    max_open_files=st.sampled_from([2, 3, 16]),
    batch_rows=st.sampled_from([1, 7, 1000]),
)
def test_sorter_equals_pythons_sort(
    tmp_path_factory: pytest.TempPathFactory,
    lists: list[list[Row]],
    spill_after: set[int],
    key: list[str],
    then: list[str],
    block_bytes: int,
    max_open_files: int,
    batch_rows: int,
) -> None:
    """Wherever it spills, however small its blocks and its fan-in, it gives what a stable sort of all rows gives."""
    batches = [
        batch_of([(*row, 100 * number + n, b"") for n, row in enumerate(rows)]) for number, rows in enumerate(lists)
    ]
    with ExternalSorter(
        SCHEMA,
        key,
        then=then,
        memory_bytes=MIN_MEMORY_BYTES,
        spill_dir=str(tmp_path_factory.getbasetemp()),
        max_open_files=max_open_files,
    ) as sorter:
        sorter._block_bytes = block_bytes
        for number, batch in enumerate(batches):
            sorter.add(batch)
            if number in spill_after and sorter.limiter.used_bytes:
                sorter._spill()
        out = list(sorter.sorted_batches(batch_rows))

    assert str(rows_of(iter(out))) == str(model_sort(batches, key, then))  # as text: NaN is not equal to itself
    assert all(0 < batch.num_rows <= batch_rows for batch in out)


@pytest.mark.parametrize("max_open_files", [2, 5, 128])
def test_spilled_rows_are_sorted(tmp_path: Path, max_open_files: int) -> None:
    """Twenty times the budget comes out sorted and stable, in several merges if few files may be open."""
    rows = random_rows(50_000, seed=1)
    batches = [batch_of(rows[start : start + 500]) for start in range(0, len(rows), 500)]
    with sorter_for(tmp_path, max_open_files=max_open_files) as sorter:
        for batch in batches:
            sorter.add(batch)
        out = rows_of(sorter.sorted_batches())

    assert out == model_sort(batches, ["group", "key"], ["ts"])
    assert sorter.stats.bytes_in > 15 * MIN_MEMORY_BYTES
    assert sorter.stats.merge_passes >= (sorter.stats.spilled_runs - 1) / (max_open_files - 1)


def test_rows_that_fit_are_not_spilled(tmp_path: Path) -> None:
    """A small input is sorted in memory: nothing is written, and the figures say so."""
    batch = batch_of(random_rows(100, seed=2))
    with sorter_for(tmp_path) as sorter:
        sorter.add(batch)
        out = rows_of(sorter.sorted_batches())

    assert out == model_sort([batch], ["group", "key"], ["ts"])
    assert sorter.stats == SortStats(rows=100, bytes_in=batch.nbytes)


def test_no_rows_give_no_batches(tmp_path: Path) -> None:
    """Empty batches and no batches at all give nothing."""
    with sorter_for(tmp_path) as sorter:
        sorter.add(batch_of([]))

        assert list(sorter.sorted_batches()) == []


def test_limiter_and_arrow_memory_stay_within_the_budget(tmp_path: Path) -> None:
    """A hot key with half of all rows, all of one rank, streams through within the budget."""
    budget = 2 * 1024 * 1024
    pool = pa.default_memory_pool()
    rows = [(*row[:3], 1, *row[4:]) for row in random_rows(20_000, seed=3, hot_share=0.5)]
    parts = [batch_of(rows[start : start + 1000]) for start in range(0, len(rows), 1000)]
    expected = [row[4] for row in rows if row[1] == "hot"]
    peak = 0
    with sorter_for(tmp_path, memory_bytes=budget) as sorter:
        for part in parts * 16:
            sorter.add(part)
        assert sorter.limiter.peak_bytes <= budget
        assert sorter.stats.bytes_in > 12 * budget
        baseline = pool.bytes_allocated()
        hot = []
        for batch in sorter.sorted_batches():
            peak = max(peak, pool.bytes_allocated() - baseline)
            hot += [n for key, n in zip(*(batch.column(i).to_pylist() for i in (1, 4)), strict=True) if key == "hot"]

    assert hot == expected * 16
    assert peak <= budget


def test_output_batches_of_wide_rows_stay_small(tmp_path: Path) -> None:
    """Where ``batch_rows`` rows would not fit the budget, batches have fewer."""
    with sorter_for(tmp_path) as sorter:
        for n in range(100):
            sorter.add(batch_of([(n % 3, "k", None, None, n, b"x" * 5000)]))
        out = list(sorter.sorted_batches())

    assert sum(batch.num_rows for batch in out) == 100
    assert max(batch.nbytes for batch in out) <= MIN_MEMORY_BYTES // 8


def test_slice_of_a_large_batch_does_not_keep_it(tmp_path: Path) -> None:
    """A slice is copied, so that memory the limiter does not know of can go."""
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    with sorter_for(tmp_path) as sorter:
        large = batch_of(random_rows(20_000, seed=4))
        sorter.add(large.slice(100, 10))
        size_bytes = large.nbytes
        del large

        assert pool.bytes_allocated() - before < size_bytes // 10


def test_spill_folder_is_gone_after_success(tmp_path: Path) -> None:
    """Reading to the end removes the spill folder, even without leaving the context."""
    sorter = sorter_for(tmp_path)
    add_parts(sorter)
    assert len(list(tmp_path.iterdir())) == 1
    list(sorter.sorted_batches())

    assert list(tmp_path.iterdir()) == []


def test_spill_folder_is_gone_after_failure(tmp_path: Path) -> None:
    """An error inside the context removes the spill folder."""

    def fail() -> None:
        with sorter_for(tmp_path) as sorter:
            add_parts(sorter)
            assert len(list(tmp_path.iterdir())) == 1
            raise KeyError("the caller's own")

    with pytest.raises(KeyError, match="the caller's own"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_spill_folder_is_gone_after_close_of_the_iterator(tmp_path: Path) -> None:
    """A consumer that stops early and closes the iterator leaves nothing, neither files nor open ones."""
    sorter = sorter_for(tmp_path)
    add_parts(sorter)
    batches = sorter.sorted_batches(10)
    next(batches)
    open_files = {link.resolve() for link in Path("/proc/self/fd").iterdir() if link.exists()}
    assert any(tmp_path in path.parents for path in open_files)
    batches.close()  # type: ignore[attr-defined]

    open_files = {link.resolve() for link in Path("/proc/self/fd").iterdir() if link.exists()}
    assert not any(tmp_path in path.parents for path in open_files)
    assert list(tmp_path.iterdir()) == []


def test_corrupt_spill_file_is_named(tmp_path: Path) -> None:
    """A spill file that was altered is an error that names it, not other rows."""
    with sorter_for(tmp_path) as sorter:
        add_parts(sorter)
        victim = next(tmp_path.glob("*/run-00002.arrows"))
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 1
        victim.write_bytes(data)

        with pytest.raises(SorterError, match=f"{victim} is corrupt"):
            list(sorter.sorted_batches())


def test_full_disk_names_folder_and_option(tmp_path: Path) -> None:
    """An error of the disk while spilling names the folder and the option, and the folder is removed."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with sorter_for(tmp_path) as sorter:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
            with pytest.raises(SorterError) as caught:
                add_parts(sorter)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert str(tmp_path) in str(caught.value)
    assert "sorter.spill-dir" in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert list(tmp_path.iterdir()) == []


def test_a_batch_beyond_the_budget_is_taken_in_parts(tmp_path: Path) -> None:
    """Its rows come out as from a sorter with room for all of them, equal ones in the order in which they came."""
    batch = batch_of(random_rows(5000, seed=5))
    found = []
    for memory_bytes in (MIN_MEMORY_BYTES, 64 * 1024 * 1024):
        with sorter_for(tmp_path, memory_bytes=memory_bytes) as sorter:
            sorter.add(batch)
            found.append(pa.Table.from_batches(sorter.sorted_batches(), SCHEMA).to_pylist())
            assert sorter.stats.rows == 5000
    assert found[0] == found[1]


def test_budget_below_one_row_states_the_smallest_that_works(tmp_path: Path) -> None:
    """The error says how much memory the row needs; with exactly that the sorter takes it."""
    batch = batch_of([(1, "k", None, None, n, b"x" * 300_000) for n in range(2)])
    with sorter_for(tmp_path) as sorter, pytest.raises(SorterError, match=r"sorter\.memory is 262144 bytes") as caught:
        sorter.add(batch)
    smallest = int(str(caught.value).partition("at least ")[2].split()[0])
    with sorter_for(tmp_path, memory_bytes=smallest) as sorter:
        sorter.add(batch.slice(0, 1))
    with sorter_for(tmp_path, memory_bytes=smallest - 2) as sorter, pytest.raises(SorterError):
        sorter.add(batch.slice(0, 1))


def test_budget_below_a_row_states_the_smallest_that_works(tmp_path: Path) -> None:
    """A row that is too large to be merged is found when it is spilled; the stated budget works."""

    def fill(sorter: ExternalSorter) -> None:
        for n in range(30):
            sorter.add(batch_of([(n % 2, "k", None, None, n, b"x" * 60_000)]))

    with sorter_for(tmp_path) as sorter, pytest.raises(SorterError, match="the largest row has 6") as caught:
        fill(sorter)
    smallest = int(str(caught.value).partition("at least ")[2].split()[0])
    with sorter_for(tmp_path, memory_bytes=smallest) as sorter:
        fill(sorter)

        assert sum(part.num_rows for part in sorter.sorted_batches()) == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_bytes": 1000}, r"sorter\.memory is 1000 bytes; the smallest that works is 262144"),
        ({"max_open_files": 1}, "max_open_files is 1; a merge needs at least 2"),
        ({"key": ("nope",)}, "'nope' must be in the schema"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """An option that cannot work is refused at once, with its value."""
    with pytest.raises(SorterError, match=message):
        sorter_for(tmp_path, **options)


def test_foreign_schema_is_refused(tmp_path: Path) -> None:
    """A batch of another schema is refused; both are shown."""
    with (
        sorter_for(tmp_path) as sorter,
        pytest.raises(SorterError, match=r"its schema is \[x: int64\], not \[group: int32, key: string"),
    ):
        sorter.add(pa.record_batch([[1]], names=["x"]))


def test_sorter_is_read_once(tmp_path: Path) -> None:
    """Rows come out once, and none can be added after that."""
    with sorter_for(tmp_path) as sorter:
        list(sorter.sorted_batches())
        with pytest.raises(SorterError, match="read once"):
            sorter.sorted_batches()
        with pytest.raises(SorterError, match="cannot be added"):
            sorter.add(batch_of([]))
    with sorter_for(tmp_path) as sorter, pytest.raises(SorterError, match="batch_rows is 0"):
        sorter.sorted_batches(0)
