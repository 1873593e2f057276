"""The small examples run as they are, each in a process of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from driver_jvm import DriverJvm

if TYPE_CHECKING:
    from kafka_broker import Broker
    from pyspark.sql import SparkSession


_OF_THE_MACHINE = re.compile("NativeCodeLoader|Utils: (Your hostname|Set SPARK_LOCAL_IP|Service '.*' could not bind)")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("quickstart.py", "live"),
        pytest.param("blue_green.py", "EQUAL to one batch over everything", marks=pytest.mark.slow),
        pytest.param(
            "flights_and_weather.py 2", "with_weather: EQUAL to one batch join: 55403 rows", marks=pytest.mark.slow
        ),
        pytest.param("merge_by_key.py", "EQUAL to one batch over everything: 70 customers", marks=pytest.mark.slow),
        pytest.param(
            "orders_and_payments.py", "EQUAL to one batch over everything: 10000 orders", marks=pytest.mark.slow
        ),
        pytest.param("quiet_customers.py", "EQUAL to one batch over everything: 20 alerts", marks=pytest.mark.slow),
        pytest.param("statements_in_sql.py", "EQUAL to the same statements over tables", marks=pytest.mark.slow),
        pytest.param("test_my_processor.py", "5 passed", marks=pytest.mark.slow),
        pytest.param("unique_events.py", "EQUAL to one batch over everything: 65 windows", marks=pytest.mark.slow),
        pytest.param("visits_in_pandas.py", "EQUAL to one batch over everything", marks=pytest.mark.slow),
    ],
)
def test_example_runs(command: str, said: str, tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """The script ends well and says what the README promises of it; Spark warns of nothing.

    One of them runs with an interpreter that has imported nothing.
    """
    script, *arguments = command.split()
    as_users_do = script == "quickstart.py"
    with driver_jvm.warnings() as warnings:
        done = driver_jvm.run(EXAMPLES / script, *arguments, as_users_do=as_users_do, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert said in done.stdout
    # What Spark says to everybody about this machine is not about the job.
    assert [line for line in warnings if not _OF_THE_MACHINE.search(line)] == []


@pytest.mark.kafka
def test_totals_go_from_topic_to_topic(
    spark: SparkSession, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example with Kafka gives each customer's total once, over what a lake has, what waits and what comes."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import totals_in_kafka

    assert totals_in_kafka.run(spark, kafka.bootstrap, str(tmp_path))
