"""The page of recipes: its code runs as it stands, and does what the page says of it."""

from __future__ import annotations

import json
import re
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mixedmode.testing import Harness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"
SCHEMA = "id string, ts timestamp, kind string, amount long"
START = datetime(2025, 3, 1, 8)

Event = tuple[str, datetime, str, int]


def blocks() -> dict[str, str]:
    """The code of each recipe, by its heading."""
    parts = re.split(r"^#+ (.+)\n", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        head: "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        for head, text in zip(parts[::2], parts[1::2], strict=True)
    }


def event(id: str, minute: float, kind: str = "click", amount: int = 1) -> Event:
    return id, START + timedelta(minutes=minute), kind, amount


def land(folder: Path, name: str, *events: Event) -> None:
    """Write a file of events."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": e[0], "ts": e[1].isoformat(), "kind": e[2], "amount": e[3]}) for e in events]
    (folder / name).write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_recipes_do_what_they_say(spark: SparkSession, tmp_path: Path) -> None:
    """Each recipe runs behind the ones above it; processors run in a harness, jobs over history and live files."""
    recipes, names = blocks(), {"spark": spark, "folder": str(tmp_path), "__name__": "recipes"}
    land(tmp_path / "lake", "1.json", event("a", 0), event("a", 0), event("b", 90, amount=5))
    land(tmp_path / "landing", "1.json", event("a", 70, amount=2))

    def run(head: str) -> None:
        exec(compile(recipes.pop(head), f"{PAGE.name}: {head}", "exec"), names)

    def totals() -> list[Any]:
        with sqlite3.connect(tmp_path / "totals.db") as connection:
            return connection.execute("SELECT * FROM totals ORDER BY id").fetchall()

    run("Recipes")
    run("Set a timer")
    with _harness(names["Unpaid"](), "id string") as unpaid:
        placed = [event("a", 0, "placed"), event("b", 0, "placed"), event("b", 5, "paid")]
        assert [*unpaid.backlog(placed), *unpaid.set_watermark(START + timedelta(minutes=59))] == []
        assert [tuple(row) for row in unpaid.set_watermark(START + timedelta(hours=1))] == [("a",)]
    run("Close a session after a timeout")
    with _harness(names["Sessions"](), "id string, begin timestamp, events long") as sessions:
        found = [*sessions.backlog([event("a", 0), event("a", 20), event("a", 55)]), *sessions.end()]
        assert [(row.begin, row.events) for row in found] == [(START, 2), (START + timedelta(minutes=55), 1)]
    run("Compute a rolling average")
    with _harness(names["LastHour"](), "id string, ts timestamp, average double") as averages:
        found = [
            *averages.backlog([event("a", 0, amount=2), event("a", 30, amount=4)]),
            *averages.push([event("a", 61)]),
        ]
        assert [row.average for row in found] == [2.0, 3.0, 2.5]
    run("Deduplicate, then count in windows")
    hours = spark.read.parquet(f"{tmp_path}/hourly").collect()
    assert [tuple(row) for row in hours] == [(START + timedelta(hours=1), 1)]
    run("Upsert into a table")
    assert totals() == [("a", 3, None), ("b", 1, None)]
    land(tmp_path / "landing", "2.json", event("b", 95, amount=7))
    run("Restart with a changed aggregate")
    assert totals() == [("a", 3, None), ("b", 2, 7)]  # the sum is of rows since the restart, and a had none
    run("Backfill one more column")
    assert totals() == [("a", 3, 4), ("b", 2, 12)]
    assert not any(recipes.values())


def _harness(processor: Any, output: str) -> Harness:
    return Harness(
        processor,
        key="id",
        schema=SCHEMA,
        output=output,
        time_mode="eventTime",
        event_time="ts",
        delay="10 minutes",
    )
