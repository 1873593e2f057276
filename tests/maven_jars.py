"""Jars that tests need and no Python package has: each by its coordinates and checksum, fetched once into a cache.

``jars.lock`` names them.  They come by the machine's own Maven client, without whatever else their descriptions ask
for; in the cache is what had the right checksums.  ``python maven_jars.py`` brings all of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LOCK = Path(__file__).with_name("jars.lock")
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_LONGEST_S = 400
_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <build><plugins><plugin>
    <artifactId>maven-dependency-plugin</artifactId>
    <configuration><artifactItems>{items}</artifactItems></configuration>
  </plugin></plugins></build>
</project>
"""
_ITEM = (
    "<artifactItem><groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId><version>{0.version}</version>"
    "<outputDirectory>{1}/{0.use}</outputDirectory></artifactItem>"
)


class NotToBeHad(Exception):
    """The jars are neither in the cache nor to be fetched; says why."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock file."""

    #: Whose class path it is for: the heading above it.
    use: str
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def path(self) -> str:
        """Its place in the cache."""
        return f"{self.use}/{self.artifact}-{self.version}.jar"


def locked(text: str) -> list[Jar]:
    """What a lock file names: headings in brackets, and ``group:artifact:version sha256``."""
    use, found = "", []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 1:
            use = words[0].strip("[]")
        elif words:
            coordinates, checksum = words
            found.append(Jar(use, *coordinates.split(":"), checksum))
    return found


def jars(use: str) -> list[Path]:
    """The jars under a heading of the lock file.

    Raises:
        NotToBeHad: they are not in the cache, and there is no Maven client, or no registry for it.
    """
    folder = cached(use)
    if isinstance(folder, NotToBeHad):
        raise folder
    return [folder / jar.path for jar in locked(LOCK.read_text()) if jar.use == use]


@cache
def cached(use: str) -> Path | NotToBeHad:
    """The folder of the jars of a use, or why there is none: a registry that does not answer is asked once."""
    wanted = [jar for jar in locked(LOCK.read_text()) if jar.use == use]
    root = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mixedmode-tests"
    folder = root / hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]
    if not folder.exists():
        root.mkdir(parents=True, exist_ok=True)
        try:
            with _alone(root / "fetching"):
                if not folder.exists():
                    _fetch(wanted, folder)
        except NotToBeHad as error:
            return error
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(wanted: list[Jar], folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotToBeHad("there is no Maven client (mvn), and the cache of jars is empty")
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        pom = Path(made, "pom.xml")
        pom.write_text(_POM.format(items="".join(_ITEM.format(jar, made) for jar in wanted)))
        command = [maven, "--quiet", "--batch-mode", "--file", str(pom), _COPY]
        environment = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LONGEST_S)
        except subprocess.TimeoutExpired as error:
            raise NotToBeHad(f"Maven did not bring the jars within {_LONGEST_S} s") from error
        if done.returncode:
            raise NotToBeHad(f"Maven could not bring the jars: {(done.stdout + done.stderr).strip()[:500]}")
        for jar in wanted:
            found = hashlib.sha256(Path(made, jar.path).read_bytes()).hexdigest()
            if found != jar.sha256:
                raise NotToBeHad(f"{jar.path} has the checksum {found}, which is not that of {LOCK.name}")
        pom.unlink()
        Path(made).rename(folder)
        Path(made).mkdir()  # for what removes it


if __name__ == "__main__":
    for heading in dict.fromkeys(jar.use for jar in locked(LOCK.read_text())):
        jars(heading)
