"""What one driver leaves in a JVM that outlives it is nothing to the next one."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver_jvm import KILLED, DriverJvm

pytestmark = [pytest.mark.kill, pytest.mark.slow]  # it is about the tests' own JVM

DRIVER = Path(__file__).parents[1] / "driver_proxies.py"


@pytest.mark.parametrize("as_users_do", [False, True], ids=["forked", "as users do"])
def test_a_dead_drivers_objects_are_not_the_next_ones(driver_jvm: DriverJvm, as_users_do: bool) -> None:
    """The JVM drops its ends of the Python objects of a driver that was killed, and calls those of the next driver."""
    assert driver_jvm.run(DRIVER, "dies", as_users_do=as_users_do).returncode == KILLED
    asked = driver_jvm.run(DRIVER, "asks", as_users_do=as_users_do)
    assert (asked.returncode, asked.stdout) == (0, "called\n" * 9)
