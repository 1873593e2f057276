"""Commands about files that cannot be read, or that hold something else than was asked for; without Spark."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from mixedmode.planner.cli import app as app_module
from mixedmode.planner.cli.app import app
from typer.testing import CliRunner, Result

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """That of a job with one checkpoint."""
    return Path(shutil.copytree(DATA / "location-3", tmp_path / "location"))


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("arguments", [("checkpoints",), ("inspect",), ("inspect", "--checkpoint", "4")])
def test_a_file_that_cannot_be_read(location: Path, arguments: tuple[str, ...]) -> None:
    """One line says which, with the exit code of errors of jobs and their files, and for programs as JSON."""
    (metadata,) = location.glob("mixedmode/checkpoints/chk-*/_metadata")
    metadata.unlink()
    metadata.mkdir()
    (metadata / "inside").touch()
    found = command(arguments[0], location, *arguments[1:])
    assert found.exit_code == 1 and found.stderr.count("\n") == 1, found.output
    assert found.stderr.startswith("error: ") and str(metadata) in found.stderr
    as_json = command(arguments[0], location, *arguments[1:], "--json")
    assert as_json.exit_code == 1 and str(metadata) in json.loads(as_json.stdout)["error"]["message"]


@pytest.mark.parametrize("name", ["checkpoints", "inspect", "status", "watch", "history", "report", "stop", "pause"])
def test_a_location_that_no_file_system_takes(name: str) -> None:
    """It is an error of the command line, as a location that does not exist."""
    found = command(name, "x" * 5000)
    assert found.exit_code == 2, found.output
    assert "cannot be reached: " in found.stderr and "Traceback" not in found.stderr


@pytest.mark.parametrize("name", ["checkpoints", "status", "report"])
def test_credentials_of_a_location_are_not_printed(name: str) -> None:
    """The message has the rest of it."""
    found = command(name, "memory://KEY:SECRET@bucket/x")
    assert found.exit_code == 2, found.output
    assert "SECRET" not in found.output and "KEY:" in found.stderr and "@bucket/x" in found.stderr.replace("\n", "")


def test_an_operator_that_a_checkpoint_does_not_have(location: Path) -> None:
    """Also where no key is looked up."""
    found = command("inspect", location, "--operator", "nope")
    assert found.exit_code == 1
    assert "has no operator 'nope'; it has counts [MIXEDMODE_STATE_UNKNOWN]" in found.stderr
    assert command("inspect", location, "--operator", "counts").exit_code == 0


def test_a_damaged_metadata_file_is_not_printed(location: Path) -> None:
    """Of a file that is no text the error has the first byte that is none."""
    (metadata,) = location.glob("mixedmode/checkpoints/chk-*/_metadata")
    data = metadata.read_bytes()
    metadata.write_bytes(data[:500] + b"\xff" + data[501:])
    found = command("inspect", location)
    assert found.exit_code == 1 and "can't decode byte 0xff in position 500" in found.stderr
    assert "MIXEDMODE_STATE_CORRUPT" in found.stderr and len(found.stderr) < 1000


def test_results_that_cannot_be_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output on a full disk is told in a line, too, and nothing more is written there."""

    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(app_module, "app", full)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    with pytest.raises(SystemExit) as ended:
        app_module.run()
    assert ended.value.code == 1 and sys.stdout is None
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device [MIXEDMODE_LOCATION_UNUSABLE]\n"
