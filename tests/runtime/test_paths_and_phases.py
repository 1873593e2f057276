"""Arguments of the query's handle and of state_reader, without a query."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from mixedmode import CheckpointError, OptionError, state_reader
from mixedmode.planner.options.file import option_text
from mixedmode.runtime.query import MixedQuery
from mixedmode.runtime.storage.filesystem import path_text


class Place(os.PathLike[str]):
    """A path that is no ``pathlib.Path``, and whose text for people is another."""

    def __fspath__(self) -> str:
        return "/sp/7"


@pytest.mark.parametrize("path", ["/sp/7", Path("/sp/7"), Place()])
def test_any_path_like_is_a_path(path: Any) -> None:
    """As an argument and as an option's value."""
    assert path_text("path", path) == "/sp/7" == option_text(path)


def test_state_reader_takes_a_path(tmp_path: Path) -> None:
    """It says what is not there as for a string."""
    with pytest.raises(CheckpointError, match="is not a checkpointLocation of mixedmode: it does not exist"):
        state_reader(tmp_path / "none")


@pytest.mark.parametrize("path", [None, 5, b"sp", "", "/a\0b"])
def test_what_is_no_path_is_refused_by_name(path: Any) -> None:
    """Before anything is asked of the query."""
    query = object.__new__(MixedQuery)
    for what, call in (
        ("state_reader", state_reader),
        (r"savepoint\(\)", query.savepoint),
        (r"stopWithSavepoint\(\)", query.stopWithSavepoint),
    ):
        shown = re.escape(repr(path))
        with pytest.raises(OptionError, match=rf"path of {what} must be a path, as str or os.PathLike, got {shown}"):
            call(path)


@pytest.mark.parametrize("phase", ["Live", "", None, 3])
def test_an_unknown_phase_cannot_be_waited_for(phase: Any) -> None:
    """The error lists those that there are."""
    query = object.__new__(MixedQuery)
    with pytest.raises(
        ValueError,
        match=rf"phase of wait_for\(\) is {phase!r}; the phases are recovery, backlog, history, catch-up, switch, live,"
        " finish",
    ):
        query.wait_for(phase, 3)
    assert query.wait_for("recovery", 3), "each run begins in it"
