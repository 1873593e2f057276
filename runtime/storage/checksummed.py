"""Files that must not be read with a wrong bit: their content, and its SHA-256 beside it in the same file.

Three forms, each a contract of the files that have it.  :class:`Envelope` is for documents with a version of their own
(``_metadata`` of checkpoints and savepoints); :func:`stamp` keeps a small JSON object readable (``job.json``);
:func:`seal` takes any bytes (everything else whose every field matters and that nothing else vouches for).  State files
have their checksums in ``_metadata``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from .filesystem import read_bytes, write_atomically

_STAMP = "sha256"


def checksum(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Envelope:
    """A document as JSON with what must be known before it is believed.

    A version that a reader does not know says more than a checksum that does not match: so both are told apart, and
    :attr:`is_whole` is asked after the version.
    """

    version: int
    body: str
    #: What the document is, where files of several kinds have one name.
    kind: str | None = None
    #: False: the checksum in the file is not that of the body.
    is_whole: bool = True

    def to_bytes(self) -> bytes:
        """The file's content."""
        kind = {} if self.kind is None else {"kind": self.kind}
        head = {**kind, "format_version": self.version, _STAMP: checksum(self.body.encode())}
        return json.dumps({**head, "body": self.body}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        """Inverse of :meth:`to_bytes`; the version is whatever the file has there.

        Raises:
            ValueError: that is no envelope.
        """
        try:
            said = json.loads(data)
            version, digest, body = said["format_version"], said[_STAMP], said["body"]
            return cls(version, body, said.get("kind"), checksum(body.encode()) == digest)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # The repr of a UnicodeDecodeError has the whole file in it.
            raise ValueError(f"{type(error).__name__}({error})") from error


def stamp(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a JSON object and their checksum, which holds for every layout of the file."""
    return {**fields, _STAMP: _of_fields(fields)}


def is_as_stamped(fields: Mapping[str, Any]) -> bool:
    """True for an object as :func:`stamp` made it, or one from before there were stamps."""
    return fields.get(_STAMP, _of_fields(fields)) == _of_fields(fields)


def _of_fields(fields: Mapping[str, Any]) -> str:
    content = {name: value for name, value in fields.items() if name != _STAMP}
    return checksum(json.dumps(content, sort_keys=True).encode())


def seal(content: bytes) -> bytes:
    """The content with its checksum before it."""
    return checksum(content).encode() + b"\n" + content


def unseal(data: bytes) -> bytes:
    """Inverse of :func:`seal`; a ValueError if a bit of it is not as it was written."""
    digest, separator, content = data.partition(b"\n")
    # An empty content lacks nothing but the separator when its file is cut off by one byte.
    if not separator or checksum(content).encode() != digest:
        raise ValueError("the file was altered or cut off: it does not match its checksum")
    return content


def write_sealed(filesystem: fs.FileSystem, path: str, body: Any) -> None:
    """Write a sealed JSON document, all of it or nothing.

    Args:
        filesystem: of the file.
        path: its path there; its folder exists.
        body: the document.
    """
    write_atomically(filesystem, path, seal(json.dumps(body).encode()))


def read_sealed(filesystem: fs.FileSystem, path: str) -> Any:
    """The document that :func:`write_sealed` wrote; a ValueError if the file is damaged."""
    return json.loads(unseal(read_bytes(filesystem, path)))
