"""Files that carry their own checksum: the bytes on disk, and what is told of a wrong one."""

from __future__ import annotations

import json

import pytest
from mixedmode.runtime.storage.checksummed import Envelope, is_as_stamped, seal, stamp, unseal

BODY = '{"a": 1}'
DIGEST = "f9d86028c6e0d64e225186f96acb69338b2c59764df79162107f5c4bb34d1310"


def test_the_bytes_of_an_envelope() -> None:
    """Kind if there is one, version, checksum and body, in this order: what was written before reads the same."""
    assert Envelope(3, BODY).to_bytes() == json.dumps({"format_version": 3, "sha256": DIGEST, "body": BODY}).encode()
    with_kind = {"kind": "savepoint", "format_version": 3, "sha256": DIGEST, "body": BODY}
    assert Envelope(3, BODY, "savepoint").to_bytes() == json.dumps(with_kind).encode()
    assert seal(BODY.encode()) == f"{DIGEST}\n{BODY}".encode()


@pytest.mark.parametrize("envelope", [Envelope(1, BODY), Envelope(2, "ü", "savepoint")])
def test_an_envelope_comes_back(envelope: Envelope) -> None:
    """Reading is the inverse of writing."""
    assert Envelope.from_bytes(envelope.to_bytes()) == envelope


def test_an_altered_envelope_still_tells_its_version() -> None:
    """A version that is not known is told of as such, whatever the checksum says of the body."""
    found = Envelope.from_bytes(Envelope(7, BODY).to_bytes().replace(b"1}", b"2}"))
    assert found.version == 7 and not found.is_whole
    assert Envelope.from_bytes(Envelope(7, BODY).to_bytes()).is_whole


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"format_version": 1, "sha256": "", "body": 5}', b"\xff"])
def test_what_is_no_envelope(data: bytes) -> None:
    """Anything else is a ValueError, never another error."""
    with pytest.raises(ValueError, match=r"Error\("):
        Envelope.from_bytes(data)


def test_a_stamp_holds_for_every_layout() -> None:
    """The order of fields makes no difference, their values do; objects of before there were stamps are taken."""
    stamped = stamp({"a": 1, "b": [2]})
    assert is_as_stamped(dict(reversed(stamped.items()))) and is_as_stamped({"a": 1})
    assert not is_as_stamped({**stamped, "a": 2}) and not is_as_stamped({**stamped, "c": 3})


@pytest.mark.parametrize("data", [seal(b"abc")[:-1], seal(b"abd").replace(b"d", b"c"), seal(b"")[:-1], b"", b"\n"])
def test_a_broken_seal(data: bytes) -> None:
    """One bit more, less or other is an error."""
    with pytest.raises(ValueError, match="does not match its checksum"):
        unseal(data)
