"""Folders that cannot be used are found before anything is written, and nothing is left of the question."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mixedmode.errors import OptionError
from mixedmode.runtime.storage import folder_checks as folders
from mixedmode.runtime.storage.folder_checks import check_folder, local_option, resolve_option
from pyarrow import fs
from refusing import Refusing


@pytest.mark.parametrize("inner", ["", "new", "new/folder"])
def test_a_folder_that_is_there_or_can_be_made(tmp_path: Path, inner: str) -> None:
    """It is accepted, and neither it nor anything else has been made."""
    check_folder("path", str(tmp_path / inner))
    check_folder("path", f"file://{tmp_path / inner}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_its_place(tmp_path: Path) -> None:
    """The error names option, path and what is allowed."""
    (tmp_path / "taken").touch()
    with pytest.raises(OptionError, match=r"^checkpointLocation = '.*/taken' is a file; allowed: a folder that"):
        check_folder("checkpointLocation", str(tmp_path / "taken"))


def test_a_file_above_it(tmp_path: Path) -> None:
    """The file is named too."""
    (tmp_path / "taken").touch()
    with pytest.raises(OptionError, match=r"^path = '.*/taken/a/b' lies below '.*/taken', which is a file; allowed"):
        check_folder("path", str(tmp_path / "taken" / "a" / "b"))


def test_a_link_to_nothing_in_its_place(tmp_path: Path) -> None:
    """A folder cannot be made where a symbolic link stands; one that leads to a folder is as good as that."""
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(
        OptionError, match=r"^path = '.*/link/a' is, or lies below, a symbolic link to nothing: '.*/link';"
    ):
        check_folder("path", str(tmp_path / "link" / "a"))
    (tmp_path / "gone").mkdir()
    check_folder("path", str(tmp_path / "link" / "a"))


def test_a_place_where_nothing_can_be_made() -> None:
    """A filesystem that takes no folders is found by trying; where it was tried is named."""
    with pytest.raises(OptionError, match=r"^path = '/proc/nothing' cannot be written to: .* in '/proc'; allowed"):
        check_folder("path", "/proc/nothing")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    """Missing permission is found, too."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OptionError, match="cannot be written to: Permission denied"):
            check_folder("path", str(tmp_path))
    finally:
        tmp_path.chmod(0o700)


def test_a_filesystem_that_nobody_knows() -> None:
    """Its URI is named with those that are known."""
    with pytest.raises(OptionError, match=r"path = 'dbfs://out' cannot be reached: .*; allowed: .*hdfs:, s3:"):
        resolve_option("path", "dbfs://out")


def test_elsewhere_only_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a filesystem that is not local nothing is tried: a refusal there would show later, as before."""
    remote = fs.PyFileSystem(Refusing(tmp_path / "flag"))
    monkeypatch.setattr(folders, "resolve", lambda location: (remote, location))
    (tmp_path / "taken").touch()
    check_folder("path", "/proc/nothing")
    with pytest.raises(OptionError, match="is a file"):
        check_folder("path", str(tmp_path / "taken"))


def test_a_local_folder_may_be_a_uri() -> None:
    """Of the session's configuration, too, which is read where there is no job; no credentials are shown."""
    assert [local_option("x", given) for given in (None, "rel", "file:/a", "FILE:///a/b")] == [
        None,
        "rel",
        "/a",
        "/a/b",
    ]
    with pytest.raises(
        OptionError, match=r"^x = 's3://K:\*+\(redacted\)@b' is not allowed: .*; allowed: a local folder"
    ):
        local_option("x", "s3://K:s3cr3t@b")
