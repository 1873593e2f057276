"""The local folder is this user's alone, or it is not used."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from mixedmode.errors import CheckpointError
from mixedmode.state.store import local_folder
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.local_folder import check_local_root, local_root, make_private
from state_support import Workspace


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_folder_is_closed_to_others(tmp_path: Path, umask: int) -> None:
    """Whatever the umask, and also where the folders above it had to be made."""
    before = os.umask(umask)
    try:
        folder = local_root(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    assert folder == str(tmp_path / "a" / "b" / "mixedmode")
    assert mode(folder) == 0o700
    assert local_root(str(tmp_path / "a" / "b")) == folder


def test_a_folder_of_ours_is_closed(tmp_path: Path) -> None:
    """One that an older version has left open to others is closed."""
    (tmp_path / "mixedmode").mkdir(mode=0o755)
    assert mode(local_root(str(tmp_path))) == 0o700


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Wherever a link leads, even to a folder of ours: nothing is made or changed there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    for target in (elsewhere, tmp_path / "nothing"):
        (tmp_path / "mixedmode").symlink_to(target)
        with pytest.raises(
            CheckpointError, match=r"/mixedmode is a symbolic link \(to .*\), which is not followed; local state needs"
        ):
            local_root(str(tmp_path))
        assert "is a symbolic link" in str(check_local_root(str(tmp_path)))
        (tmp_path / "mixedmode").unlink()
    assert mode(elsewhere) == 0o755
    assert not (tmp_path / "nothing").exists()


def test_a_file_in_its_place(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "mixedmode").touch()
    with pytest.raises(CheckpointError, match=r"/mixedmode is a file; local state .* set state\.local-dir"):
        local_root(str(tmp_path))


def test_somebody_elses_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of another user is refused with both users, however open it is, and is not changed."""
    (tmp_path / "mixedmode").mkdir(mode=0o777)
    (tmp_path / "mixedmode").chmod(0o777)
    me = os.geteuid()
    monkeypatch.setattr(local_folder.os, "geteuid", lambda: me + 1)
    with pytest.raises(CheckpointError, match=rf"another user \(uid {me}, and this is uid {me + 1}\); local state"):
        local_root(str(tmp_path))
    assert "belongs to another user" in str(check_local_root(str(tmp_path)))
    assert mode(tmp_path / "mixedmode") == 0o777


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset, it is below Spark's scratch space, or in the temporary folder; the same rules hold there."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/spark,/elsewhere")
    assert local_root(None) == f"{tmp_path}/spark/mixedmode"
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "mixedmode").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match="is a symbolic link"):
        local_root(None)
    assert check_local_root(None) is not None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The reason of the system is told."""
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/mixedmode, cannot be made: .*set state\.local-dir"):
        local_root(str(tmp_path / "file"))
    assert check_local_root(str(tmp_path / "new")) is None


def test_a_process_folder_that_is_a_link(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a process, below, is made by the same rules."""
    monkeypatch.setattr("mixedmode.state.store.local_copy.own_folder", lambda root: f"{root}/replicas.mine")
    (Path(workspace.local) / "replicas.mine").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match="is a symbolic link"):
        LocalStateCache()._root(workspace.local)
    os.unlink(f"{workspace.local}/replicas.mine")
    cache = LocalStateCache()
    assert mode(cache._root(workspace.local)) == 0o700
    make_private(f"{workspace.local}/replicas.mine")
