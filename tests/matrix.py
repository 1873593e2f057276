"""Runs the smoke tests with each version of PySpark and of Python that the package allows, and prints a table of it.

``python tests/matrix.py`` (or ``make test-matrix``).  Pythons are those of pyenv, and those on the path as
``python3.10`` and so on; one that is not there is told as such.  Environments stay below ``build/matrix`` for the next
time, one for each Python, and one folder for each PySpark, since that is most of it and the same for all.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "matrix"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
SPARKS = ("4.1", "4.2", "4.3")
#: What the smoke tests and ``conftest.py`` import, of all that tests need.
TOOLS = ("fsspec", "hypothesis", "pytest", "pytest-timeout")
_LONGEST_S = 900


def main() -> int:
    """Run them all; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=PYTHONS, metavar="VERSION")
    parser.add_argument("--spark", nargs="+", default=SPARKS, metavar="VERSION")
    asked = parser.parse_args()
    found: dict[tuple[str, str], str] = {}
    for python in asked.python:
        for spark in asked.spark:
            found[spark, python] = _tried(python, spark)
            print(f"pyspark {spark}, Python {python}: {found[spark, python]}", flush=True)
    print(f"| pyspark | {' | '.join(f'Python {python}' for python in asked.python)} |")
    print("|---|" + "---|" * len(asked.python))
    for spark in asked.spark:
        print(f"| {spark} | {' | '.join(found[spark, python] for python in asked.python)} |")
    return 0 if set(found.values()) <= {"passed", "not here"} and "passed" in found.values() else 1


def _tried(python: str, spark: str) -> str:
    interpreter = _interpreter(python)
    if interpreter is None:
        return "not here"
    path = os.pathsep.join([str(_package()), str(_pyspark(spark))])
    command = [str(_environment(python, interpreter)), "-m", "pytest", "-q", "-m", "smoke", "tests/e2e"]
    environment = {**os.environ, "PYTHONPATH": path}
    log = HOME / f"py{python}-spark{spark}.log"
    with open(log, "w") as said:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said, start_new_session=True)
        try:
            code = process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            return f"not done in {_LONGEST_S} s ({log.relative_to(ROOT)})"
        finally:  # with what it has started
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return "passed" if code == 0 else f"failed ({log.relative_to(ROOT)})"


def _interpreter(python: str) -> str | None:
    """The newest one of pyenv, or that on the path."""
    versions = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    of_pyenv = sorted(versions.glob(f"{python}.*/bin/python"), key=lambda path: int(path.parts[-3].split(".")[-1]))
    return str(of_pyenv[-1]) if of_pyenv else shutil.which(f"python{python}")


@cache
def _environment(python: str, interpreter: str) -> Path:
    """The interpreter of an environment that has all that the package needs but PySpark."""
    folder, requirements = HOME / f"py{python}", HOME / "requirements.txt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [one for one in project["dependencies"] if not one.startswith("pyspark")]
    HOME.mkdir(parents=True, exist_ok=True)
    requirements.write_text("\n".join([*needed, *TOOLS]))
    if not folder.exists():
        subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    _install(folder / "bin" / "python", "--requirement", str(requirements))
    return folder / "bin" / "python"


@cache
def _pyspark(version: str) -> Path:
    """A folder that has the newest PySpark of a version, with what it cannot do without."""
    folder = HOME / f"spark{version}"
    if not (folder / "pyspark").exists():
        _install(Path(sys.executable), "--target", str(folder), f"pyspark=={version}.*")
    return folder


def _install(interpreter: Path, *what: str) -> None:
    pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *what], check=True)


@cache
def _package() -> Path:
    """A folder in which the repository's root has the package's name."""
    folder = HOME / "package"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "mixedmode").mkdir(parents=True)
    packages = re.findall(r'"mixedmode\.(\w+)"', (ROOT / "pyproject.toml").read_text())
    for part in [*ROOT.glob("*.py"), ROOT / "py.typed", *(ROOT / name for name in packages)]:
        (folder / "mixedmode" / part.name).symlink_to(part)
    return folder


if __name__ == "__main__":
    sys.exit(main())
