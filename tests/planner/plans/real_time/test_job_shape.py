"""What start() refuses of a job with trigger(realTime=…), by facts alone: the reason and the nearest way that works."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mixedmode import MixedModeError, OptionError, PlanError
from mixedmode.planner.plans.real_time.job_shape import RealTimeFacts, check_shape

GOOD = RealTimeFacts(
    sources=(("live", "kafka"),),
    topic_option="subscribe",
    topics=("orders",),
    stages=(("totals", "transformWithState"),),
)


def test_kafka_to_kafka_with_one_stage_is_taken() -> None:
    check_shape(GOOD)


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({"runtime_mode": "batch"}, ["execution.runtime-mode = batch", "use mixed"]),
        ({"sources": ()}, ["the job has none", "Kafka topic"]),
        ({"sources": (("landing", "filesource[x]"),)}, ["landing is filesource[x]", "topic", "processingTime"]),
        ({"sources": (("a", "kafka"), ("b", "kafka"))}, ["the job has 2 (a, b)", "processingTime"]),
        ({"topic_option": "subscribepattern", "topics": ()}, ["subscribepattern", "Subscribe to one topic"]),
        ({"topics": ("a", "b")}, ["(a, b)", "Subscribe to one topic"]),
        ({"observed": True}, ["observe", "processingTime"]),
        ({"stages": ()}, ["the job has none", "stock Spark"]),
        ({"stages": (("a", "agg"), ("b", "agg"))}, ["the job has 2 (a, b)", "two jobs"]),
        ({"operator_refusal": "with initial state"}, ["transformWithState with initial state", "processingTime"]),
        ({"sink": "parquet"}, ["the output is parquet", "format kafka"]),
        ({"output_mode": "append"}, ["needs outputMode('update'), got 'append'", "Use update"]),
    ],
)
def test_others_are_refused_with_the_reason_and_a_way_that_works(change: dict[str, Any], texts: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        check_shape(replace(GOOD, **change))
    assert caught.value.code == "MIXEDMODE_NOT_SUPPORTED"
    message = str(caught.value)
    assert message.startswith("trigger(realTime=…) ")
    assert [text for text in texts if text not in message] == []


def test_an_option_that_means_nothing_there_is_a_conflict() -> None:
    with pytest.raises(OptionError, match=r"some\.option does not go with trigger.*leave it out") as caught:
        check_shape(replace(GOOD, options=(("some.option", "leave it out"),)))
    assert caught.value.code == "MIXEDMODE_OPTION_CONFLICT"
    assert isinstance(caught.value, MixedModeError)
