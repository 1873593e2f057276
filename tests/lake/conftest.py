"""Tests with Delta and Iceberg tables, in an environment of their own (``make test-delta``): see CONTRIBUTING.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

# What the end-to-end tests share is of use here, too.
sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).parent))

import kafka_support
import lake_support
import maven_jars
import support
from driver_jvm import DriverJvm
from pyspark import cloudpickle

_REQUIRED = "MIXEDMODE_TESTS_NEED_TABLES"

#: The files that take longest come first, so that none of them is left to one process at the end.
_LONG = ("test_lake_kill.py", "test_lake_sinks.py")

# Spark's workers cannot import test modules: what they need of these travels with the pickle.
for _module in (support, kafka_support):
    cloudpickle.register_pickle_by_value(_module)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("tables")
    items.sort(key=lambda item: item.path.name not in _LONG)


@pytest.fixture(scope="session")
def lake_jars() -> str:
    """Delta's and Iceberg's jars, as ``spark.jars`` takes them; without them the test is skipped."""
    try:
        return lake_support.jars()
    except maven_jars.NotToBeHad as error:
        if os.environ.get(_REQUIRED):
            pytest.fail(f"{_REQUIRED} is set, but {error}")
        pytest.skip(f"no Delta, no Iceberg: {error}")


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all tables of the catalogs."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def spark(lake_jars: str, lake: Path) -> Iterator[SparkSession]:
    """A session with both kinds of tables."""
    session = support.driver_session(settings={**lake_support.settings(lake), "spark.jars": lake_jars})
    session.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
    yield session
    session.stop()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[support.World]:
    """Empty folders for one job; queries that are still running are stopped at the end."""
    made = support.World(spark, tmp_path)
    yield made
    made.stop_all()


@pytest.fixture(scope="session")
def driver_jvm(tmp_path_factory: pytest.TempPathFactory, lake_jars: str) -> Iterator[DriverJvm]:
    """A JVM for drivers in processes of their own, one after the other."""
    made = DriverJvm(tmp_path_factory.mktemp("driver-jvm"), lake_jars)
    yield made
    made.close()
