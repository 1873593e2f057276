"""One Spark session for all benchmarks, sizes, measurements, and the closing table."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

import results  # noqa: E402  (our modules: after the path to them is known)
from report import closing_lines  # noqa: E402
from results import Measurement  # noqa: E402
from sessions import new_session  # noqa: E402
from sizes import Sizes, chosen_sizes  # noqa: E402
from ways import fresh_folder  # noqa: E402

_recorded: list[Measurement] = []


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """One session for all benchmarks that need one; with Spark's connector to Kafka if one of them reads that."""
    jars: Sequence[Path] = ()
    if any("kafka" in item.nodeid for item in request.session.items):
        from topics import connector

        jars = connector()
    session = new_session(tmp_path_factory.mktemp("warehouse"), jars)
    yield session
    session.stop()


@dataclass(frozen=True)
class Bench:
    """What a benchmark needs besides Spark: sizes, scratch folders, and where its measurement goes."""

    sizes: Sizes
    folder: Path

    def begin(self, name: str, title: str, **parameters: object) -> Measurement:
        """A measurement to be filled in; skips the test if a resumed run has it."""
        if results.known(name, parameters):
            pytest.skip(f"{name} has been measured in the run that is resumed")
        return Measurement(name, title, parameters, machine=results.machine())

    def record(self, measurement: Measurement, **found: object) -> None:
        """Keep a measurement with what was found."""
        finished = replace(measurement, **found)  # type: ignore[arg-type]
        results.save(finished)
        _recorded.append(finished)

    def scratch(self) -> AbstractContextManager[Path]:
        """A fresh folder for a run, removed afterwards."""
        return fresh_folder(self.folder)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Sizes, scratch and measurements."""
    return Bench(chosen_sizes(), tmp_path)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Ratios between the ways and verdicts on the targets; pytest-benchmark's own table only has times."""
    resumed = [] if os.environ.get("MIXEDMODE_BENCH_RESUME") != "1" else results.load_all()
    names = {measurement.name for measurement in _recorded}
    shown = [*_recorded, *(measurement for measurement in resumed if measurement.name not in names)]
    for line in closing_lines(shown):
        terminalreporter.write_line(line)
