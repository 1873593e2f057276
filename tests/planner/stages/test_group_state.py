"""applyInPandasWithState: what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode.errors import PlanError
from mixedmode.planner.frames.frame import MixedFrame


def counts(key: Any, frames: Any, state: Any) -> Any:
    yield from frames


async def awaited(key: Any, frames: Any, state: Any) -> Any:
    return []


def test_an_async_function_is_refused(both: MixedFrame) -> None:
    """A call of it makes no frames; a generator does."""
    arguments = ("k string", "n long", "append", "NoTimeout")
    both.groupBy("k").applyInPandasWithState(counts, *arguments)
    with pytest.raises(PlanError, match=r"^func awaited is an async function: a call does not run its body; make it a"):
        both.groupBy("k").applyInPandasWithState(awaited, *arguments)
