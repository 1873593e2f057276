"""The place of a savepoint that is being made: taken by one, given back when nothing comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixedmode.errors import CheckpointError, QueryError
from mixedmode.runtime.checkpoints.savepoints.destination import DestinationClaim, claim, claim_of
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
