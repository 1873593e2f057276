"""What all tests share: one Spark session, one time zone, one Hypothesis profile, and who may use Spark.

The session is started by the first test that asks for it, so that tests without Spark stay fast: ``-m "not spark"``
leaves out all that need a JVM.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before any JVM or Python worker starts: all three must agree on the zone and on the interpreter.
os.environ["TZ"] = "UTC"
time.tzset()
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Drivers, daemons and workers are processes by the hundred: without compiled files each would compile what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Else each of them looks for plugins in whatever is on its path, which in a worker is the jar that is most of Spark.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"

#: How the tests' JVMs differ from those of users: they only take less time.
JAVA_OPTIONS = (
    # Most live for seconds only: optimised code and a parallel collector come too late for them.
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:-UsePerfData"
    # Those that live long compile more than fits into what such a JVM takes for it; it would sweep and compile again.
    " -XX:ReservedCodeCacheSize=240m"
    # Hadoop starts a process for each chmod and readlink, several for each file of Spark's log.
    " -Djdk.lang.Process.launchMechanism=VFORK"
)

# State and checkpoints are forced to the disk, file by file, and tests would wait for little else.  What they prove by
# killing processes does not depend on it: only a machine that fails forgets what is in memory.
_IN_MEMORY, _ENOUGH_BYTES = "/dev/shm", 4 << 30
_has_room = os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free >= _ENOUGH_BYTES
if "TMPDIR" not in os.environ and _has_room:
    os.environ["TMPDIR"] = tempfile.tempdir = _IN_MEMORY

# What tests of several folders share lies beside this file.
sys.path.append(str(Path(__file__).parent))
import fewer_examples  # noqa: E402
import jvm_archive  # noqa: E402
import kafka_broker  # noqa: E402
import kill_lane  # noqa: E402
import local_files  # noqa: E402
import maven_jars  # noqa: E402
import s3_server  # noqa: E402
from left_out import MARKERS, LeftOut  # noqa: E402
from spark_home import spark_home  # noqa: E402

os.environ.setdefault("JDK_JAVA_OPTIONS", f"{JAVA_OPTIONS} {jvm_archive.java_options()}")
# Another Spark of the machine, and its settings, are not the one that is tested.
os.environ["SPARK_HOME"] = str(spark_home(Path(__file__).parents[1] / "build"))
os.environ.pop("SPARK_CONF_DIR", None)

#: Delta and Iceberg go by Spark's version; their tests have an environment with one that both know.
_IS_OF_LAKE = any(
    f"_{'.'.join(version('pyspark').split('.')[:2])}_" in jar.artifact
    for jar in maven_jars.locked(maven_jars.LOCK.read_text())
)
collect_ignore = [] if _IS_OF_LAKE else ["lake"]

#: So many tests of Spark start so many JVMs that an archive of their classes pays.
_MANY = 200
_ARCHIVER = pytest.StashKey[subprocess.Popen[bytes]]()

#: Whoever uses one of these fixtures, by whatever way, has the marker "spark"; from all others Spark is hidden.
_SPARK_FIXTURES = {"spark", "driver_jvm"}
#: Whoever uses this one has the marker "kafka"; with the variable such tests may not be skipped.
_KAFKA_FIXTURE, _KAFKA_REQUIRED = "kafka", "MIXEDMODE_TESTS_NEED_KAFKA"
#: The same for "s3".
_S3_FIXTURE, _S3_REQUIRED = "s3", "MIXEDMODE_TESTS_NEED_S3"
#: Jars that the tests' JVMs have beside Spark's own if there are tests with the marker.
_JARS = {"kafka": "connector", "s3": "s3a"}

# Time limits per example only measure how busy the machine is.
# Other examples in each run, in CI too: make test and make test-rest share them out.
settings.register_profile("mixedmode", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mixedmode")


@pytest.fixture(scope="session")
def more_jars(request: pytest.FixtureRequest) -> str:
    """What the marked tests of the run need, as ``spark.jars`` takes it; nothing where it cannot be had."""
    found: list[Path] = []
    for marker, use in _JARS.items():
        if any(item.get_closest_marker(marker) for item in request.session.items):
            with suppress(maven_jars.NotToBeHad):
                found += maven_jars.jars(use)
    return ",".join(map(str, found))


@pytest.fixture(scope="session")
def object_store() -> Iterator[s3_server.S3Server]:
    """A local S3."""
    server = s3_server.S3Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def s3(request: pytest.FixtureRequest) -> s3_server.S3Server:
    """A local S3, and Spark's client for it; without that the test is skipped."""
    try:
        maven_jars.jars(_JARS["s3"])
    except maven_jars.NotToBeHad as error:
        if os.environ.get(_S3_REQUIRED):
            pytest.fail(f"{_S3_REQUIRED} is set, but {error}")
        pytest.skip(f"no client for S3: {error}")
    found: s3_server.S3Server = request.getfixturevalue("object_store")
    return found


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_broker.Broker]:
    """A Kafka broker, one for all processes of the run; without jars the test is skipped."""
    try:
        jars = maven_jars.jars("broker")
    except maven_jars.NotToBeHad as error:
        if os.environ.get(_KAFKA_REQUIRED):
            pytest.fail(f"{_KAFKA_REQUIRED} is set, but {error}")
        pytest.skip(f"no Kafka broker: {error}")
    folder = tmp_path_factory.getbasetemp()
    use = kafka_broker.Use((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "kafka", jars)
    yield kafka_broker.Broker(use.bootstrap)
    use.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, more_jars: str) -> Iterator[SparkSession]:
    """A small local session for the whole run; a test that changes its options must set them back."""
    from mixedmode.runtime.scan.engines import FRESH_JOBS
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.jars", more_jars) if more_jars else SparkSession.builder
    session = (
        builder.master("local[2]")
        .appName("mixedmode-tests")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.mixedmode.execution.start-workers", "false")  # one session for all: it saves nothing
        # A query without rows looks for some a hundred times a second, which keeps a sixth of a core busy.
        .config("spark.sql.streaming.pollingDelay", os.environ.get("MIXEDMODE_POLLING_DELAY", "25ms"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    for _ in range(FRESH_JOBS):  # who reads small histories must not depend on the order of tests
        session.range(1).collect()
    local_files.write_without_processes(session)
    yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses Spark by a fixture, before pytest looks at ``-m``."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if not _SPARK_FIXTURES.isdisjoint(fixtures):
            item.add_marker("spark")
        if _KAFKA_FIXTURE in fixtures:
            item.add_marker("kafka")
        if _S3_FIXTURE in fixtures:
            item.add_marker("s3")
    if over := fewer_examples.split(items, MARKERS):
        items[:] = [item for item in items if item not in over]
        config.hook.pytest_deselected(items=over)


def pytest_collection_finish(session: pytest.Session) -> None:
    """In a run of many tests, let the first of its processes have the archive made while they run.

    Python's collector need not look at the tests themselves: they are a million objects that stay.
    """
    gc.collect()
    gc.freeze()
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    of_spark = sum(item.get_closest_marker("spark") is not None for item in session.items)
    if is_first and of_spark > _MANY and not (session.config.option.collectonly or jvm_archive.is_made()):
        session.config.stash[_ARCHIVER] = jvm_archive.begin()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LeftOut(config), "left-out")
    if os.environ.get(kill_lane.VARIABLE):
        config.pluginmanager.register(kill_lane, "kill-lane")


def pytest_unconfigure(config: pytest.Config) -> None:
    if archiver := config.stash.get(_ARCHIVER, None):
        jvm_archive.end(archiver)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _only_its_own_spark(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _only_its_own_spark(item):
        return (yield)


@contextmanager
def _only_its_own_spark(item: pytest.Item) -> Iterator[None]:
    """A test without the marker finds no session, not even one of another test, and can start no JVM anywhere."""
    if item.get_closest_marker("spark"):
        yield
        return
    with pytest.MonkeyPatch.context() as hidden:
        hidden.setenv("SPARK_HOME", "/no JVM for a test without the marker 'spark'")
        if context := sys.modules.get("pyspark.core.context"):
            for name in ("_active_spark_context", "_gateway", "_jvm"):
                hidden.setattr(context.SparkContext, name, None)
        if session := sys.modules.get("pyspark.sql.session"):
            hidden.setattr(session.SparkSession, "_instantiatedSession", None)
        yield
