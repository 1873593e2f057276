"""Which files of a live source are cleaned up behind a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.errors import CorruptStateError
from mixedmode.runtime.checkpoints.metadata import SparkPosition
from mixedmode.runtime.checkpoints.spark_log import SparkLog
from mixedmode.runtime.driver.sources import source_cleaning
from mixedmode.runtime.driver.sources.source_cleaning import SourceCleaning
from pyarrow import fs


def entry(offset: int) -> str:
    return f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{offset}}}'


class Cleaner:
    """Notes what it is to clean."""

    def __init__(self) -> None:
        self.cleaned: list[str] = []

    def clean(self, path: str, modified_ms: int, batch: int) -> None:
        self.cleaned.append(path)


class Run:
    """A run over Spark's log of micro-batches that have read a file each.

    Args:
        folder: of the log.
        checkpoints: by id the last micro-batch of each; -1: it holds none, None: it is damaged.
    """

    def __init__(self, folder: Path, checkpoints: dict[int, int | None] | None = None) -> None:
        self.folder, self.cleaner = folder, Cleaner()
        found = checkpoints or {}

        def read(number: int) -> Any:
            batch = found[number]
            if batch is None:
                raise CorruptStateError("damaged")
            return SimpleNamespace(spark=None if batch < 0 else position(batch))

        log = SparkLog(fs.LocalFileSystem(), str(folder))
        store: Any = SimpleNamespace(spark_log=log, ids=lambda: sorted(found), read=read)
        live: Any = SimpleNamespace(cleans=True, cleaners={0: self.cleaner})
        job: Any = SimpleNamespace(live=object())
        self.cleaning = SourceCleaning(job, store, live)
        self.cleaning.begin()

    def after(self, batch: int | None) -> list[str]:
        """What a checkpoint that holds the micro-batches up to this one has cleaned."""
        self.cleaner.cleaned.clear()
        self.cleaning.clean(None if batch is None else position(batch))
        return sorted(self.cleaner.cleaned)


def position(batch: int) -> SparkPosition:
    return SparkPosition(batch_id=batch, offset_entry=entry(batch))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of six micro-batches."""
    monkeypatch.setattr(source_cleaning, "log_numbers", lambda live: (0,))
    for part in ("offsets", "sources/0"):
        (tmp_path / part).mkdir(parents=True)
    for batch in range(6):
        (tmp_path / "offsets" / str(batch)).write_text(entry(batch))
        read = {"path": f"file:/in/{batch}", "timestamp": batch, "batchId": batch}
        (tmp_path / "sources" / "0" / str(batch)).write_text(f"v1\n{json.dumps(read)}")
    return tmp_path


def test_files_before_the_last_micro_batch_of_a_checkpoint_go_once(folder: Path) -> None:
    run = Run(folder)
    assert [run.after(batch) for batch in (None, 0, 2, 2, 5)] == [
        [],
        [],
        ["file:/in/0", "file:/in/1"],
        [],
        ["file:/in/2", "file:/in/3", "file:/in/4"],
    ]


@pytest.mark.parametrize(
    ("checkpoints", "first"), [({3: 2, 4: 3}, 2), ({3: None, 4: 3}, 3), ({3: 0, 4: 3}, 0), ({3: -1}, 0), ({}, 0)]
)
def test_later_run_cleans_what_one_before_had_no_time_for(
    folder: Path, checkpoints: dict[int, int | None], first: int
) -> None:
    """From the last micro-batch of the oldest checkpoint that can be read."""
    assert Run(folder, checkpoints).after(5) == [f"file:/in/{batch}" for batch in range(first, 5)]


def test_files_stay_if_the_log_does_not_say_how_far_they_were_read_before(folder: Path) -> None:
    """Then cleaning begins behind the oldest checkpoint."""
    (folder / "offsets" / "2").unlink()
    run = Run(folder, {3: 3})
    assert (run.after(3), run.after(4)) == ([], [])
    assert run.after(5) == ["file:/in/4"]
