"""Live folders that are removed under a running job: told once when they go and once when they are back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.runtime.driver.sources import live_folders
from mixedmode.runtime.driver.sources.live_folders import LiveFolders
from mixedmode.runtime.metrics.events.facts import LiveFolderGone, LiveFolderIsBack


class Place:
    """Hadoop's look at a local folder, or a file system that does not answer."""

    looks = 0

    def __init__(self, spark: Any, folder: str) -> None:
        self._folder = folder

    def exists(self) -> bool:
        Place.looks += 1
        if "unreachable" in self._folder:
            raise OSError("no route to host")
        return Path(self._folder).exists()


@pytest.fixture(autouse=True)
def _local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_folders, "HadoopPlace", Place)
    Place.looks = 0


def test_each_change_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning when the folder goes; between two looks lie ten seconds; who does not answer is not gone."""
    told: list[Any] = []
    folder, other = tmp_path / "in", tmp_path / "more"
    for made in (folder, other):
        made.mkdir()
    places = (str(folder), str(other), "hdfs://unreachable/in")
    looked = LiveFolders(None, places, SimpleNamespace(on=told.append))  # type: ignore[arg-type]
    looked.look(0)
    folder.rmdir()
    looked.look(9_999)
    assert told == [] and Place.looks == 3
    for now_ms in (10_000, 20_000):
        looked.look(now_ms)
    assert told == [LiveFolderGone(str(folder))]
    [said] = caplog.records
    assert said.levelname == "WARNING" and str(folder) in said.getMessage() and "gone" in said.getMessage()
    folder.mkdir()
    for now_ms in (30_000, 40_000):
        looked.look(now_ms)
    assert told == [LiveFolderGone(str(folder)), LiveFolderIsBack(str(folder))]


def test_object_stores_have_no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in a bucket without files is one that nobody has written to yet: nobody looks."""
    leaves = [
        SimpleNamespace(is_streaming=True, folders=("s3a://bucket/in/", "/mnt/in", "GS://b/x")),
        SimpleNamespace(is_streaming=False, folders=("/mnt/static",)),
        SimpleNamespace(is_streaming=True, folders=("/mnt/in",)),
    ]
    monkeypatch.setattr(live_folders, "sources", lambda frame: leaves)
    looked = LiveFolders.of(object(), None, SimpleNamespace(on=print))  # type: ignore[arg-type]
    assert looked.folders == ("/mnt/in",)
    assert LiveFolders.of(None, None, SimpleNamespace(on=print)).folders == ()  # type: ignore[arg-type]
