"""A way that Spark's plan has refused is not planned again in each epoch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.runtime.jobs.prepared_jobs import PreparedJobs


@pytest.mark.parametrize(("plan", "asked"), [(None, 1), ("a job", 3)])
def test_a_refused_way_is_planned_once(monkeypatch: pytest.MonkeyPatch, plan: Any, asked: int) -> None:
    """Rows that look alike are planned alike; what cannot be made once for all epochs is made anew in each."""
    nothing, planned = cast(Any, None), list[Any]()
    way = cast(Any, SimpleNamespace(depends_on_plan=True))

    def anew() -> Any:
        planned.append(plan)
        return plan

    templates = PreparedJobs(nothing, nothing)
    monkeypatch.setattr(templates, "_key", lambda way, frame, task: frame)
    monkeypatch.setattr(templates, "_template", lambda key, way, make, checks: None)
    for _ in range(3):
        assert templates.job(way, cast(Any, "alike"), nothing, nothing, anew, checks=True) == plan
    assert len(planned) == asked
    templates.job(way, cast(Any, "others"), nothing, nothing, anew, checks=True)
    assert len(planned) == asked + 1
