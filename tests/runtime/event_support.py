"""Events of made-up runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixedmode.runtime.metrics.events.event_files import HistoryFolder, RunFolder
from mixedmode.runtime.metrics.events.event_json import to_line
from mixedmode.runtime.metrics.events.events import EpochApplied, PhaseBegan, RunBegan, RunEvent
from pyarrow import fs

RUN = "11111111-0000-0000-0000-000000000000"


def common(at_ms: int = 0, run_id: str = RUN) -> dict[str, Any]:
    return {"query_id": "q", "run_id": run_id, "name": "job", "at_ms": at_ms}


def began(at_ms: int = 0, run_id: str = RUN, generation: int = 1) -> RunBegan:
    return RunBegan(**common(at_ms, run_id), pid=1, host="h", generation=generation)


def phase(name: str, at_ms: int = 0, run_id: str = RUN) -> PhaseBegan:
    return PhaseBegan(**common(at_ms, run_id), phase=name)


def epoch(number: int, at_ms: int = 0, run_id: str = RUN, **fields: Any) -> EpochApplied:
    known = {"phase": "live", "mode": "streaming", "is_backlog": False, **fields}
    return EpochApplied(**common(at_ms, run_id), epoch=number, **known)


def folder_of(location: Path) -> HistoryFolder:
    return HistoryFolder(fs.LocalFileSystem(), f"{location}/mixedmode")


def a_run(location: Path, run_id: str = RUN, started_ms: int = 0) -> RunFolder:
    """The folder of a run, which is there."""
    run = folder_of(location).run(run_id, started_ms)
    Path(run.path).mkdir(parents=True)
    return run


def put(path: str, *events: RunEvent, torn: bytes = b"") -> None:
    """Append events to a file, as they are written; behind them what is no whole line."""
    with open(path, "ab") as file:
        file.write(b"".join(map(to_line, events)) + torn)
