"""Tests of sorter.spill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mixedmode.errors import SorterError
from mixedmode.sorter.spill import PREFIX, SpillFolder, remove_leftovers
from mixedmode.state.store.folder_owner import process_start_time

#: Spills, says so, and waits for its end.
VICTIM = """
import sys
import pyarrow as pa
from mixedmode.sorter import ExternalSorter

schema = pa.schema([("n", pa.int64())])
sorter = ExternalSorter(schema, ["n"], memory_bytes=1 << 18, spill_dir=sys.argv[1])
while sorter.stats.spilled_runs < 2:
    sorter.add(pa.record_batch([range(2000)], schema=schema))
print("spilled", flush=True)
sys.stdin.read()
"""


def folders(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.glob(f"{PREFIX}*"))


def test_folder_is_made_on_first_use(tmp_path: Path) -> None:
    """A sorter that never spills leaves no trace; one that does names its process."""
    folder = SpillFolder(str(tmp_path))

    assert folders(tmp_path) == []

    first, second = folder.new_file(), folder.new_file()

    assert first != second
    assert os.path.dirname(first) == folder.path
    assert folders(tmp_path)[0].startswith(f"{PREFIX}{os.getpid()}-{process_start_time(os.getpid())}-")


def test_remove_takes_everything(tmp_path: Path) -> None:
    """Removing takes the folder with its files, and may be done twice."""
    folder = SpillFolder(str(tmp_path))
    Path(folder.new_file()).write_bytes(b"x")

    folder.remove()
    folder.remove()

    assert os.listdir(tmp_path) == []


@pytest.mark.kill
def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    """The folder of a live process stays; after SIGKILL the next start in the same place removes it."""
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert victim.stdout is not None
    assert victim.stdout.readline() == "spilled\n"
    (left,) = folders(tmp_path)
    SpillFolder(str(tmp_path))

    assert folders(tmp_path) == [left]

    victim.send_signal(signal.SIGKILL)
    victim.communicate()

    assert len(list((tmp_path / left).glob("run-*"))) == 2

    SpillFolder(str(tmp_path))

    assert folders(tmp_path) == []


def test_locked_folder_of_an_unknown_process_stays(tmp_path: Path) -> None:
    """A folder whose pid is not of this machine (a container on the same disk) is alive while it is locked."""
    owner = SpillFolder(str(tmp_path))
    owner.new_file()
    assert owner.path is not None
    foreign = tmp_path / f"{PREFIX}4194999-12345-feed"
    os.rename(owner.path, foreign)

    assert remove_leftovers(str(tmp_path)) == []

    owner.remove()  # lets go of the lock

    assert remove_leftovers(str(tmp_path)) == [str(foreign)]
    assert folders(tmp_path) == []


def test_reused_pid_does_not_protect_a_folder(tmp_path: Path) -> None:
    """A live pid with another start time is another process."""
    stale = tmp_path / f"{PREFIX}{os.getpid()}-1-feed"
    stale.mkdir()
    (stale / "lock").touch()

    assert remove_leftovers(str(tmp_path)) == [str(stale)]


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    """Only folders with the full name pattern are ever removed."""
    names = [f"{PREFIX}notes", f"{PREFIX}1-x-y", "mixedmode-1-1-feed", "data"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()

    assert remove_leftovers(str(tmp_path)) == []
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_unwritable_folder_names_the_option(tmp_path: Path) -> None:
    """A place where no folder can be made is an error with the place and the option."""
    (tmp_path / "file").touch()
    folder = SpillFolder(str(tmp_path / "file" / "below"))

    with pytest.raises(SorterError, match=r"cannot spill to .*/file/below: .*Not a directory.*sorter\.spill-dir"):
        folder.new_file()
