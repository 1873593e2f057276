"""Another job's location is described by what its author called things."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode.runtime.checkpoints.identity import JobIdentity

AGGREGATE: dict[str, Any] = {
    "operator": "agg",
    "uid": "keyed-0",
    "key": ["customer string", "window struct<start:timestamp,end:timestamp>"],
    "aggregates": ["spent", "orders"],
    "output mode": "append",
    "windows": ["Column<'window(ts, 1 hour, 1 hour, 0 second)'>"],
}
PROCESSOR: dict[str, Any] = {
    "operator": "transformWithState",
    "uid": "keyed-0",
    "processor": "Rotations",
    "key": ["customer string"],
    "time mode": "none",
}


def changed(described: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The description with other values; None takes one away."""
    return {name: value for name, value in {**described, **values}.items() if value is not None}


def test_the_same_job_has_no_differences() -> None:
    """Whatever its processor's class is called now."""
    assert JobIdentity("id", (AGGREGATE,), 128).differences((AGGREGATE,)) == []
    assert JobIdentity("id", (PROCESSOR,), 128).differences((changed(PROCESSOR, processor="Turns"),)) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"windows": None}, "its windows are window(ts, 1 hour, 1 hour, 0 second), this job has none"),
        ({"aggregates": ["n"]}, "its aggregates are spent, orders, this job's are n"),
        ({"output mode": "update"}, "its output mode is append, this job's is update"),
        ({"key": ["customer long"]}, "its key is customer string, window struct<start:timestamp,end:timestamp>, "),
    ],
)
def test_a_difference_in_words(values: dict[str, Any], words: str) -> None:
    """What differs is named with both values, without Python's way to print them."""
    (difference,) = JobIdentity("id", (AGGREGATE,), 128).differences((changed(AGGREGATE, **values),))
    assert difference.startswith(words)


def test_what_is_new_in_this_job() -> None:
    """A part that only this job has is named as such."""
    mine = changed(AGGREGATE, windows=None)
    (difference,) = JobIdentity("id", (mine,), 128).differences((AGGREGATE,))
    assert difference == "it has no windows, this job's are window(ts, 1 hour, 1 hour, 0 second)"


def test_another_kind_of_operator() -> None:
    """Only what both kinds have is compared."""
    differences = JobIdentity("id", (AGGREGATE,), 128).differences((PROCESSOR,))
    assert differences == [
        "its key is customer string, window struct<start:timestamp,end:timestamp>, this job's is customer string",
        "its operator is agg, this job's is transformWithState",
    ]


def test_a_job_is_called_by_its_query_and_its_keys() -> None:
    """Without a queryName by its operator and keys alone."""
    assert str(JobIdentity("id", (PROCESSOR,), 128, "rotations")) == (
        "query 'rotations', transformWithState by customer string"
    )
    assert str(JobIdentity("id", (PROCESSOR,), 128)) == "transformWithState by customer string"
