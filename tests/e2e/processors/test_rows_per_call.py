"""``execution.backlog.rows-per-call`` end to end: a huge key in calls of bounded size, also killed between two."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World, by_value

by_value(__name__)

NAME = "execution.backlog.rows-per-call"
HUGE, MOST = 60_000, 7_000
OUTPUT = "k string, n long, total long"
#: Calls of the huge key, and its sum so far behind each.
STEPS = [min(MOST, HUGE - start) for start in range(0, HUGE, MOST)]
EXPECTED = sorted(
    [("huge", n, sum(range(sum(STEPS[: number + 1])))) for number, n in enumerate(STEPS)]
    + [(f"k{n}", 1, 1) for n in range(50)]
)


def history(world: World) -> Any:
    """A key with nearly all rows among small ones."""
    rows = [("huge", n) for n in range(HUGE)] + [(f"k{n}", 1) for n in range(50)]
    keys, values = zip(*rows, strict=True)
    path = world.folder / "rows.parquet"
    pq.write_table(pa.table({"k": keys, "v": values, "pad": ["x" * 40] * len(rows)}), path)
    return mixedmode.read(history=world.spark.read.parquet(str(path)))


class Steps(StatefulProcessor):
    """Keeps the rows of each call at once, and gives their number and the sum so far.

    Args:
        mark: a file; where it is not, the third call of a key makes it and kills its process.
    """

    def __init__(self, mark: Path | None = None) -> None:
        self._mark = mark

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("state", "calls int, total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        calls, total = self._state.get() or (0, 0)
        kept = list(rows)
        total += sum(row.v for row in kept)
        if calls == 2 and self._mark is not None and not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        self._state.update((calls + 1, total))
        yield Row(k=key[0], n=len(kept), total=total)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["spark", "arrow"])
def test_a_huge_key_comes_in_calls_of_bounded_size(world: World, engine: str) -> None:
    """However little memory there is to sort it, and in the order of its file."""
    job = history(world).groupBy("k").transformWithState(Steps(), OUTPUT, "append", "none")
    query = world.start(job, {NAME: MOST, "sorter.engine": engine, "sorter.memory": "1 MiB"})
    query.awaitTermination(300)
    assert sorted(world.output()) == EXPECTED


@pytest.mark.slow
def test_killed_between_two_calls_of_a_key_the_restart_gives_each_row_once(world: World) -> None:
    """Nothing of the calls before is visible, and the key begins anew."""
    job = history(world).groupBy("k").transformWithState(Steps(world.folder / "killed"), OUTPUT, "append", "none")
    query = world.start(job, {NAME: MOST})
    with pytest.raises(Exception, match=r"crashed|SIGKILL|exited|EOF"):
        query.awaitTermination(300)
    assert (world.folder / "killed").exists()
    assert world.output() == []
    world.start(job, {NAME: MOST}).awaitTermination(300)
    assert sorted(world.output()) == EXPECTED


@pytest.mark.slow
def test_the_function_of_apply_in_pandas_with_state_gets_so_many_rows(world: World) -> None:
    def steps(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        rows = pd.concat(list(frames))
        (total,) = state.getOption or (0,)
        total += int(rows.v.sum())
        state.update((total,))
        yield pd.DataFrame({"k": [key[0]], "n": [len(rows)], "total": [total]})

    job = history(world).groupBy("k").applyInPandasWithState(steps, OUTPUT, "total long", "append", "NoTimeout")
    world.start(job, {NAME: MOST}).awaitTermination(300)
    assert sorted(world.output()) == EXPECTED


def test_explain_says_how_calls_are_cut(world: World) -> None:
    def said(frame: Any) -> list[str]:
        writer = frame.writeStream.format("noop").option(NAME, "7000")
        text = str(writer.option("checkpointLocation", str(world.checkpoints)).plan())
        return [line for line in text.splitlines() if "rows per call" in line]

    rows = history(world)
    (line,) = said(rows.groupBy("k").transformWithState(Steps(), OUTPUT, "append", "none"))
    assert "at most 7000 of a key in the backlog" in line
    (line,) = said(rows.dropDuplicates(["k"]))
    assert "has no effect: no stage calls a function" in line
