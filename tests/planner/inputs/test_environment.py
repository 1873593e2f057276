"""Java, PySpark, the workers' interpreter and the kind of session are checked before anything starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode import SetupError, check_environment
from mixedmode.planner.inputs import environment
from session_options import session_options


def script(path: Path, *lines: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def test_this_environment_is_good() -> None:
    """The tests themselves run in an environment that passes, and the result says what was found."""
    found = check_environment()

    assert found.python.startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert environment.java_major(found.java) >= 17
    assert os.path.samefile(found.worker_python, sys.executable)


@pytest.mark.parametrize(("version", "major"), [("17.0.12", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25)])
def test_the_old_way_of_counting_java_is_understood(version: str, major: int) -> None:
    """1.8 is Java 8."""
    assert environment.java_major(version) == major


def test_missing_java_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither JAVA_HOME nor a java on PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SetupError, match=r"Java was not found.*install Java 17 or newer.*JAVA_HOME"):
        environment.check_java()


def test_a_wrong_java_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME goes before PATH, as for Spark, so a wrong one is an error even if PATH has a good java."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))

    with pytest.raises(SetupError, match=r"Java could not be run \(JAVA_HOME = '.*nothing'\)"):
        environment.check_java()


def test_an_old_java_is_refused_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Java 8 names itself 1.8 on its error output."""
    script(tmp_path / "bin" / "java", "echo 'openjdk version \"1.8.0_392\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(SetupError, match=r"Java 1\.8\.0_392 .* is too old, Spark 4 needs 17 or newer"):
        environment.check_java()


def test_the_drivers_own_interpreter_is_good_for_workers() -> None:
    """The usual setting."""
    assert environment.check_worker_python(sys.executable) == sys.executable


def test_a_link_to_the_drivers_interpreter_is_good_for_workers(tmp_path: Path) -> None:
    """Another name of the same installation is the same environment."""
    wrapper = script(tmp_path / "wrapped", f'exec "{sys.executable}" "$@"')

    assert environment.check_worker_python(str(wrapper)) == str(wrapper)


def test_another_installation_is_refused_with_how_to_set_it(tmp_path: Path) -> None:
    """Same version, other packages: the workers would miss what the driver has."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    other = script(tmp_path / "other", "echo /somewhere/else", f"echo {version}")

    with pytest.raises(SetupError, match=r"/somewhere/else.*set os\.environ\['PYSPARK_PYTHON'\] = ") as caught:
        environment.check_worker_python(str(other))

    assert sys.executable in str(caught.value)


def test_on_a_cluster_another_installation_of_the_same_version_is_accepted(tmp_path: Path) -> None:
    """Workers elsewhere may have their environment elsewhere; the version must still be the driver's."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    same = script(tmp_path / "same", "echo /somewhere/else", f"echo {version}")
    older = script(tmp_path / "older", "echo /somewhere/else", "echo 2.7")

    assert environment.check_worker_python(str(same), same_environment=False) == str(same)
    assert environment.check_worker_python("./archive/bin/python", same_environment=False) == "./archive/bin/python"
    with pytest.raises(SetupError, match=r"Python 2\.7"):
        environment.check_worker_python(str(older), same_environment=False)


class Session:
    """As much of a session as is asked for the interpreter."""

    def __init__(self, master: str, session_conf: str | None = None, **application: str) -> None:
        self.sparkContext: Any = SimpleNamespace(
            master=master, pythonExec="python3", getConf=lambda: SimpleNamespace(contains=application.__contains__)
        )
        self.conf = SimpleNamespace(get=lambda name, default: session_conf or default)


def test_a_local_session_is_given_the_drivers_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """In local mode workers run the Python of the driver, unless somebody has said which; on a cluster nobody knows
    whether it is there."""
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(environment, "check_worker_python", lambda worker, **_: worker)
    for master, gets_it in (("local", True), ("local[2]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)):
        session: Any = Session(master)
        environment.check_session(session)
        assert (session.sparkContext.pythonExec == sys.executable) is gets_it, master
    for said in (Session("local[2]", "/opt/python"), Session("local[2]", **{"spark.pyspark.python": "/opt/python"})):
        environment.check_session(cast(Any, said))
        assert said.sparkContext.pythonExec == "python3"
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    chosen: Any = Session("local[2]")
    environment.check_session(chosen)
    assert chosen.sparkContext.pythonExec == "python3"


def test_an_interpreter_that_does_not_exist_is_refused() -> None:
    """PYSPARK_PYTHON with a slip in it."""
    with pytest.raises(SetupError, match=r"'pythn3' *, which cannot be started here"):
        environment.check_worker_python("pythn3")


def test_spark_connect_is_refused() -> None:
    """Anything of Spark Connect is named as such, whatever its class."""
    of_connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()

    with pytest.raises(
        SetupError, match="DataFrame belongs to a Spark Connect session, which mixedmode does not support"
    ):
        environment.refuse_connect(of_connect)


def test_a_session_with_another_worker_interpreter_is_refused(spark, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """What counts is what the session would run, not what the environment says now."""
    other = script(tmp_path / "other", "echo /somewhere/else", "echo 3.9")
    with (
        session_options(spark, {"spark.sql.execution.pyspark.python": str(other)}),
        pytest.raises(SetupError, match=r"Python 3\.9, /somewhere/else"),
    ):
        environment.check_session(spark)
    environment.check_session(spark)
