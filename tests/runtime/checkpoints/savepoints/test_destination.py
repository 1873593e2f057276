"""The place of a savepoint that is being made: taken by one, given back when nothing comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixedmode.errors import CheckpointError, QueryError
from mixedmode.runtime.checkpoints.savepoints.destination import (
    DestinationClaim,
    check_wanted,
    claim,
    claim_of,
)
from mixedmode.runtime.checkpoints.savepoints.queue import SavepointRequest
from mixedmode.runtime.protocols.lifecycle.events import Stop
from pyarrow import fs

LOCAL = fs.LocalFileSystem()


def test_a_place_is_taken_by_one(tmp_path: Path) -> None:
    """The second who wants a place is refused, and the claim says whose it is."""
    first, second = (SavepointRequest(str(tmp_path / "sp"), Stop.DRAIN) for _ in range(2))
    claim(first, "job")
    with pytest.raises(CheckpointError, match=rf"'{tmp_path}/sp' holds what is left of .* \(or is being written\)"):
        claim(second, "job")
    assert claim_of(LOCAL, str(tmp_path / "sp")) == DestinationClaim(first.savepoint_id, "job")


@pytest.mark.parametrize("made", [False, True])
def test_a_place_is_given_back(tmp_path: Path, made: bool) -> None:
    """A request that fails leaves nothing at its place, unless the savepoint is there; what is another's stays."""
    request, place = SavepointRequest(str(tmp_path / "sp"), Stop.DRAIN), tmp_path / "sp"
    claim(request, "job")
    if made:
        (place / "_metadata").touch()
    request.answer.set_exception(QueryError("it failed"))
    assert place.exists() == made
    DestinationClaim("another", "job").write(LOCAL, str(place))
    again = SavepointRequest(str(place), Stop.DRAIN)
    with pytest.raises(CheckpointError, match=f"'{place}' holds"):
        claim(again, "job")
    again.answer.set_exception(QueryError("it was refused"))
    assert (place / "_unfinished").exists()


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    """A folder below a file is no place, and the error names it."""
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=rf"'{tmp_path}/file/sp' cannot be written to .*Not a directory"):
        claim(SavepointRequest(f"{tmp_path}/file/sp", Stop.SUSPEND), "job")


def test_a_claim_that_says_nothing_is_nobodys(tmp_path: Path) -> None:
    """A file of another content is not taken for a claim of one's own."""
    for text in ("", "[]", '{"savepoint_id": 3}', "{"):
        (tmp_path / "_unfinished").write_text(text)
        assert claim_of(LOCAL, str(tmp_path)) is None


@pytest.mark.parametrize(
    ("destination", "problem", "code"),
    [
        ("s3a://KEY:s3cr3t@b/x", r"'s3a://KEY:\*+\(redacted\)@b/x' holds credentials", "LOCATION_SECRET"),
        (
            "abfss://c@a.dfs.core.windows.net/x?sig=s3cr3t",
            "holds a secret in its parameter",
            "LOCATION_SECRET",
        ),
        (
            "nosuch://x/y",
            "'nosuch://x/y' cannot be reached: neither .*; allowed: a p",
            "SAVEPOINT_UNWRITABLE",
        ),
        ("file:x", "'file:x' cannot be reached: File URI cannot be relative", "SAVEPOINT_UNWRITABLE"),
        ("{tmp}/" + "x" * 300, "cannot be reached: .*File name too long", "SAVEPOINT_UNWRITABLE"),
        ("{tmp}/a\0b", "cannot be reached: .*", "SAVEPOINT_UNWRITABLE"),
        ("{tmp}/ck/mixedmode/sp", "is among the files of checkpointLocation", "LOCATION_SHARED"),
        ("{tmp}/ck/spark/deep/sp", "is among the files of checkpointLocation", "LOCATION_SHARED"),
        ("file:{tmp}/link/mixedmode/sp", "is among the files of checkpointLocation", "LOCATION_SHARED"),
    ],
)
def test_a_destination_is_checked_before_anything_is_requested(
    tmp_path: Path, destination: str, problem: str, code: str
) -> None:
    """The error names it, without its secrets, and nothing has been made."""
    (tmp_path / "ck").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ck")
    with pytest.raises(CheckpointError, match=f"^the savepoint's path .*{problem}") as caught:
        check_wanted(destination.replace("{tmp}", str(tmp_path)), str(tmp_path / "ck"))
    assert caught.value.code == f"MIXEDMODE_{code}" and "s3cr3t" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["ck", "link"]


def test_a_destination_beside_the_jobs_own_files_is_taken(tmp_path: Path) -> None:
    """A job without a location of its own has a temporary one."""
    for destination in ("ck/savepoints/1", "sp"):
        check_wanted(str(tmp_path / destination), str(tmp_path / "ck"))
    check_wanted(str(tmp_path / "sp"), None)
