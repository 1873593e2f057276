"""Left semi joins: StreamingLeftSemiJoinSuite."""

from __future__ import annotations

from typing import Any

from ..case import Read, case
from .joins import (
    BOTH,
    INTS,
    ON_LEFT,
    ON_RIGHT,
    PAIRS,
    RANGE,
    SELF,
    WINDOWS_RESTARTED,
    on_windows,
    on_windows_if,
    ranged,
    self_joined,
)

SEMI = "StreamingLeftSemiJoinSuite"


@case(SEMI, "windowed left semi join", modes=BOTH, inputs=INTS, steps=WINDOWS_RESTARTED)
def semi_on_windows(read: Read) -> Any:
    return on_windows(read, "left_semi")


@case(SEMI, "left semi early state exclusion on left", modes=BOTH, inputs=INTS, steps=ON_LEFT)
def semi_with_a_condition_on_the_left(read: Read) -> Any:
    return on_windows_if(read, "left_semi", 4, None)


@case(SEMI, "left semi early state exclusion on right", modes=BOTH, inputs=INTS, steps=ON_RIGHT)
def semi_with_a_condition_on_the_right(read: Read) -> Any:
    return on_windows_if(read, "left_semi", None, 7)


@case(SEMI, "left semi join with watermark range condition", modes=BOTH, inputs=PAIRS, steps=RANGE, history=2)
def semi_with_time_bounds(read: Read) -> Any:
    return ranged(read, "left_semi")


@case(SEMI, "self left semi join", modes=BOTH, **SELF, history=2)
def semi_with_itself(read: Read) -> Any:
    return self_joined(read, "left_semi")


@case(
    SEMI,
    "SPARK-49829 two chained stream-stream left outer joins among three input streams",
    inputs=dict.fromkeys(("one", "two", "three"), "_1 long, _2 int"),
    session={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    steps=[
        {"one": [(20, 1)], "two": [(20, 1)], "three": [(20, 1)]},
        {"one": [(21, 2)], "two": [(21, 2)]},
        {"one": [(22, 3)], "three": [(22, 3)]},
        {"one": [(23, 4)]},
        {"one": [(24, 5)], "two": [(24, 5)], "three": [(24, 5)]},
        {"one": [(100, 6)]},
    ],
)
def outer_joins_of_three_streams(read: Read) -> Any:
    frames = [
        read(name)
        .selectExpr("timestamp_seconds(_1) AS eventTime", f"_2 AS v{number}")
        .withWatermark("eventTime", "0 seconds")
        for number, name in enumerate(("one", "two", "three"), 1)
    ]
    joined = frames[0].join(frames[1], ["eventTime"], "leftOuter").join(frames[2], ["eventTime"], "leftOuter")
    return joined.selectExpr("CAST(eventTime AS long) AS eventTime", "v1", "v2", "v3")
