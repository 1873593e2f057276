"""Writes to an object store that depend on what is there: if nothing is, or if it is still what was seen.

S3 (``If-None-Match``, ``If-Match``), Google's and Azure's stores decide both themselves, so of any number of writers
one succeeds; ``pyarrow.fs`` has neither.  A request whose answer is lost may have done its work: each write carries a
mark of its own, by which a refused one that is told of a file knows whether that is its own.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ..support.redaction import redacted
from .parallel import in_parallel

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

logger = logging.getLogger(__name__)

_Done = TypeVar("_Done")

#: Metadata of a file: which write it is of.  Azure takes identifiers only, and proxies may drop what has a ``_``.
WRITER_MARK = "mixedmodewriter"
_ATTEMPTS = 8
#: What a stream asks the library for at a time.
_PIECE_BYTES = 1 << 20
#: Pauses between attempts of what the library does not try again.
_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0)
#: For so long nothing fails that can be tried again; then the attempt in hand is the last one.  The library has the
#: same patience with that, so it is a minute in all.
_PATIENCE_S = 30

#: Files that one request removes, at most, of a store that has such requests.
MOST_AT_ONCE = 1000
#: What stands in the answers of those that have none: some take it for another request, with something missing.  Others
#: refuse it as a whole to whoever may remove single files alone.
_NO_SUCH_REQUEST = (
    "501 Not Implemented",
    "405 Method Not Allowed",
    "400 Bad Request",
    "403 Forbidden",
    "<Code>NotImplemented",
    "<Code>MethodNotAllowed",
)
#: What stands in an answer for many files if one of them may not be removed.
_MAY_NOT = "AccessDenied"

_RETRIES: RetryConfig = {"max_retries": _ATTEMPTS, "retry_timeout": timedelta(seconds=_PATIENCE_S)}
#: For what is tried again here.
ONCE: RetryConfig = {"max_retries": 0}


@dataclass(frozen=True)
class Version:
    """A file's content, and what its store calls this version of it."""

    data: bytes
    tag: str


class ConditionalClient:
    """One bucket or container.

    Args:
        store: makes the library's, given how often it may try a request again.
        name: the bucket, for errors.
        many: the library's, tried once, for a store that may have requests which remove many files; None: it has none.
    """

    def __init__(self, store: Callable[[RetryConfig], ObjectStore], name: str, many: ObjectStore | None = None) -> None:
        self._store = store(_RETRIES)
        #: For writes, which are tried again here: an answer that says never is told from one that says not now.
        self._once = store(ONCE)
        #: None once it has turned out that the store has no such requests.
        self._many = many
        self._name = name

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write a file unless there is one; False: there is.

        Args:
            key: its path in the bucket.
            data: its content.

        Raises:
            NotImplementedError: the store knows no conditions.
            OSError: the store refuses it, or does not answer.
        """
        return self._write(key, data, "create") is not None

    def swap(self, key: str, seen: Version | None, data: bytes) -> Version | None:
        """Write a file in place of the version that was seen.

        Args:
            key: its path in the bucket.
            seen: the version; None: there was none.
            data: the new content.

        Returns:
            The new version; None: there is another one than was seen.

        Raises:
            NotImplementedError: the store knows no conditions.
            OSError: the store refuses it, or does not answer.
        """
        return self._write(key, data, "create" if seen is None else {"e_tag": seen.tag})

    def get(self, key: str) -> Version | None:
        """What is there; None: nothing."""
        found = self._get(key)
        return None if found is None else found[0]

    def stream(self, key: str) -> Iterator[bytes]:
        """The content of a file, piece by piece; an answer that is cut off is asked for again from there on.

        Raises:
            FileNotFoundError: there is no such file.
            OSError: the store refuses it, or does not answer.
        """
        import obstore

        found = self._again(key, lambda: obstore.get(self._store, key))
        return self._pieces(key, iter(found.stream(min_chunk_size=_PIECE_BYTES)))

    def _pieces(self, key: str, pieces: Iterator[Any]) -> Iterator[bytes]:
        while True:
            with self._naming(key):
                piece = next(pieces, None)
            if piece is None:
                return
            yield bytes(piece)

    def reader(self, key: str) -> Any:
        """A file that can be read from any place; errors as of :meth:`stream`."""
        import obstore

        return self._again(key, lambda: obstore.open_reader(self._store, key))

    def delete(self, key: str) -> None:
        """Remove a file that may be gone."""
        import obstore

        with contextlib.suppress(FileNotFoundError):
            self._again(key, lambda: obstore.delete(self._store, key))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove files that may be gone, at most :data:`MOST_AT_ONCE`; in one request, if the store has such.

        Raises:
            OSError: the store refuses it, or does not answer; some of the files may be gone.
        """
        import obstore
        from obstore.exceptions import BaseError

        def remove(many: ObjectStore) -> bool:
            try:
                obstore.delete(many, list(keys))
                return True
            except FileNotFoundError:  # that is what it says of the request: files may be gone
                return False
            except BaseError as error:
                said = str(error)
                if any(words in said for words in _NO_SUCH_REQUEST):
                    return False
                if _MAY_NOT in said:
                    raise OSError(f"{self._name}: {said}") from error
                raise

        many = self._many if len(keys) > 1 else None
        if many is not None and self._again(f"{keys[0]} and {len(keys) - 1} others", lambda: remove(many)):
            return
        in_parallel(self.delete, keys)
        if many is not None:
            self._many = None

    def _write(self, key: str, data: bytes, mode: Any) -> Version | None:
        import obstore
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            NotSupportedError,
            PermissionDeniedError,
            PreconditionError,
            UnauthenticatedError,
        )

        mine, patience = uuid.uuid4().hex, _Patience()
        while True:
            try:
                done = obstore.put(
                    self._once, key, data, attributes={WRITER_MARK: mine}, mode=mode, use_multipart=False
                )
                return Version(data, done["e_tag"] or "")
            except (AlreadyExistsError, PreconditionError):
                found = self._get(key)
                if found is not None and found[1] == mine:
                    return found[0]
                tag = None if found is None else found[0].tag
                holds = tag is None if mode == "create" else tag == mode["e_tag"]
                # Refused, and yet as it was: a store says so, too, while another request for the file is in hand (409),
                # which may be the attempt before this one.
                if not holds or not patience.waits():
                    return None
            except NotSupportedError as error:
                raise NotImplementedError(str(error)) from error
            except BaseError as error:  # it may have been written all the same: the next attempt finds out
                if "501 Not Implemented" in str(error):
                    raise NotImplementedError(str(error)) from error
                if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or not patience.waits():
                    raise OSError(f"{self._name}/{key}: {error}") from error
                logger.info("%s/%s is written again: %s", self._name, key, _first_line(error))

    def _get(self, key: str) -> tuple[Version, str | None] | None:
        """The file, and the mark of its writer."""
        import obstore

        def ask() -> tuple[Version, Any]:
            found = obstore.get(self._store, key)
            return Version(bytes(found.bytes()), found.meta["e_tag"] or ""), found.attributes

        try:
            version, marks = self._again(key, ask)
        except FileNotFoundError:
            return None
        return version, marks.get(WRITER_MARK)

    def _again(self, key: str, work: Callable[[], _Done]) -> _Done:
        """Do what may be done twice, also where the library gives up: over half an answer that says no, for one."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        patience = _Patience()
        with self._naming(key):
            while True:
                try:
                    return work()
                except (PermissionDeniedError, UnauthenticatedError):
                    raise
                except BaseError as error:
                    if not patience.waits():
                        raise
                    logger.info("a request for %s/%s is made again: %s", self._name, key, _first_line(error))

    @contextmanager
    def _naming(self, key: str) -> Iterator[None]:
        """Errors of the library as errors of a filesystem, which say where."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self._name}/{key}") from None
        except BaseError as error:
            raise OSError(f"{self._name}/{key}: {error}") from error


def _first_line(error: Exception) -> str:
    return redacted(next(iter(str(error).splitlines()), type(error).__name__))


class _Patience:
    """How often something is tried again, and for how long."""

    def __init__(self) -> None:
        self._pauses_s = iter(_PAUSES_S)
        self._until_s = time.monotonic() + _PATIENCE_S

    def waits(self) -> bool:
        """Wait for the next attempt; False: the last one was the last."""
        pause_s = next(self._pauses_s, None)
        if pause_s is None or time.monotonic() + pause_s > self._until_s:
            return False
        time.sleep(pause_s)
        return True
