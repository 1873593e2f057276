"""Errors of user code in a test: the exception that was raised, with the user's own traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from ..errors import UserCodeError
from ..runtime.jvm.user_frames import is_ours


@contextmanager
def as_raised() -> Iterator[None]:
    """Raise what user code has raised, instead of what a query would fail with.

    Its traceback begins with the user's first frame; from Python 3.11 on a note says which handler, key and time.
    """
    __tracebackhide__ = True
    try:
        yield
    except UserCodeError as told:
        raised = told.__cause__
        frames = None if raised is None else _of_user(raised.__traceback__)
        if raised is None or frames is None:
            raise
        if hasattr(raised, "add_note"):
            raised.add_note(next((line for line in str(told).splitlines() if line.startswith("in ")), str(told)))
        error, before = raised.with_traceback(frames), raised.__cause__
    else:
        return
    raise error from before


def _of_user(found: TracebackType | None) -> TracebackType | None:
    while found is not None and is_ours(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found
