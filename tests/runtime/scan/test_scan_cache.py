"""Scans that are recognised once for a job's start and its backlog; no Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.runtime.scan import scan_cache
from mixedmode.runtime.scan.parquet_scan import ParquetScan
from mixedmode.runtime.scan.partial_scans import PartialScan, RecognisedScan


@dataclass
class Plan:
    """A plan as Spark compares it."""

    text: str
    files: list[str] = field(default_factory=list)

    def sameResult(self, other: Plan) -> bool:
        return self.text == other.text


def frame(plan: Plan, columns: list[str], context: object) -> Any:
    """A frame of a plan."""
    return SimpleNamespace(plan=plan, columns=columns, sparkSession=SimpleNamespace(sparkContext=context))


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames have their plans, and plans their files, at hand."""
    monkeypatch.setattr(scan_cache, "analyzed", lambda one: one.plan)
    relation = lambda plan: SimpleNamespace(relation=lambda: SimpleNamespace(inputFiles=lambda: plan.files))  # noqa: E731
    monkeypatch.setattr(scan_cache, "relation_of", relation)
    monkeypatch.setattr(scan_cache, "input_files", lambda spark, one: tuple(one.inputFiles()))
    scan_cache._KNOWN.clear()


def scan(*constants: tuple[Any, ...]) -> RecognisedScan:
    """A scan of a file."""
    return RecognisedScan(PartialScan(ParquetScan(()), (), ()), ("old",), tuple(constants))


def test_the_same_plan_is_recalled_with_the_files_of_now() -> None:
    """Another plan, other names, settings or application are not the same."""
    context = object()
    scan_cache.remember(frame(Plan("sum"), ["k", "s"], context), ("fast",), scan())
    again = frame(Plan("sum", ["new"]), ["k", "s"], context)
    found = scan_cache.recall(again, ("fast",), RecognisedScan)
    assert found is not None
    assert (found.partials, found.uris) == (scan().partials, ("new",))
    assert scan_cache.recall(again, ("spark",), RecognisedScan) is None
    assert scan_cache.recall(frame(Plan("sum"), ["k", "t"], context), ("fast",), RecognisedScan) is None
    assert scan_cache.recall(frame(Plan("max"), ["k", "s"], context), ("fast",), RecognisedScan) is None
    assert scan_cache.recall(frame(Plan("sum"), ["k", "s"], object()), ("fast",), RecognisedScan) is None


def test_files_that_depend_on_their_paths_are_recognised_each_time() -> None:
    """Which of them are read is not known by the plan alone."""
    context = object()
    scan_cache.remember(frame(Plan("sum"), ["k"], context), (), scan((1,)))
    assert scan_cache.recall(frame(Plan("sum"), ["k"], context), (), RecognisedScan) is None
