"""Task slots that a query in Real-Time Mode holds: partitions, shards and one to spare."""

from __future__ import annotations

import pytest
from mixedmode import SetupError
from mixedmode.planner.plans.real_time.slots import Slots


@pytest.mark.parametrize(("available", "enough"), [(5, True), (4, False), (64, True)])
def test_partitions_and_shards_and_one_to_spare_are_needed(available: int, enough: bool) -> None:
    slots = Slots(partitions=2, shards=2, available=available)
    assert slots.needed == 5
    assert slots.are_enough == enough
    if enough:
        slots.check()


def test_a_refusal_has_the_numbers_and_three_ways_out() -> None:
    with pytest.raises(SetupError) as caught:
        Slots(partitions=3, shards=8, available=8).check()
    assert caught.value.code == "MIXEDMODE_REAL_TIME_SLOTS"
    message = str(caught.value)
    for text in (
        "needs 12 task slots and the application has 8 (3 partitions of the source + 8 shards + 1 to spare)",
        "4 more cores",
        "set pipeline.parallelism to 4 or less",
        "execution.realtime.fallback = micro-batch",
    ):
        assert text in message


def test_no_number_of_shards_is_named_where_partitions_alone_are_too_many() -> None:
    with pytest.raises(SetupError) as caught:
        Slots(partitions=8, shards=1, available=8).check()
    assert "2 more cores" in str(caught.value)
    assert "pipeline.parallelism" not in str(caught.value)


def test_plan_and_warning_have_the_numbers() -> None:
    slots = Slots(partitions=2, shards=4, available=4)
    assert slots.text == "7 of 4: 2 for the source's partitions, 4 for the shards, 1 to spare"
    assert "needs 7 task slots and the application has 4" in slots.warning
    assert "runs as micro-batches (execution.realtime.fallback = micro-batch)" in slots.warning
