"""Keyed totals over the same files by what a user would pick instead, once each: ``make bench-peers``.

    python benchmarks/peers/run.py            (writes its table into benchmarks/README.md)
    python benchmarks/peers/run.py --only bytewax mixedmode

Each is a process of its own, from its start to its end: imports and JVMs are in the times of all.  Peers have
environments of their own below ``build/peers``, with the versions of :data:`ENVIRONMENTS`.  ``MIXEDMODE_BENCH_SIZE``
and ``MIXEDMODE_BENCH_PEER_ROWS`` say how many rows; ``MIXEDMODE_BENCH_RESUME=1`` runs only what is not there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE.parent))

import publish  # noqa: E402
import pyarrow.csv as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from dataset import Dataset, Shape, dataset  # noqa: E402
from processes import descendants, used_cpu_s  # noqa: E402
from report import aligned, markdown  # noqa: E402
from results import Measurement, known, load_all, machine, save  # noqa: E402
from sizes import chosen_sizes  # noqa: E402

_FOLDER = _HERE.parent.parent / "build" / "peers"
NAME = "peers"
#: So few rows that what it takes is starting.
_FEW = Shape(20_000, 2_000)
#: What is in the environment of each, by its name.
ENVIRONMENTS = {
    "floor": ("duckdb==1.4.2", "polars==1.35.2"),
    "bytewax": ("bytewax==0.21.1", "pyarrow"),
    "pathway": ("pathway==0.33.0",),
    "flink": ("apache-flink==2.3.0",),
}


@dataclass(frozen=True)
class Peer:
    """Somebody who does the job."""

    #: As the table calls it.
    label: str
    #: Its environment; None: ours.
    environment: str | None
    #: What its script is told to do.
    job: str
    #: What it has done when it has ended.
    does: str


PEERS = (
    Peer("DuckDB", "floor", "duckdb", "the bare group-by; nothing is kept"),
    Peer("Polars", "floor", "polars", "the bare group-by; nothing is kept"),
    Peer("Spark batch", None, "plain aggregate", "the bare group-by; nothing is kept"),
    Peer("mixedmode, aggregate", None, "mixedmode aggregate",
         "state of every key in a complete checkpoint, ready to go on live; exactly once"),
    Peer("mixedmode, Python processor", None, "mixedmode processor", "the same"),
    Peer("Structured Streaming, aggregate", None, "stock aggregate",
         "one micro-batch; state in RocksDB, checkpointed; exactly once to sinks that can"),
    Peer("PyFlink, Table API", "flink", "flink_sql",
         "JVM; a result for every row; RocksDB, exactly-once checkpoints every 10 s"),
    Peer("PyFlink, DataStream in Python", "flink", "flink_python", "the same, the function in Python"),
    Peer("Bytewax", "bytewax", "bytewax",
         "state as Python objects, snapshots to SQLite every 10 s; at least once"),
    Peer("Pathway", "pathway", "pathway", "state in memory, incremental; no persistence switched on"),
)  # fmt: skip


def python_of(environment: str) -> Path:
    """The Python of an environment, which is made if it is not there."""
    folder = _FOLDER / environment
    ready = folder / ".installed"
    wanted = " ".join(ENVIRONMENTS[environment])
    if not ready.exists() or ready.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *ENVIRONMENTS[environment]], check=True)
        ready.write_text(wanted)
    return folder / "bin" / "python"


def with_csv(data: Dataset) -> Dataset:
    """The same with its keys and values as CSV beside it, for those who read no Parquet."""
    folder = data.folder.with_name(f"{data.folder.name}-csv")
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        unfinished.mkdir(exist_ok=True)
        for path in map(Path, data.files):
            pc.write_csv(pq.read_table(path, columns=["key", "value"]), unfinished / f"{path.stem}.csv")
        unfinished.rename(folder)
    return data


def timed(peer: Peer, folder: Path, limit_s: float) -> dict[str, Any]:
    """Seconds and CPU seconds of one peer's process and all that it starts, and what it has found.

    Args:
        peer: the peer.
        folder: with the files.
        limit_s: CPU seconds after which it is stopped, or four times as many by the clock: ``is_cut`` says so then.

    Raises:
        RuntimeError: it has failed.
    """
    script = "ours.py" if peer.environment is None else "jobs.py"
    python = sys.executable if peer.environment is None else str(python_of(peer.environment))
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as output:
        command = [python, str(_HERE / script), peer.job, str(folder), scratch]
        began, cpu_s = time.monotonic(), {0: 0.0}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=scratch)
        try:
            while process.poll() is None and sum(cpu_s.values()) < limit_s and time.monotonic() - began < 4 * limit_s:
                for pid in (process.pid, *descendants(process.pid)):
                    cpu_s[pid] = max(cpu_s.get(pid, 0.0), used_cpu_s(pid))
                time.sleep(0.1)
            is_cut = process.poll() is None
            seconds = time.monotonic() - began
        finally:
            for pid in descendants(process.pid):  # a JVM may outlive who started it
                subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)
            process.kill()
            process.wait()
        output.seek(0)
        text = output.read()
    if not is_cut and process.returncode:
        raise RuntimeError(f"{peer.label} has failed:\n{text[-3000:]}")
    found = {} if is_cut else json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))
    return {"seconds": seconds, "cpu_s": sum(cpu_s.values()), "is_cut": is_cut, "found": found}


def check(rows: int, label: str, found: dict[str, float]) -> None:
    """Raise RuntimeError if a peer has not read all rows."""
    if found.get("rows", rows) != rows:
        raise RuntimeError(f"{label} has counted {found['rows']:,.0f} rows of {rows:,}")


def table(measurements: list[Measurement]) -> list[list[str]]:
    """A header and a row for each peer that was measured, by CPU; with seconds if the machine was idle for all."""
    found = {one.name: one for one in measurements}
    rows = []
    for peer in PEERS:
        one = found.get(f"{NAME}-{peer.job}")
        if one is not None:
            (seconds,), (cpu_s,), start = one.seconds[peer.label], one.seconds["CPU"], one.seconds.get("start")
            more = "more than " if one.parameters.get("is_cut") else ""
            rows.append(
                (
                    cpu_s,
                    [
                        peer.label,
                        f"{more}{seconds:.1f}",
                        f"{more}{cpu_s:.1f}",
                        "" if start is None else f"{start[0]:.1f}",
                        peer.does,
                    ],
                )
            )
    shown = [
        ["what", "seconds", "CPU seconds", "with 20,000 rows", "what it has done by then"],
        *(row for _, row in sorted(rows)),
    ]
    # Beside other work seconds say nothing, and CPU seconds little less than on an idle machine.
    is_idle = all(one.machine.get("idle", True) for one in found.values())
    return shown if is_idle else [[row[0], *row[2:]] for row in shown]


def main() -> None:
    """Run and publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="those whose names begin like this")
    only = tuple(one.lower() for one in parser.parse_args().only)
    sizes = chosen_sizes()
    shape, limit_s = Shape(sizes.peer_rows, sizes.peer_keys), sizes.peer_limit_s
    data, few = with_csv(dataset(shape)), with_csv(dataset(_FEW))
    for peer in PEERS:
        if only and not peer.label.lower().startswith(only):
            continue
        name, parameters = f"{NAME}-{peer.job}", dict[str, Any](shape=shape.name, limit=limit_s)
        if known(name, parameters):
            continue
        if peer.environment is not None:
            python_of(peer.environment)
        start = timed(peer, few.folder, limit_s)
        begun = machine()
        one = timed(peer, data.folder, limit_s)
        check(shape.rows, peer.label, one["found"])
        seconds = {peer.label: [one["seconds"]], "CPU": [one["cpu_s"]], "start": [start["cpu_s"]]}
        parameters["is_cut"] = one["is_cut"]
        save(Measurement(name, f"Peers: {shape}", parameters, shape.rows, seconds, machine=begun))
        print(f"{peer.label}: {one['seconds']:.1f} s, {one['cpu_s']:.1f} CPU s", flush=True)
    mine = [one for one in load_all() if one.name.startswith(f"{NAME}-") and one.parameters["shape"] == shape.name]
    print("\n".join(aligned(table(mine))))
    versions = ", ".join(version for all_of in ENVIRONMENTS.values() for version in all_of if "==" in version)
    if only:
        return
    lines = [f"{shape}. {publish.provenance(mine)} {versions.replace('==', ' ')}.", "", *markdown(table(mine))]
    publish.README.write_text(publish.between(publish.README.read_text(), NAME, lines))


if __name__ == "__main__":
    main()
