"""The tests' home of Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from spark_home import CLUSTER_FOLDER, spark_home


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_links_lead_in_no_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who walks through the folder in which the home lies comes to an end; a cluster's files go to a folder of its
    JVM's own."""
    monkeypatch.chdir(tmp_path)
    home = spark_home(tmp_path / "build")
    assert not (home / "work").exists()
    here = tmp_path.resolve()
    folders = [path.resolve() for path in home.iterdir() if path.is_symlink() and path.is_dir()]
    assert folders and not any(here.is_relative_to(folder) for folder in folders)
    (tmp_path / CLUSTER_FOLDER).mkdir()
    assert (home / "work").resolve() == here / CLUSTER_FOLDER
