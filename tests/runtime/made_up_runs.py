"""The history of a job that was never run: backlog, switch, stream, a kill, a savepoint, a pause, a failure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from event_support import a_run, put
from mixedmode.runtime.metrics.events.events import (
    BacklogProgressed,
    CheckpointCompleted,
    EpochApplied,
    InputNode,
    PhaseBegan,
    RunBegan,
    RunEnded,
    RunEvent,
    RunRestored,
    SavepointWritten,
    ShardTime,
    SourceChanged,
    SourceProgress,
    StageNode,
    StageProgress,
)
from mixedmode.runtime.metrics.run_records import runs_of

#: 2026-11-20, 21:00 UTC.
START_MS = 1_795_208_400_000
#: What a user may call a query, and an error may say.
NAME = 'spending <script>alert("name")</script> & co'
ERROR = "Job aborted: </pre><script>alert('error')</script> java.io.IOException: No space left on device\n\tat Writer"
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_MIB = 1 << 20


class MadeUpRun:
    """Makes the events of one run."""

    def __init__(self, number: int, began_ms: int) -> None:
        self.run_id = f"{number:08x}-0000-4000-8000-000000000000"
        self.at_ms = began_ms
        self._number = number

    def common(self) -> dict[str, Any]:
        return {"query_id": "6c1b2a34-query", "run_id": self.run_id, "name": NAME, "at_ms": self.at_ms}

    def began(self) -> RunBegan:
        return RunBegan(
            **self.common(),
            pid=4000 + self._number,
            host="driver-0",
            generation=self._number,
            versions={"mixedmode": "0.1.0", "spark": "4.3.0", "python": "3.11.7"},
            location="/jobs/spending",
            inputs=(InputNode(name="history", kind="history"), InputNode(name="live", kind="live", seam="ts >= Nov 1")),
            stages=(
                StageNode(
                    uid="rotations",
                    operator="Rotations",
                    key=("tailnum",),
                    event_time="ts",
                    watermark_delay_ms=_HOUR_MS,
                    inputs=("history", "live"),
                ),
                StageNode(
                    uid="hourly", operator="agg", key=("window", "airport"), stages=("rotations",), is_output=True
                ),
            ),
            sink="parquet files in out/, exactly-once",
        )

    def phase(self, kind: str) -> PhaseBegan:
        self.at_ms += 900
        return PhaseBegan(**self.common(), phase=kind)

    def backlog(self, seconds: int, total_rows: int) -> Iterator[RunEvent]:
        yield self.phase("backlog")
        for second in range(1, seconds + 1):
            self.at_ms += 1000
            part = (1 - math.cos(math.pi * second / seconds)) / 2
            yield BacklogProgressed(
                **self.common(),
                stage="rotations",
                shards_done=int(8 * part**3),
                shards=8,
                rows_read=min(total_rows, int(total_rows * part * 1.5)),
                rows=int(total_rows * part),
                total_rows=total_rows,
                rows_per_second=total_rows * part / second,
                spilled_bytes=second * 3 * _MIB,
                fraction=part,
                eta_s=seconds - second,
                elapsed_s=float(second),
            )
        yield self.epoch(1, "backlog", rows=total_rows, took_ms=seconds * 1000)
        yield self.phase("switch")
        yield SourceChanged(**self.common(), source="live", is_backlog=False, epoch=1, reason="all that waited is read")
        yield self.checkpoint(1, "switch", 1900)
        yield self.phase("live")

    def epoch(self, number: int, phase: str, rows: int, took_ms: float, lag_ms: int = 2 * _HOUR_MS) -> EpochApplied:
        is_backlog = phase == "backlog"
        state_bytes = (40 + 3 * math.isqrt(number)) * _MIB
        return EpochApplied(
            **self.common(),
            epoch=number,
            phase=phase,
            mode="backlog" if is_backlog else "streaming",
            is_backlog=is_backlog,
            duration_ms=took_ms,
            max_duration_ms=took_ms,
            input_rows=rows,
            output_rows=rows // 20,
            late_rows=rows // 1000,
            processed_rows_per_second=rows * 1000 / took_ms,
            watermark_ms=None if is_backlog else self.at_ms - lag_ms,
            watermark_lag_ms=None if is_backlog else lag_ms,
            state_entries=4000 + number,
            state_bytes=state_bytes,
            stages=tuple(
                StageProgress(
                    uid=uid,
                    input_rows=rows,
                    shards=8,
                    state_entries=2000 + number,
                    state_bytes=state_bytes // 2,
                    slowest=tuple(
                        ShardTime(shard=shard, seconds=took_ms / 1000 / (1.4 + 0.4 * shard), rows=rows // (4 + shard))
                        for shard in range(3)
                    ),
                )
                for uid in ("rotations", "hourly")
            ),
            sources=(
                SourceProgress(name="history", is_backlog=is_backlog, finished=not is_backlog),
                SourceProgress(name="live", is_backlog=is_backlog, finished=False),
            ),
        )

    def checkpoint(self, number: int, trigger: str, took_ms: int) -> CheckpointCompleted:
        return CheckpointCompleted(
            **self.common(),
            checkpoint_id=number,
            trigger=trigger,
            kind="checkpoint",
            duration_ms=took_ms,
            max_duration_ms=took_ms,
            state_bytes=(40 + 3 * math.isqrt(number)) * _MIB,
        )

    def stream(self, first: int, epochs: int, every_ms: int) -> Iterator[RunEvent]:
        for number in range(first, first + epochs):
            self.at_ms += every_ms
            wave = 1 + math.sin(number / 9) * 0.5 + (2.5 if number % 47 == 0 else 0)
            lag_ms = _HOUR_MS + int(8 * _MINUTE_MS * wave) + (40 * _MINUTE_MS if number % 90 > 80 else 0)
            yield self.epoch(number, "live", rows=int(5200 * wave), took_ms=420 * wave, lag_ms=lag_ms)
            if number % 4 == 0:
                yield self.checkpoint(
                    number // 4 + 1, "interval", int(180 + 90 * wave + (900 if number % 64 == 0 else 0))
                )

    def restored(self, checkpoint: int) -> Iterator[RunEvent]:
        yield self.began()
        self.at_ms += 2500
        yield RunRestored(**self.common(), checkpoint_id=checkpoint, epoch=checkpoint * 4)
        yield self.phase("live")

    def ended(self, how: Any, **fields: Any) -> RunEnded:
        self.at_ms += 700
        return RunEnded(**self.common(), how=how, **fields)


def made_up_runs() -> Iterator[RunEvent]:
    """Four runs: killed, stopped with a savepoint, killed again, failed."""
    first = MadeUpRun(1, START_MS)
    yield first.began()
    yield from first.backlog(95, 21_400_000)
    yield from first.stream(2, 120, 10_000)
    second = MadeUpRun(2, first.at_ms + 2 * _MINUTE_MS)
    yield from second.restored(30)
    yield from second.stream(122, 200, 10_000)
    yield SavepointWritten(**second.common(), path="s3://savepoints/2026-11-20")
    yield second.ended("stopped", savepoint="s3://savepoints/2026-11-20")
    third = MadeUpRun(3, second.at_ms + 9 * _HOUR_MS)
    yield from third.restored(80)
    yield from third.stream(322, 60, 10_000)
    fourth = MadeUpRun(4, third.at_ms + _MINUTE_MS)
    yield from fourth.restored(95)
    yield from fourth.stream(382, 150, 10_000)
    yield fourth.ended("failed", error_class="Py4JJavaError", error=ERROR)


def made_up_location(folder: Path) -> Path:
    """A checkpoint location that has the history of those runs, and nothing else."""
    for run in runs_of(made_up_runs()):
        its = [event for event in made_up_runs() if event.run_id == run.run_id]
        put(a_run(folder, run.run_id, run.began_ms).part(1), *its)
    return folder
