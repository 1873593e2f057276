"""The package that a user installs: what is in the wheel, and which way imports run."""

from __future__ import annotations

import email
import importlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import house_rules as rules
import pytest
from import_graph import Sources
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("planner", "runtime", "sorter", "state", "testing")
#: For each rule a change of the house that breaks it, and a part of the complaint.
BREACHES: tuple[tuple[Callable[[Sources], list[str]], dict[str, str], str], ...] = (
    (rules.files_without_a_room, {"runtime/cupboard/x.py": ""}, "runtime/cupboard/x.py"),
    (rules.arrows_upwards, {"state/x.py": "from ..runtime import spec"}, "imports runtime/spec.py"),
    (rules.arrows_upwards, {"state/x.py": "import mixedmode.runtime.spec"}, "imports runtime/spec.py"),
    (rules.arrows_upwards, {"runtime/spec.py": "from ..planner.plans import phases"}, "planner/plans/phases.py"),
    (rules.arrows_upwards, {"runtime/connectors/x.py": "from ..checkpoints.store import S"}, "checkpoints/store.py"),
    (rules.arrows_upwards, {"runtime/connectors/x.py": "from ..protocols import watermarks"}, "watermarks.py"),
    (rules.arrows_upwards, {"runtime/tasks/x.py": "from ..driver.run.runner import R"}, "driver/run/runner.py"),
    (rules.arrows_upwards, {"runtime/tasks/x.py": "from ..metrics.progress import P"}, "metrics/progress.py"),
    (rules.arrows_upwards, {"runtime/operators/x.py": "from ..spec import Settings"}, "imports runtime/spec.py"),
    (
        rules.arrows_upwards,
        {"runtime/tasks/x.py": "if TYPE_CHECKING:\n    from ..driver.run.runner import R"},
        "driver/run/runner.py",
    ),
    (rules.arrows_upwards, {"state/x.py": "def f():\n    from ..runtime.spec import S"}, "imports runtime/spec.py"),
    (
        rules.circles,
        {"state/x.py": "from . import y", "state/y.py": "def f():\n    from .x import g"},
        "state/x.py -> state/y.py",
    ),
    (
        rules.circles,
        {"state/x.py": "from .y import a", "state/y.py": "if TYPE_CHECKING:\n    from .x import B"},
        "state/x.py -> state/y.py",
    ),
    (rules.libraries_out_of_place, {"runtime/protocols/x.py": "import threading as t"}, "imports threading"),
    (rules.libraries_out_of_place, {"runtime/protocols/x.py": "from time import monotonic"}, "imports time.monotonic"),
    (rules.libraries_out_of_place, {"runtime/protocols/x.py": "from pyarrow import fs"}, "imports pyarrow.fs"),
    (rules.libraries_out_of_place, {"runtime/protocols/x.py": "import pyarrow.fs"}, "imports pyarrow.fs"),
    (rules.libraries_out_of_place, {"runtime/protocols/x.py": "from pyspark.sql import Row"}, "imports pyspark.sql"),
    (rules.libraries_out_of_place, {"state/x.py": "def f():\n    import pyspark"}, "imports pyspark"),
    (rules.jvm_outside_its_rooms, {"planner/plans/x.py": "plan = frame._jdf"}, "planner/plans/x.py:1 uses _jdf"),
    (rules.jvm_outside_its_rooms, {"runtime/tasks/x.py": "getattr(spark, '_jvm')"}, "runtime/tasks/x.py:1 uses _jvm"),
    (rules.jvm_outside_its_rooms, {"runtime/tasks/x.py": "spark.sparkContext._jsc.sc()"}, "uses _jsc"),
    (rules.jvm_outside_its_rooms, {"runtime/driver/x.py": "a.b(c._jsparkSession)"}, "uses _jsparkSession"),
    (rules.arguments_undocumented, {"runtime/catalyst/x.py": "def f(a, b, c):\n    'Does.'"}, "f lacks Args:"),
    (
        rules.arguments_undocumented,
        {"planner/frames/x.py": "class A:\n    def f(self, a, b, *, c):\n        'Args:'\n        raise E"},
        "A.f lacks Raises:",
    ),
    (rules.jvm_outside_its_rooms, {"runtime/tasks/x.py": "from ..jvm.gateway import java_class"}, "gateway.py"),
    (rules.crowd_in_runtime, {f"runtime/{name}.py": "" for name in "abcd"}, "runtime/a.py"),
    (rules.long_files, {"sorter/x.py": "x = 1\n" * 401}, "sorter/x.py has 401 lines"),
    (
        rules.large_classes,
        {"sorter/x.py": "class A:\n" + "".join(f"    def f{number}(self): ...\n" for number in range(21))},
        "A has 21 methods",
    ),
    (rules.references_to_nothing, {"state/x.py": "'As :mod:`.keys.cupboard`.'"}, "state/x.py speaks of .keys.cupboard"),
    (rules.references_to_nothing, {"state/x.py": "'A :class:`.keys.keys.Cupboard`.'"}, "keys.keys.Cupboard"),
    (rules.modules_in_riddles, {"state/x.py": "'What is kept of a key.'"}, "begins with What"),
    (rules.crowded_rooms, {f"sorter/x{number}.py": "" for number in range(21)}, "sorter has"),
)


def sources() -> set[str]:
    """The package's files, as paths below ``mixedmode/``."""
    modules = [path for path in ROOT.glob("*.py") if path.name != "setup.py"]
    files = [*modules, ROOT / "py.typed", *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]
    files += [path for room in ROOMS for path in (ROOT / room).rglob("template/*")]
    return {f"mixedmode/{path.relative_to(ROOT)}" for path in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, made of a copy, so that nothing left over gets in, and the wheel that is made of it."""
    place = tmp_path_factory.mktemp("built")
    out, copy = place / "out", place / "any-name"
    out.mkdir()
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=ignored)
    _build(f"backend.build_sdist({str(out)!r})", copy)
    (sdist,) = out.glob("*.tar.gz")
    shutil.unpack_archive(sdist, place)
    _build(f"backend.build_wheel({str(out)!r})", place / sdist.name.removesuffix(".tar.gz"))
    return out


def _build(call: str, folder: Path) -> None:
    command = [sys.executable, "-c", f"import setuptools.build_meta as backend; {call}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel_names(built: Path) -> set[str]:
    """Names in the wheel."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_exactly_the_package(wheel_names: set[str]) -> None:
    """The wheel holds every source file of the package, the metadata, and nothing else (no top-level ``state``)."""
    content = {name for name in wheel_names if ".dist-info/" not in name}
    assert content == sources()


def test_wheel_holds_the_licence(wheel_names: set[str]) -> None:
    """The licence text is installed with the package."""
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)


@pytest.mark.slow
def test_what_is_installed_works_outside_the_repository(built: Path, tmp_path: Path) -> None:
    """The wheel, made of the source distribution, is installed by pip, imports, and has its command."""
    (wheel,) = built.glob("*.whl")
    place = tmp_path / "site"
    options = ["--no-index", "--no-deps", "--quiet", "--disable-pip-version-check", "--target", str(place)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    used = "import mixedmode; print(mixedmode.__file__, mixedmode.read.__name__, mixedmode.OptionError('x').code)"

    def run(*command: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(place)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run(sys.executable, "-c", used) == f"{place}/mixedmode/__init__.py read MIXEDMODE_OPTION_INVALID"
    version = run(sys.executable, str(place / "bin" / "mixedmode"), "--version")
    assert f"mixedmode-{version}-" in wheel.name


def test_what_a_package_index_shows_is_whole(built: Path) -> None:
    """Its description renders and has no link or picture that needs the repository beside it; who made it is said."""
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    description = str(metadata.get_payload())
    assert "mixedmode.read(" in description
    assert re.findall(r"\]\((?!https?:)", description) == []
    assert metadata["Author"] and metadata["Keywords"] and len(metadata.get_all("Classifier", [])) > 5


def test_users_get_no_version_that_tests_exclude() -> None:
    """No extra bounds what the package itself depends on: what tests exclude is excluded for users, too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = {Requirement(one).name for one in project["dependencies"]}
    extras = project["optional-dependencies"]
    # Delta and Iceberg are not to be had for each version of Spark.
    again = {(name, one) for name, some in extras.items() for one in some if Requirement(one).name in own}
    assert again == {("test-delta", "pyspark==4.1.4")}


def test_the_command_leads_somewhere() -> None:
    """The console script ``mixedmode`` names a function that is there."""
    found = re.search(r'^mixedmode = "([\w.]+):(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    assert callable(getattr(importlib.import_module(found[1]), found[2]))


@pytest.fixture(scope="module")
def house() -> Sources:
    """The package's sources as they are in this checkout."""
    return Sources.at(ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_rules(house: Sources, rule: Callable[[Sources], list[str]]) -> None:
    """The package keeps to the table of directions and to what only one room may touch."""
    assert rule(house) == []


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "change", "complaint"), BREACHES)
def test_a_breach_of_a_rule_is_found(
    house: Sources, rule: Callable[[Sources], list[str]], change: dict[str, str], complaint: str
) -> None:
    """A rule that is broken in one file is told of, with the file; hints and imports inside functions count."""
    told = rule(house.changed(change))
    assert any(complaint in one and any(path in one for path in change) for one in told)


def test_every_rule_has_a_breach() -> None:
    """Each rule is seen to fail on a broken house."""
    assert {rule for rule, _, _ in BREACHES} == set(rules.RULES)


def test_the_table_speaks_of_rooms_that_are_there(house: Sources) -> None:
    """No room of the table is empty: a rule for files that have moved away would hold for nothing."""
    assert {rules.room(path) for path in house.trees} == {room for floor in rules.FLOORS for room in floor}


def test_tests_import_this_checkout() -> None:
    """``import mixedmode`` means the checkout that the tests belong to, not another installed copy."""
    import mixedmode

    assert Path(str(mixedmode.__file__)).resolve().parent == ROOT
