"""Requests of users are checked before they reach the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.errors import CheckpointError
from mixedmode.runtime.checkpoints.savepoints.queue import SavepointRequest
from mixedmode.runtime.driver.run.user_requests import UserRequests


def test_a_savepoint_among_the_jobs_own_files_is_refused(tmp_path: Path) -> None:
    """The clean-up of checkpoints would remove it; the run hears nothing of it."""
    job = SimpleNamespace(keeps_state=True, checkpoint_location=str(tmp_path))
    with pytest.raises(CheckpointError, match=r"is among the files of checkpointLocation"):
        UserRequests(cast(Any, job), cast(Any, None)).savepoint(SavepointRequest(f"{tmp_path}/mixedmode/state/sp"))
    assert list(tmp_path.iterdir()) == []
