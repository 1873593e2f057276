"""A JVM for drivers in processes of their own: started once, so that each driver finds it warm.

The JVM of a driver that is killed reads the end of its input and exits: Spark's context stops, its queries and its
Python workers end.  Here the JVM is the child of another process and lives on, and what its exit would have ended is
ended in it.  What a driver has in memory dies with the driver, as ever.  (Drivers whose JVM is killed too, or that
start it themselves, are in ``tests/chaos``.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forked_driver
import intervals
import own_proxies
import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
from spark_home import CLUSTER_FOLDER, spark_home

KILLED = -signal.SIGKILL
#: A driver that has not ended by itself within this time will not.
_LONGEST_S = 500


class DriverJvm:
    """The JVM of one driver after the other.

    Args:
        folder: takes its log, what drivers print, and what executors of a cluster write.
        jars: beside Spark's own, as ``spark.jars`` takes them.
    """

    def __init__(self, folder: Path, jars: str = "") -> None:
        self._folder = folder
        self._intervals = intervals.Intervals()
        self._log = folder / "jvm.log"
        home = spark_home(Path(__file__).parents[2] / "build")
        (folder / CLUSTER_FOLDER).mkdir()
        conf = SparkConf(loadDefaults=False).set("spark.driver.memory", "1g").set("spark.ui.enabled", "false")
        conf.set("spark.python.daemon.module", "warm_daemon")
        conf.set("spark.mixedmode.execution.start-workers", "false")  # they have what they need
        # Of drivers that set none themselves, as examples.
        conf.set("spark.sql.streaming.pollingDelay", os.environ.get("MIXEDMODE_POLLING_DELAY", "25ms"))
        if jars:
            conf.set("spark.jars", jars)
        with open(self._log, "w", encoding="utf-8") as log, pytest.MonkeyPatch.context() as patched:
            patched.setenv("SPARK_HOME", str(home))
            patched.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)  # its workers' too
            self._gateway: Any = launch_gateway(conf, {"stdout": log, "stderr": log, "cwd": folder})

    def run(
        self,
        script: Path,
        *arguments: object,
        as_users_do: bool = False,
        when_over: Callable[[], None] = lambda: None,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a driver to its end, which is an ordinary one or a SIGKILL.

        The job of a folder has another interval of checkpoints in each life.

        Args:
            script: the driver's.
            arguments: of the script.
            as_users_do: with an interpreter that has imported nothing.
            when_over: is called when it has ended, before what it has left behind in the JVM is.
            environment: what is different in the driver's.
        """
        words = [*map(str, arguments)]
        interval = self._intervals.next(script.name, *words[:1])
        around = self._environment({intervals.VARIABLE: interval, **environment})
        try:
            if as_users_do:
                command = _command(script, words)
                done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=_LONGEST_S)
            else:
                done = forked_driver.run(script, words, around, self._folder, _LONGEST_S)
        finally:
            when_over()
            self.settle()
        said = f"interval {interval}\n{done.stdout}\n{done.stderr[-6000:]}"
        assert done.returncode in (0, KILLED), f"exit code {done.returncode}\n{said}\n{self._log.read_text()[-4000:]}"
        return done

    def start(
        self, script: Path, *arguments: object, environment: dict[str, str], own_jvm: bool = False, **pipes: Any
    ) -> subprocess.Popen[str]:
        """Start a driver that is told what to do as it runs; :meth:`settle` is to be called when it has ended.

        Args:
            script: the driver's.
            arguments: of the script.
            environment: what is different in the driver's.
            own_jvm: it has a JVM of its own.
            pipes: what :class:`subprocess.Popen` takes for its input and output.
        """
        words = [*map(str, arguments)]
        environment = {intervals.VARIABLE: self._intervals.next(script.name, *words[:1]), **environment}
        around = {**os.environ, **environment} if own_jvm else self._environment(environment)
        return subprocess.Popen(_command(script, words), env=around, text=True, **pipes)

    @contextmanager
    def warnings(self) -> Iterator[list[str]]:
        """What the JVM warns of meanwhile, for a driver that does not set the level of its log."""
        levels = self._gateway.jvm.org.apache.logging.log4j.Level
        self._gateway.jvm.org.apache.logging.log4j.core.config.Configurator.setRootLevel(levels.WARN)
        found: list[str] = []
        before = len(self._log.read_text())
        yield found
        found += [line for line in self._log.read_text()[before:].splitlines() if " WARN " in line or " ERROR " in line]

    def _environment(self, different: dict[str, str]) -> dict[str, str]:
        parameters = self._gateway.gateway_parameters
        here = {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
        return {**os.environ, **here, **different}

    def settle(self) -> None:
        """End what a driver has left behind, as the exit of its JVM would have."""
        sessions = self._gateway.jvm.org.apache.spark.sql.classic.SparkSession
        default = sessions.getDefaultSession()
        if default.isDefined():
            session = default.get()
            self._stop_queries(session)
            session.stop()
            self._stop_queries(session)  # one that was just being started
            sessions.clearDefaultSession()

    def _stop_queries(self, session: Any) -> None:
        # Not py4j's iteration: it ends by a Java exception, which PySpark looks up in the JVM of the tests' session,
        # where the same number may stand for another one.
        queries = session.sharedState().activeStreamingQueries().elements()
        while queries.hasMoreElements():
            queries.nextElement().stop()

    def close(self) -> None:
        """End the JVM."""
        self._gateway.shutdown()
        self._gateway.proc.stdin.close()
        self._gateway.proc.wait(60)


def _command(script: Path, arguments: Iterable[str]) -> list[str]:
    return [sys.executable, own_proxies.__file__, str(script), *arguments]
