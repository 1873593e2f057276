"""The small examples run as they are, each in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from driver_jvm import DriverJvm

pytestmark = pytest.mark.spark

_OF_THE_MACHINE = re.compile("NativeCodeLoader|Utils: (Your hostname|Set SPARK_LOCAL_IP|Service '.*' could not bind)")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("quickstart.py", "live"),
        ("blue_green.py", "EQUAL to one batch over everything"),
        ("flights_and_weather.py 2", "with_weather: EQUAL to one batch join: 55403 rows"),
        ("merge_by_key.py", "EQUAL to one batch over everything: 70 customers"),
        ("orders_and_payments.py", "EQUAL to one batch over everything: 10000 orders"),
        ("quiet_customers.py", "EQUAL to one batch over everything: 20 alerts"),
        ("test_my_processor.py", "5 passed"),
        ("unique_events.py", "4000 rows, 4000 ids"),
        ("visits_in_pandas.py", "EQUAL to one batch over everything"),
    ],
)
def test_example_runs(command: str, said: str, tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """The script ends well and says what the README promises of it; Spark warns of nothing."""
    script, *arguments = command.split()
    with driver_jvm.warnings() as warnings:
        done = driver_jvm.run(EXAMPLES / script, *arguments, as_users_do=True, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert said in done.stdout
    # What Spark says to everybody about this machine is not about the job.
    assert [line for line in warnings if not _OF_THE_MACHINE.search(line)] == []
