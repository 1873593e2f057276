"""A program that counts fruits by a processor: ``SESSIONS_MASTER=… python fruits.py <folder> stock|ours <initial>``.

It prints, as JSON, the last row of each fruit behind each of two micro-batches.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
import pandas as pd
import support
from pyspark.sql.streaming import StatefulProcessor

FRUITS = ["apple", "apple", "orange", "orange", "orange"]
COLUMNS = "name string, n long, family string"


class Counts(StatefulProcessor):
    """How often each fruit has come, with its family."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("fruitState", COLUMNS)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame([self._counted(key[0], sum(map(len, rows)))], columns=["name", "n", "family"])

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        self._counted(key[0], len(initialState))

    def _counted(self, name: str, more: int) -> tuple[str, int, str]:
        n = (self.state.get()[1] if self.state.exists() else 0) + more
        row = (name, n, "citrus" if name in ("orange", "lemon", "lime") else "non-citrus")
        self.state.update(row)
        return row


def main(folder: Path, way: str, initial: bool) -> None:
    # Spark's stateful processors need the provider that knows column families.
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    settings = {"spark.sql.streaming.stateStore.providerClass": provider, "spark.sql.shuffle.partitions": "2"}
    spark = support.driver_session(os.environ["SESSIONS_MASTER"], settings)
    (folder / "in").mkdir(parents=True)
    live = spark.readStream.schema("value string").text(str(folder / "in"))
    start = spark.createDataFrame([(fruit,) for fruit in FRUITS], "value string").groupBy("value") if initial else None
    rows: Any = live if way == "stock" else mixedmode.read(live=live)
    counted = rows.groupBy("value").transformWithStateInPandas(Counts(), COLUMNS, "update", "None", start)
    last: dict[str, list[Any]] = {}

    def take(frame: Any, number: int) -> None:
        last.update({row.name: list(row) for row in frame.collect()})

    writer = counted.writeStream.outputMode("update").foreachBatch(take)
    query = writer.option("checkpointLocation", str(folder / "checkpoints")).start()
    seen = []
    for number, fruits in enumerate((FRUITS, ["lemon", "lime"])):
        (folder / f"{number}.txt").write_text("\n".join(fruits))
        (folder / f"{number}.txt").rename(folder / "in" / f"{number}.txt")
        query.processAllAvailable()
        seen.append(sorted(last.values()))
    query.stop()
    print(json.dumps(seen), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True")
