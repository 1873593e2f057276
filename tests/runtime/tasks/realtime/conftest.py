"""What the tests of tasks in Real-Time Mode share."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixedmode.runtime.tasks.realtime.run_folder import RunFolder, run_folder
from pyarrow import fs


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """The folder of a run."""
    made = run_folder(fs.LocalFileSystem(), str(tmp_path), "run")
    made.make()
    return made
