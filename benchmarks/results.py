"""Measurements on disk: one JSON file each, written as soon as it is there, so that a run can be resumed and published.

``MIXEDMODE_BENCH_RESULTS`` names the folder (default ``build/bench/<size>``).  With ``MIXEDMODE_BENCH_RESUME=1`` what
has been measured with the same parameters is not measured again.  What is published is kept in ``measured/``, so that a
run of some benchmarks leaves the figures of the others.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyspark
from sizes import preset_name

#: The machine counts as idle if no more than this share of its cores is busy just before a measurement.
_IDLE_SHARE = 0.2
_LOOK_S = 0.5
#: Published measurements, part of the repository.
PUBLISHED = Path(__file__).parent / "measured"


@dataclass(frozen=True)
class Measurement:
    """What one benchmark found."""

    name: str
    title: str
    #: Everything that must be equal for two measurements to be of the same thing.
    parameters: dict[str, Any]
    #: Rows that each way goes through; None: ways are not compared by rows.
    rows: int | None = None
    #: Seconds of each round, by way.
    seconds: dict[str, list[float]] = field(default_factory=dict)
    #: CPU-seconds of all processes in each of them, by way; empty: they were not looked at, or stand in a note.
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    #: The ways that the table compares the others with.
    baselines: tuple[str, ...] = ()
    #: Measured figure by target.
    findings: dict[str, float] = field(default_factory=dict)
    #: Further facts, a line each.
    notes: tuple[str, ...] = ()
    preset: str = field(default_factory=preset_name)
    machine: dict[str, Any] = field(default_factory=dict)


def results_folder() -> Path:
    """Where measurements are kept."""
    default = Path(__file__).parent.parent / "build" / "bench" / preset_name()
    return Path(os.environ.get("MIXEDMODE_BENCH_RESULTS", default))


def save(measurement: Measurement, folder: Path | None = None) -> None:
    """Keep a measurement, in the results folder if no other is named; it replaces an older one of the same name."""
    folder = folder or results_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{measurement.name}.json").write_text(json.dumps(asdict(measurement), indent=1) + "\n")


def load_all(folder: Path | None = None) -> list[Measurement]:
    """All measurements, by name."""
    return [_parse(path) for path in sorted((folder or results_folder()).glob("*.json"))]


def known(name: str, parameters: dict[str, Any]) -> bool:
    """True if a run that is being resumed has this measurement."""
    path = results_folder() / f"{name}.json"
    return os.environ.get("MIXEDMODE_BENCH_RESUME") == "1" and path.exists() and _of(path, parameters)


def _of(path: Path, parameters: dict[str, Any]) -> bool:
    """Whether a measurement is of the same; what was found out on the way (``cut``) does not count."""
    known = _parse(path).parameters
    wanted = json.loads(json.dumps(parameters))
    return {name: known.get(name) for name in wanted} == wanted


def _parse(path: Path) -> Measurement:
    body = json.loads(path.read_text())
    return Measurement(**{**body, "baselines": tuple(body["baselines"]), "notes": tuple(body["notes"])})


def machine() -> dict[str, Any]:
    """Where and when a measurement begins, and how busy the machine is with other things."""
    busy = _busy_share()
    return {
        "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "busy": round(busy, 2),
        "idle": busy <= _IDLE_SHARE,
        "load": round(os.getloadavg()[0], 1),
        "cores": int(os.environ.get("MIXEDMODE_BENCH_CORES", "2")),
        "python": platform.python_version(),
        "spark": pyspark.__version__,
    }


def _busy_share() -> float:
    """Share of all cores' time that is used while we do nothing; 0 where ``/proc/stat`` is unknown."""
    try:
        before = _cpu_times()
        time.sleep(_LOOK_S)
        after = _cpu_times()
    except OSError:
        return 0.0
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return 1 - (spent[3] + spent[4]) / max(sum(spent), 1)


def _cpu_times() -> list[int]:
    """Ticks of all cores: user, nice, system, idle, waiting for disks, interrupts, stolen."""
    return [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
