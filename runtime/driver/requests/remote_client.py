"""Asks the running driver of a checkpoint location for something, and waits for the answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyarrow import fs

from ....errors import CheckpointError, QueryError
from ...checkpoints.lease.driver_lease import DriverLease, Holder
from ...checkpoints.savepoints.destination import check_wanted
from ...checkpoints.store import CheckpointStore
from ...storage.filesystem import absolute, resolve
from ...support.ids import NO_RUN
from .remote_requests import Action, Request, RequestFolder

_WAIT_S = 0.2
#: How long an answer is waited for after the run has given the location free: while its process may still be there, and
#: when it is known to be dead.
_GRACE_S, _DEAD_GRACE_S = 30.0, 2.0


@dataclass(frozen=True)
class RequestClock:
    """The time, and how it is spent."""

    now_s: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def ask(
    location: str,
    action: Action,
    path: str | None = None,
    *,
    drain: bool = False,
    parallelism: int | None = None,
    stage: str | None = None,
    timeout_s: float = 600.0,
    on_status: Callable[[str], None] = lambda status: None,
    clock: RequestClock | None = None,
) -> str | None:
    """Have the job that runs on a checkpoint location do something; returns the savepoint's path, if there is one.

    Args:
        location: the job's checkpointLocation.
        action: "savepoint"; "stop" to end the job, with a savepoint if a path is given; "pause", "resume" or "rescale".
        path: where the savepoint goes; a relative path is taken from here, not from where the driver runs.
        drain: whether the job first fires all that waits for the end of input.
        parallelism: of a rescale, the number of shards.
        stage: of a rescale, the stage that it is for; None: all.
        timeout_s: how long to wait.
        on_status: told "waiting" and "running".
        clock: for tests.

    Raises:
        CheckpointError: no driver runs, it ended without an answer, or there is none in time.
        QueryError: the driver could not do it; the message is the driver's.  Or it takes no requests.
    """
    clock = clock or RequestClock()
    if path is not None:
        check_wanted(path, location)
    filesystem, checkpoints = resolve(location)
    root = f"{checkpoints}/mixedmode"
    holder = _living_holder(filesystem, root, location)
    request = Request(
        action=action,
        path=None if path is None else absolute(path),
        drain=drain,
        run=holder.run,
        expires_ms=round((clock.now_s() + timeout_s) * 1000),
        parallelism=parallelism,
        stage=stage,
    )
    folder = RequestFolder(filesystem, root)
    if folder.is_off(holder.run):
        raise QueryError(
            f"the job on {location!r} takes no requests: it runs with execution.remote-control = off\nCall the query's"
            f" own {action}() where it runs, or send SIGTERM to its process ({holder.pid}) to end it",
            code="MIXEDMODE_REMOTE_CONTROL_OFF",
        )
    folder.put(request)
    on_status("waiting")
    try:
        return _AskedRun(location, folder, holder).result_of(request, on_status, clock)
    finally:
        folder.forget(request.id)


@dataclass(frozen=True)
class _AskedRun:
    """The run on a location, as whoever has put a request to it knows it."""

    location: str
    folder: RequestFolder
    holder: Holder

    def result_of(self, request: Request, on_status: Callable[[str], None], clock: RequestClock) -> str | None:
        """Wait for the answer; see :func:`ask`."""
        begun, gone_since_s = False, None
        while True:
            answer = self.folder.answer_to(request.id)
            if answer is not None and answer.status == "done":
                return answer.path
            if answer is not None and answer.status == "failed":
                raise QueryError(f"the job on {self.location!r} could not do it: {answer.error}", code=answer.code)
            if answer is not None and not begun:
                begun = True
                on_status("running")
            now_s = clock.now_s()
            if self._has_gone():
                gone_since_s = now_s if gone_since_s is None else gone_since_s
                if now_s - gone_since_s > (_DEAD_GRACE_S if self.holder.lives is False else _GRACE_S):
                    raise CheckpointError(
                        f"the job on {self.location!r} ended without an answer; {self._what_is_left(request)}"
                    )
            else:
                gone_since_s = None
            if now_s > request.expires_ms / 1000:
                there = (
                    "" if request.path is None else f", and the savepoint will be at {request.path!r} unless it fails"
                )
                raise CheckpointError(
                    f"the job on {self.location!r} has not finished in time; it goes on with it{there}"
                    if begun
                    else f"the job on {self.location!r} has not taken up the request in time, which is withdrawn: a job"
                    " takes requests once it has recovered"
                )
            clock.sleep(_WAIT_S)

    def _has_gone(self) -> bool:
        """True if the run does not have the location any more, or its process is dead."""
        now = DriverLease(self.folder.filesystem, self.folder.root, NO_RUN).holder()
        return now is None or now.run != self.holder.run or self.holder.lives is False

    def _what_is_left(self, request: Request) -> str:
        """What has become of a request whose driver is gone."""
        if request.path is None:
            return "look at its log"
        store = CheckpointStore(self.folder.filesystem, self.folder.root.rpartition("/")[0])
        try:
            newest = store.latest()
        except CheckpointError as error:
            return f"look at its log ({error})"
        wanted = None if newest is None else newest.savepoint
        if newest is None or wanted is None or wanted.path != request.path:
            return "look at its log"
        made = store.savepoint_made(newest.checkpoint_id)
        if made is not None:
            return f"but its savepoint is complete: {made}"
        return (
            f"its checkpoint is complete, the savepoint at {wanted.path!r} is not: the next start finishes it before it"
            f" goes on, or `mixedmode savepoint {self.location} --complete` does"
        )


def _living_holder(filesystem: fs.FileSystem, root: str, location: str) -> Holder:
    """The run that has the location.

    Raises:
        CheckpointError: there is none, or its process is known to be dead.
    """
    holder = DriverLease(filesystem, root, NO_RUN).holder()
    if holder is None:
        raise CheckpointError(f"no job is running on {location!r}", code="MIXEDMODE_JOB_NOT_RUNNING")
    if holder.lives is False:
        raise CheckpointError(
            f"no job is running on {location!r}: its driver (process {holder.pid}) died",
            code="MIXEDMODE_JOB_NOT_RUNNING",
        )
    return holder
