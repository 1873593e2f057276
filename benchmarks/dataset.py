"""The rows that benchmarks read: made once by numpy for each shape, kept as parquet, the same on every machine.

``MIXEDMODE_BENCH_DATA`` names the folder in which they are kept (default ``build/bench/data``).
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: ``numbers``: a whole number and a decimal, whose sums are the same in any order.
Width = Literal["narrow", "columns", "text", "numbers"]
#: ``uniform``; ``zipf-1.0`` and ``zipf-1.5``: the n-th key has 1/n**s of the weight; ``hot``: one key has half of all.
Skew = Literal["uniform", "zipf-1.0", "zipf-1.5", "hot"]
#: What the n-th key is: ``scattered``: a number somewhere among those of 64 bits; ``sequential``: n itself; ``uuid``: a
#: UUID's text; ``composite``: a site's name and a scattered number, of which neither is the key alone.
KeyKind = Literal["scattered", "sequential", "uuid", "composite"]

#: Files of a dataset unless said otherwise: every key is in every file, and a file is a micro-batch.
FILES = 10
EXTRA_COLUMNS = tuple(f"extra{i}" for i in range(10))
TEXT_BYTES = 100
#: The first row's event time; one row a second.
START_S = 1_700_000_000
#: Of composite keys: so many names.
SITES = 100
_CHUNK_ROWS = 1_000_000
#: Changes when the same shape gets other rows.
_VERSION = 2
#: A mix that gives each number of 64 bits another one of them (the finalizer of splitmix64), and what it begins with.
_GOLDEN, _MIX_1, _MIX_2 = (np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True)
class Shape:
    """What a dataset looks like."""

    rows: int
    keys: int
    width: Width = "narrow"
    skew: Skew = "uniform"
    files: int = FILES
    #: Every key once, in random order, instead of random keys: ``rows`` is ``keys`` then.
    each_key_once: bool = False
    #: Seconds after ``START_S`` at which the first row's event time is.
    later_s: int = 0
    #: Seconds over which event times are scattered, each file's over its share of them; None: one row a second.
    span_s: int | None = None
    #: Another number gives other rows; the n-th key stays what it is.
    seed: int = 0
    key: KeyKind = "scattered"

    @property
    def name(self) -> str:
        """Name of the folder, and of the measurement."""
        once = "-once" if self.each_key_once else ""
        later = f"-later-{self.later_s}" if self.later_s else ""
        span = "" if self.span_s is None else f"-span-{self.span_s}"
        seed = f"-seed-{self.seed}" if self.seed else ""
        kind = "" if self.key == "scattered" else f"-{self.key}"
        shape = (
            f"{self.rows}-rows-{self.keys}{kind}-keys-{self.width}-{self.skew}-{self.files}{once}{later}{span}{seed}"
        )
        return f"{shape}-v{_VERSION}"

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.keys:,} keys"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """What a job groups by."""
        return ("site", "key") if self.key == "composite" else ("key",)

    @property
    def key_types(self) -> dict[str, str]:
        """By key column its type, in Spark's words."""
        types = {"site": "string", "key": "string" if self.key == "uuid" else "long"}
        return {name: types[name] for name in self.key_columns}

    @property
    def ddl(self) -> str:
        """Spark's schema."""
        columns = ["key string" if self.key == "uuid" else "key long", "ts timestamp", "value double"]
        if self.key == "composite":
            columns = ["site string", *columns]
        if self.width == "columns":
            columns += [f"{name} double" for name in EXTRA_COLUMNS]
        elif self.width == "numbers":
            columns += ["amount long", "price decimal(12,2)"]
        elif self.width == "text":
            columns.append("text string")
        return ", ".join(columns)


@dataclass(frozen=True)
class Dataset:
    """A shape and where its files are."""

    shape: Shape
    folder: Path

    @property
    def files(self) -> list[str]:
        """The files, in order."""
        return sorted(str(path) for path in self.folder.glob("*.parquet"))


def data_folder() -> Path:
    """Where datasets are kept."""
    default = Path(__file__).parent.parent / "build" / "bench" / "data"
    return Path(os.environ.get("MIXEDMODE_BENCH_DATA", default))


def dataset(shape: Shape) -> Dataset:
    """The dataset of a shape; made if it is not there."""
    folder = data_folder() / shape.name
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        for number in range(shape.files):
            _write_file(shape, number, unfinished / f"part-{number:05d}.parquet")
        try:
            unfinished.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(unfinished)
    return Dataset(shape, folder)


def batches(shape: Shape, number: int, chunk_rows: int = _CHUNK_ROWS) -> Iterator[pa.RecordBatch]:
    """The rows of one file of a dataset, without writing it."""
    random = np.random.default_rng([shape.rows, shape.keys, number, *([shape.seed] if shape.seed else [])])
    first, end = shape.rows * number // shape.files, shape.rows * (number + 1) // shape.files
    for start in range(first, end, chunk_rows):
        yield _batch(shape, random, number, start, min(start + chunk_rows, end))


def _write_file(shape: Shape, number: int, path: Path) -> None:
    writer = None
    for batch in batches(shape, number):
        writer = writer or pq.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
    if writer is None:
        raise ValueError(f"{shape} in {shape.files} files: file {number} would have no row")
    writer.close()


def _batch(shape: Shape, random: np.random.Generator, number: int, start: int, end: int) -> pa.RecordBatch:
    ids = np.arange(start, end, dtype=np.int64)
    columns = {
        **key_columns(shape, _keys(shape, random, ids)),
        "ts": pa.array(_times_us(shape, random, number, ids), pa.timestamp("us", "UTC")),
        "value": pa.array(random.random(len(ids)) * 1000),
    }
    if shape.width == "columns":
        columns |= {name: pa.array(random.integers(0, 10_000, len(ids)) / 4) for name in EXTRA_COLUMNS}
    elif shape.width == "numbers":
        amounts = pa.array(random.integers(-1_000, 1_000_000, len(ids)))
        columns |= {"amount": amounts, "price": amounts.cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2))}
    elif shape.width == "text":
        texts = pa.array([f"{number:0{TEXT_BYTES}d}" for number in range(1000)])
        columns["text"] = texts.take(pa.array(random.integers(0, 1000, len(ids))))
    return pa.RecordBatch.from_pydict(columns)


def key_columns(shape: Shape, numbers: np.ndarray) -> dict[str, pa.Array]:
    """The key columns of rows.

    Args:
        shape: says what keys are.
        numbers: of each row, which of the keys it has.
    """
    if shape.key == "sequential":
        return {"key": pa.array(numbers)}
    if shape.key == "scattered":
        return {"key": pa.array(scattered(numbers))}
    if shape.key == "composite":
        sites = pa.array([f"site-{number:02d}" for number in range(SITES)])
        return {"site": sites.take(pa.array(numbers % SITES)), "key": pa.array(scattered(numbers // SITES))}
    distinct, places = np.unique(numbers, return_inverse=True)
    halves = zip(scattered(distinct).view(np.uint64), scattered(~distinct).view(np.uint64), strict=True)
    texts = [str(uuid.UUID(int=int(high) << 64 | int(low), version=4)) for high, low in halves]
    return {"key": pa.array(texts).take(pa.array(places))}


def scattered(numbers: np.ndarray) -> np.ndarray:
    """A number of 64 bits for each, different for different ones."""
    mixed = numbers.astype(np.uint64) * _GOLDEN + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64)


def _keys(shape: Shape, random: np.random.Generator, ids: np.ndarray) -> np.ndarray:
    count = len(ids)
    if shape.each_key_once:
        # A permutation without a table of it: steps of a prime that does not divide the number of keys.
        step = next(prime for prime in (7_368_787, 999_983, 104_729) if shape.keys % prime)
        return (ids * step) % shape.keys
    if shape.skew == "uniform":
        return random.integers(0, shape.keys, count)
    if shape.skew == "hot":
        keys = random.integers(1, max(shape.keys, 2), count)
        keys[random.random(count) < 0.5] = 0
        return keys
    return np.searchsorted(_zipf(shape.keys, float(shape.skew.removeprefix("zipf-"))), random.random(count))


def _times_us(shape: Shape, random: np.random.Generator, number: int, ids: np.ndarray) -> np.ndarray:
    first_us = (START_S + shape.later_s) * 1_000_000
    if shape.span_s is None:
        return first_us + ids * 1_000_000
    share_us = shape.span_s * 1_000_000 // shape.files
    return first_us + number * share_us + random.integers(0, share_us, len(ids))


@lru_cache(maxsize=2)
def _zipf(keys: int, exponent: float) -> np.ndarray:
    """The distribution function of Zipf's law over so many keys."""
    weights = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -exponent)
    return weights / weights[-1]
