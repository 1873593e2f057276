"""The folders of a job."""

from __future__ import annotations

import pytest
from mixedmode.errors import PlanError
from mixedmode.planner.plans.output import folders


def test_a_table_in_memory_does_not_go_on_from_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless each checkpoint brings all of its rows; other formats keep theirs."""
    monkeypatch.setattr(folders, "has_checkpoint", lambda location: location == "used")
    for mode in ("append", "update"):
        with pytest.raises(PlanError, match=f"memory in outputMode {mode} cannot go on from the checkpoint in 'used'"):
            folders.check_goes_on("memory", mode, "used")
    for taken in (("memory", "complete", "used"), ("memory", "append", "new"), ("memory", "append", None)):
        folders.check_goes_on(*taken)
    folders.check_goes_on("noop", "append", "used")
