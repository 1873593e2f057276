"""The tests' Kafka broker is shared by those who use it, and gone when nobody does, however they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import kafka_broker
import maven_jars
import pytest

#: The interpreter behind this one's environment: the first line of a script takes no path with a space.
PYTHON = Path(sys.executable).resolve()
#: Stands for Java: listens where the broker would, and makes a file of its number.
JAVA = f"""#!{PYTHON}
import os, socket, sys, time
properties = dict(line.strip().split("=", 1) for line in open(sys.argv[-1]) if "=" in line)
host, port = properties["advertised.listeners"].removeprefix("PLAINTEXT://").split(":")
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind((host, int(port)))
open("started-" + str(os.getpid()), "w").close()  # before anybody can see it listen
server.listen()
time.sleep(120)
"""
USER = (
    "import sys, time, pathlib, kafka_broker; mine = kafka_broker.Use(pathlib.Path(sys.argv[1]), []); "
    "print(1, flush=True); "
)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def answers(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as tried:
        return tried.connect_ex((host, int(port))) == 0


def test_a_broker_ends_with_its_last_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes share one broker; it survives the SIGKILL of the one that started it, and ends with the other."""
    java, folder = tmp_path / "home" / "bin" / "java", tmp_path / "kafka"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    environment = {**os.environ, "PYTHONPATH": str(Path(kafka_broker.__file__).parent)}
    command = [sys.executable, "-c", f"{USER}time.sleep(120)", str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None and first.stdout.readline() == b"1\n"
        mine = kafka_broker.Use(folder, [])
        first.send_signal(signal.SIGKILL)
    assert answers(mine.bootstrap) and len(list(folder.glob("started-*"))) == 1
    mine.close()
    wait_for(lambda: not answers(mine.bootstrap))
    wait_for(lambda: not (folder / "data").exists())
    again = kafka_broker.Use(folder, [])
    assert answers(again.bootstrap) and len(list(folder.glob("started-*"))) == 2
    again.close()
    wait_for(lambda: not answers(again.bootstrap))


def test_every_jar_has_coordinates_and_a_checksum() -> None:
    """The lock file names each jar once for each use, by a fixed version and a SHA-256."""
    found = maven_jars.locked(maven_jars.LOCK.read_text())
    assert {jar.use for jar in found} == {"broker", "connector", "delta", "iceberg", "s3a"}
    assert len({(jar.use, jar.group, jar.artifact) for jar in found}) == len(found) > 40
    assert all(len(bytes.fromhex(jar.sha256)) == 32 and jar.version[0].isdigit() for jar in found)


def test_jars_that_are_not_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cache, and without a client, a registry or the right checksums, it says what is missing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))

    def refusal() -> str:
        maven_jars.cached.cache_clear()
        with pytest.raises(maven_jars.NotToBeHad) as raised:
            maven_jars.jars("connector")
        return str(raised.value)

    assert "no Maven client" in refusal()
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho registry gone; exit 1\n")
    maven.chmod(0o755)
    assert "registry gone" in refusal()
    paths = [jar.path for jar in maven_jars.locked(maven_jars.LOCK.read_text())]
    maven.write_text(
        f"#!{PYTHON}\nimport pathlib, sys\nroot = pathlib.Path(sys.argv[sys.argv.index('--file') + 1]).parent\n"
        f"for path in {paths!r}:\n    (root / path).parent.mkdir(exist_ok=True); (root / path).write_text('other')\n"
    )
    assert "checksum" in refusal()
    assert not list((tmp_path / "cache").rglob("*.jar"))
    maven_jars.cached.cache_clear()
