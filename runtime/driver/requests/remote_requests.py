"""Requests to a running driver from outside of its process, as files below ``<checkpointLocation>/mixedmode/requests``.

::

    <id>.request    what is asked of which run; written by whoever asks
    <id>.answer     how far it is; written by the driver
    off             id of a run that does not look for requests (``execution.remote-control = off``)

Invariants: a request names the run that it is for, so a later run of the job never executes what was asked of an
earlier one; it names a moment after which nobody waits for it any more; the driver writes an answer before it removes
the request, so a request is never lost without a word.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args

from pyarrow import fs

from ....errors import CorruptStateError, MixedModeError, QueryError
from ...jvm.spark_errors import what_happened
from ...storage.checksummed import read_sealed, write_sealed
from ...storage.filesystem import delete_quietly, list_files, read_bytes, write_atomically
from ...support.ids import RunId

logger = logging.getLogger(__name__)

#: Least time between two looks at the folder.
_LOOK_EVERY_MS = 1000
#: Age after which an answer that nobody has taken is removed.
_ANSWER_LIFE_S = 3600
_REQUEST, _ANSWER = ".request", ".answer"
_OFF = "off"

Action = Literal["savepoint", "stop", "pause", "resume", "rescale"]
#: What is begun at once, and needs nobody to stay for it.
_PASSING = ("pause", "resume", "rescale")


@dataclass(frozen=True)
class Request:
    """What is asked of a run."""

    action: Action
    #: Where the savepoint goes; None: none is asked for.
    path: str | None
    drain: bool
    #: Id of the run that it is for.
    run: str
    #: After this moment (ms) it is not begun any more.
    expires_ms: int
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: Of a rescale: the number of shards, and the stage; None: all stages.
    parallelism: int | None = None
    stage: str | None = None


@dataclass(frozen=True)
class Answer:
    """What has come of a request."""

    status: Literal["running", "done", "failed"]
    #: Path of the savepoint.
    path: str | None = None
    error: str | None = None
    #: That of the error, if it is one of ours.
    code: str | None = None


_ANSWER_FIELDS = {field.name for field in fields(Answer)}
_Message = TypeVar("_Message", Request, Answer)


@dataclass(frozen=True)
class RequestFolder:
    """The folder, for both sides."""

    filesystem: fs.FileSystem
    root: str

    @property
    def path(self) -> str:
        return f"{self.root}/requests"

    def turn_off(self, run: str) -> None:
        """Say that a run will not look for requests, so that nobody waits for it."""
        try:
            self.filesystem.create_dir(self.path, recursive=True)
            write_atomically(self.filesystem, f"{self.path}/{_OFF}", run.encode())
        except OSError as error:  # those who ask wait for their time-out
            logger.warning("%s cannot be told that the run takes no requests: %s", self.path, error)

    def is_off(self, run: str) -> bool:
        """Whether a run has said that it will not look."""
        try:
            return read_bytes(self.filesystem, f"{self.path}/{_OFF}").decode(errors="replace") == run
        except FileNotFoundError:
            return False

    def put(self, request: Request) -> None:
        """Ask."""
        self._write(f"{request.id}{_REQUEST}", request)

    def withdraw(self, request_id: str) -> None:
        """Take a request back that nobody has begun with."""
        delete_quietly(self.filesystem, f"{self.path}/{request_id}{_REQUEST}")

    def answer(self, request_id: str, answer: Answer) -> None:
        """Say how far a request is."""
        self._write(f"{request_id}{_ANSWER}", answer)

    def answer_to(self, request_id: str) -> Answer | None:
        """The newest answer; None: none yet."""
        try:
            return self._read(f"{request_id}{_ANSWER}", Answer)
        except FileNotFoundError:
            return None

    def forget(self, request_id: str) -> None:
        """Remove all that is left of a request."""
        self.withdraw(request_id)
        delete_quietly(self.filesystem, f"{self.path}/{request_id}{_ANSWER}")

    def requests(self) -> list[Request]:
        """What is asked now; what cannot be read is removed, as it cannot be answered."""
        found = []
        for info in list_files(self.filesystem, self.path):
            if not info.base_name.endswith(_REQUEST):
                continue
            try:
                found.append(self._read(info.base_name, Request))
            except FileNotFoundError:
                continue
            except CorruptStateError as error:
                logger.warning("a request is ignored: %s", error)
                delete_quietly(self.filesystem, info.path)
        return sorted(found, key=lambda request: (request.expires_ms, request.id))

    def remove_old_answers(self) -> None:
        """Remove answers that nobody has taken for an hour."""
        for info in list_files(self.filesystem, self.path):
            mtime_ns = info.mtime_ns
            if info.base_name.endswith(_ANSWER) and mtime_ns and time.time() - mtime_ns / 1e9 > _ANSWER_LIFE_S:
                delete_quietly(self.filesystem, info.path)

    def _write(self, name: str, message: Request | Answer) -> None:
        self.filesystem.create_dir(self.path, recursive=True)
        write_sealed(self.filesystem, f"{self.path}/{name}", _body(message))

    def _read(self, name: str, kind: type[_Message]) -> _Message:
        path = f"{self.path}/{name}"
        try:
            body: dict[str, Any] = read_sealed(self.filesystem, path)
            if kind is Answer:  # a later version's may say more; of a request nothing is left out
                body = {name: body[name] for name in body.keys() & _ANSWER_FIELDS}
            return kind(**body)
        except (ValueError, TypeError) as error:
            raise CorruptStateError(f"{path} is damaged ({error})") from error


def _body(message: Request | Answer) -> dict[str, Any]:
    """What is written of a message; what has come later is left out where it says nothing: older drivers refuse it."""
    body = asdict(message)
    later = [name for name in ("parallelism", "stage", "code") if body.get(name, 0) is None]
    return {name: value for name, value in body.items() if name not in later}


class Requests:
    """The driver's side: looks for requests to its run and has them executed.

    Savepoints one after the other.  All else is begun at once: who wants the job to go on, or to end, must not wait for
    a savepoint that waits for the end of a backlog.

    Args:
        folder: where they are.
        run_id: this run.
        execute: does what is asked and returns the savepoint's path, if one is asked for.  It is called on a thread of
            its own, since a request to stop ends only with the run; the process does not end before that, or a
            savepoint, is answered.
    """

    def __init__(self, folder: RequestFolder, run_id: RunId, execute: Callable[[Request], str | None]) -> None:
        self._folder = folder
        self._run_id = run_id
        self._execute = execute
        self._next_look_ms = 0
        self._busy: threading.Thread | None = None

    def watch(self, ended: threading.Event) -> None:
        """Look once a second, on a thread of its own, until the run has ended."""

        def look() -> None:
            while not ended.wait(_LOOK_EVERY_MS / 1000):
                self.poll(round(time.time() * 1000))

        threading.Thread(target=look, name="mixedmode-requests", daemon=True).start()

    def poll(self, now_ms: int) -> None:
        """Begin with the requests whose turn it is; cheap if called often."""
        if now_ms < self._next_look_ms:
            return
        self._next_look_ms = now_ms + _LOOK_EVERY_MS
        try:
            self._look(now_ms)
        except Exception as error:  # the job does not depend on anybody's being able to ask
            logger.warning("cannot look for requests in %s: %s", self._folder.path, error)

    def _look(self, now_ms: int) -> None:
        self._folder.remove_old_answers()
        for request in self._folder.requests():
            if request.run != self._run_id or request.expires_ms < now_ms:
                logger.info(
                    "request %s (%s) is ignored: it is not for this run, or too old", request.id, request.action
                )
                self._folder.withdraw(request.id)
                continue
            if request.path is not None and self._busy is not None and self._busy.is_alive():
                continue  # a later look
            self._folder.answer(request.id, Answer("running"))
            self._folder.withdraw(request.id)
            # A program that has come to its end does not stay for a pause, but must not end before a savepoint is told.
            name = f"mixedmode-request-{request.id[:8]}"
            passing = request.action in _PASSING
            thread = threading.Thread(target=self._run, args=(request,), name=name, daemon=passing)
            if request.path is not None:
                self._busy = thread
            thread.start()

    def _run(self, request: Request) -> None:
        try:
            if request.action not in get_args(Action):  # a later version asks: nothing is taken for something else
                raise QueryError(f"the driver's version of mixedmode knows no {request.action!r}")
            answer = Answer("done", path=self._execute(request))
        except BaseException as error:
            code = error.code if isinstance(error, MixedModeError) else None
            answer = Answer("failed", error=f"{type(error).__name__}: {what_happened(error)}", code=code)
        try:
            self._folder.answer(request.id, answer)
        except OSError as error:
            logger.warning("request %s cannot be answered (%s): %s", request.id, answer.status, error)
