"""The report of a shard's task on its way to the function that stages the task's rows.

Both run in one Spark task, perhaps in two Python processes; what flows between them is rows, which Spark's operations
may filter, join and multiply.  So the report goes by a local file that bears the names of the run and of the attempt.

Invariant: the report is there before the first row leaves, and says of everything but the output what the attempt did.
"""

from __future__ import annotations

import contextlib
import os
import time

from ...state.store.local_folder import local_root, make_private
from ...state.store.pool import writing

_FOLDER = "reports"
#: What killed attempts have left is removed after this time, by whoever sees it.
_STALE_S = 24 * 3600
_MANY = 64


def leave_report(local_dir: str | None, name: str, report: bytes) -> None:
    """Leave an attempt's report.

    Args:
        local_dir: the option ``state.local-dir``; None: it is unset.
        name: of the attempt; no other one has it.
        report: the report.
    """
    folder = _folder(local_dir)
    _remove_stale(folder)
    path = os.path.join(folder, name)
    with writing(folder):
        with open(f"{path}.tmp", "wb") as file:
            file.write(report)
        os.replace(f"{path}.tmp", path)


def take_report(local_dir: str | None, name: str) -> bytes | None:
    """Take an attempt's report away; None: there is none, the task has not come so far."""
    path = os.path.join(_folder(local_dir), name)
    try:
        with open(path, "rb") as file:
            report = file.read()
    except FileNotFoundError:
        return None
    with contextlib.suppress(OSError):
        os.remove(path)
    return report


def _folder(local_dir: str | None) -> str:
    folder = os.path.join(local_root(local_dir), _FOLDER)
    make_private(folder)
    return folder


def _remove_stale(folder: str) -> None:
    names = os.listdir(folder)
    if len(names) < _MANY:
        return
    for name in names:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime < time.time() - _STALE_S:
                os.remove(path)
