"""Run in an environment of its own: one peer does the keyed totals over Parquet files, from start to end.

    python jobs.py <peer> <folder with the files> <scratch folder>

Rows and sum of ``value`` by ``key``.  Prints the number of keys and the sums over all of them where the peer can tell
them without more work, so that it can be seen to have done the same.  Nothing of mixedmode is imported: the
environments do not have it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

FILES = "*.parquet"
#: Keys, rows, and the sum of the values, as far as a peer tells them.
Sums = tuple[Any, ...]


def duckdb(folder: Path, scratch: Path) -> Sums:
    """The bare group-by: what the machine can do."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {os.cpu_count()}")
    totals = f"SELECT key, count(*) AS n, sum(value) AS total FROM '{folder}/{FILES}' GROUP BY key"
    return connection.execute(f"SELECT count(*), sum(n), sum(total) FROM ({totals})").fetchone()


def polars(folder: Path, scratch: Path) -> Sums:
    """The same."""
    import polars as pl

    totals = pl.scan_parquet(f"{folder}/{FILES}").group_by("key").agg(pl.len().alias("n"), pl.col("value").sum())
    found = totals.collect(engine="streaming")
    return len(found), found["n"].sum(), found["value"].sum()


def bytewax(folder: Path, scratch: Path) -> Sums:
    """``stateful_batch``: a Python object a key, as its users write it; snapshots go to SQLite by recovery."""
    import pyarrow.parquet as pq
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
    from bytewax.operators import StatefulBatchLogic
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.recovery import RecoveryConfig, init_db_dir
    from bytewax.testing import cluster_main

    class Rows(StatefulSourcePartition):  # type: ignore[type-arg]
        def __init__(self, path: Path, done: int) -> None:
            self.done = done
            self.batches = pq.ParquetFile(path).iter_batches(10_000, columns=["key", "value"])
            for _ in range(done):
                next(self.batches)

        def next_batch(self) -> Any:
            batch = next(self.batches, None)
            if batch is None:
                raise StopIteration
            self.done += 1
            keys = map(str, batch.column(0).to_pylist())  # its keys are text
            return list(zip(keys, batch.column(1).to_pylist(), strict=True))

        def snapshot(self) -> int:
            return self.done

    class Source(FixedPartitionedSource):  # type: ignore[type-arg]
        def list_parts(self) -> list[str]:
            return sorted(path.name for path in folder.glob(FILES))

        def build_part(self, step_id: str, for_part: str, resume_state: Any) -> Rows:
            return Rows(folder / for_part, resume_state or 0)

    class Totals(StatefulBatchLogic):  # type: ignore[type-arg]
        def __init__(self, resumed: Any) -> None:
            self.n, self.total = resumed or (0, 0.0)

        def on_batch(self, values: list[float]) -> tuple[list[Any], bool]:
            self.n += len(values)
            self.total += sum(values)
            return [], False

        def on_eof(self) -> tuple[list[Any], bool]:
            return [(self.n, self.total)], False

        def snapshot(self) -> tuple[int, float]:
            return self.n, self.total

    found = [0, 0, 0.0]

    class Added(StatelessSinkPartition):  # type: ignore[type-arg]
        def write_batch(self, items: list[Any]) -> None:
            for _, (n, total) in items:
                found[0] += 1
                found[1] += n
                found[2] += total

    class Sink(DynamicSink):  # type: ignore[type-arg]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Added:
            return Added()

    flow = Dataflow("totals")
    rows = op.input("rows", flow, Source())
    op.output("out", op.stateful_batch("totals", rows, Totals), Sink())
    db = scratch / "recovery"
    db.mkdir()
    init_db_dir(db, 1)
    recovery = RecoveryConfig(str(db))
    cluster_main(flow, [], 0, worker_count_per_proc=1, epoch_interval=timedelta(seconds=10), recovery_config=recovery)
    return found[0], found[1], found[2]


def pathway(folder: Path, scratch: Path) -> Sums:
    """``groupby().reduce()`` in its Rust engine, which reads no Parquet: the same rows as CSV."""
    import pathway as pw

    class Row(pw.Schema):  # type: ignore[misc, name-defined]
        key: int
        value: float

    rows = pw.io.csv.read(f"{folder}-csv", schema=Row, mode="static")
    of_key = pw.this.key
    totals = rows.groupby(of_key).reduce(of_key, n=pw.reducers.count(), total=pw.reducers.sum(pw.this.value))
    found: list[tuple[int, int]] = []

    def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            found.append((row["keys"], row["n"]))

    pw.io.subscribe(totals.reduce(keys=pw.reducers.count(), n=pw.reducers.sum(pw.this.n)), on_change=on_change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return found[-1]


def _flink(folder: Path, scratch: Path) -> Any:
    """A streaming environment of Flink: RocksDB, exactly-once checkpoints every 10 s, the rows as a table."""
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import StreamTableEnvironment

    environment = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(environment)
    settings = {
        "parallelism.default": str(os.cpu_count()),
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": f"file://{scratch}/checkpoints",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
    }
    for name, value in settings.items():
        tables.get_config().set(name, value)
    files = f"'connector' = 'filesystem', 'path' = 'file://{folder}-csv', 'format' = 'csv'"
    files += ", 'csv.ignore-parse-errors' = 'true'"  # the names of the columns are a row to it
    tables.execute_sql(f"CREATE TABLE in_lines (`key` BIGINT, `value` DOUBLE) WITH ({files})")
    tables.execute_sql("CREATE VIEW in_rows AS SELECT * FROM in_lines WHERE `value` IS NOT NULL")
    tables.execute_sql("CREATE TABLE totals (`key` BIGINT, n BIGINT, total DOUBLE) WITH ('connector' = 'blackhole')")
    return tables


def flink_sql(folder: Path, scratch: Path) -> Sums:
    """The Table API: ``GROUP BY`` in the JVM."""
    tables = _flink(folder, scratch)
    tables.execute_sql("INSERT INTO totals SELECT `key`, COUNT(*), SUM(`value`) FROM in_rows GROUP BY `key`").wait()
    return ()


def flink_python(folder: Path, scratch: Path) -> Sums:
    """The DataStream API: ``key_by`` and a ``KeyedProcessFunction`` in Python, as one writes a processor."""
    from pyflink.common import Row, Types
    from pyflink.datastream import KeyedProcessFunction
    from pyflink.datastream.state import ValueStateDescriptor

    class Totals(KeyedProcessFunction):  # type: ignore[misc]
        def open(self, runtime_context: Any) -> None:
            kind = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
            self.state = runtime_context.get_state(ValueStateDescriptor("totals", kind))

        def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
            n, total = self.state.value() or (0, 0.0)
            self.state.update((n + 1, total + row[1]))
            yield Row(row[0], n + 1, total + row[1])

    tables = _flink(folder, scratch)
    rows = tables.to_data_stream(tables.from_path("in_rows"))
    result = Types.ROW_NAMED(["key", "n", "total"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])
    totals = rows.key_by(lambda row: row[0], key_type=Types.LONG()).process(Totals(), output_type=result)
    tables.from_data_stream(totals).execute_insert("totals").wait()
    return ()


def main() -> None:
    """Run one peer."""
    name, folder, scratch = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    found = globals()[name](folder, scratch)
    print(json.dumps(dict(zip(("keys", "rows", "total"), map(float, found), strict=False))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
