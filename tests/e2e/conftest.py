"""End-to-end tests: the public API on small data, with stock Spark as the oracle."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

# Shared with the driver scripts of the kill tests, which find it beside them.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.extend(str(room) for room in Path(__file__).parent.iterdir() if room.is_dir())

import refusing
import support
from driver_jvm import DriverJvm

# Spark's workers cannot import test modules: what they need of these travels with the pickle.
cloudpickle.register_pickle_by_value(support)
cloudpickle.register_pickle_by_value(refusing)


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[support.World]:
    """Empty folders for one job; queries that are still running are stopped at the end."""
    made = support.World(spark, tmp_path)
    yield made
    made.stop_all()


@pytest.fixture(scope="module")
def worlds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], support.World]]:
    """Makes worlds that several tests of a module look at."""
    made: list[support.World] = []

    def make() -> support.World:
        made.append(support.World(spark, tmp_path_factory.mktemp("world")))
        return made[-1]

    yield make
    for one in made:
        one.stop_all()


@pytest.fixture(scope="session")
def driver_jvm(tmp_path_factory: pytest.TempPathFactory, more_jars: str) -> Iterator[DriverJvm]:
    """A JVM for drivers in processes of their own, one after the other."""
    made = DriverJvm(tmp_path_factory.mktemp("driver-jvm"), more_jars)
    yield made
    made.close()


@pytest.fixture(scope="session")
def second_driver_jvm(tmp_path_factory: pytest.TempPathFactory, more_jars: str) -> Iterator[DriverJvm]:
    """A JVM for drivers that run at the same time as those of :func:`driver_jvm`."""
    made = DriverJvm(tmp_path_factory.mktemp("second-driver-jvm"), more_jars)
    yield made
    made.close()
