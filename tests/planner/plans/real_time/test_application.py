"""Spark's version and the application's settings for Real-Time Mode, and the line for spark-submit."""

from __future__ import annotations

import pytest
from mixedmode import SetupError
from mixedmode.planner.plans.real_time.application import check_application

WAIT = "spark.shuffle.streaming.networkBufferMaxWaitTimeMs"


def test_an_application_with_all_settings_is_taken() -> None:
    check_application("4.3.0", {WAIT: "5", "spark.speculation": "false"}.get)
    check_application("5.0.0-SNAPSHOT", {WAIT: "20"}.get)


@pytest.mark.parametrize("version", ["4.1.2", "4.2.0", "3.5.1"])
def test_an_older_spark_is_refused(version: str) -> None:
    with pytest.raises(SetupError, match=rf"needs Spark 4\.3 or newer, this is {version}.*processingTime") as caught:
        check_application(version, {WAIT: "5"}.get)
    assert caught.value.code == "MIXEDMODE_REAL_TIME_SETTINGS"


def test_a_missing_setting_is_named_with_the_line() -> None:
    with pytest.raises(SetupError) as caught:
        check_application("4.3.0", {}.get)
    assert f"{WAIT} is not set" in str(caught.value)
    assert f"spark-submit --conf {WAIT}=5 …" in str(caught.value)
    assert caught.value.code == "MIXEDMODE_REAL_TIME_SETTINGS"


def test_all_that_must_change_is_in_one_line() -> None:
    settings = {"spark.dynamicAllocation.enabled": "true", "spark.speculation": "TRUE"}
    with pytest.raises(SetupError) as caught:
        check_application("4.3.0", settings.get)
    message = str(caught.value)
    assert "spark.dynamicAllocation.enabled is true (executors would come and go" in message
    assert "spark.speculation is true (Spark would start a second copy" in message
    line = f"--conf spark.dynamicAllocation.enabled=false --conf spark.speculation=false --conf {WAIT}=5"
    assert line in message
