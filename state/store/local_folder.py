"""The folder below which a process keeps its local files, safe on a machine that others use, too.

Working copies of state hold a job's data, and whoever can put files there can have it read them back.  So the folder is
ours alone: a real folder (whoever could make a link in its place would have us write, and delete, elsewhere), owned by
this user, and closed to all others.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

from ...errors import CheckpointError

_NAME = "mixedmode"
_HINT = "local state needs a folder that only this user can read: remove it, or set state.local-dir to another folder"


def default_root() -> str:
    """Where local files go if nobody says where: Spark's own scratch space, which goes away with the executor, or else
    the temporary folder."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()


def local_root(configured: str | None) -> str:
    """The folder for local files, made if it does not exist.

    Args:
        configured: the option ``state.local-dir``; None: it is unset.

    Raises:
        CheckpointError: what is there is not a folder of this user's alone, or it cannot be made.
    """
    folder = os.path.join(configured or default_root(), _NAME)
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        make_private(folder)
    except OSError as error:
        raise CheckpointError(
            f"the folder for working copies of state, {folder}, cannot be made: {error.strerror or error}; {_HINT}"
        ) from error
    return folder


def make_private(folder: str) -> None:
    """Make a folder that only this user can look into, or see that one which is there is such.

    Raises:
        CheckpointError: it is a link, no folder, or somebody else's.
        OSError: it cannot be made, or not be closed to others.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    try:
        # Not by its name from here on: what the name stands for may change.
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise CheckpointError(f"{refusal(folder) or f'{folder} cannot be used: {error.strerror}'}; {_HINT}") from error
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise CheckpointError(f"{_somebody_elses(folder, found)}; {_HINT}")
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def refusal(folder: str) -> str | None:
    """Why a folder cannot be made private; None: it can, or does not exist."""
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return f"{folder} is a symbolic link (to {os.readlink(folder)!r}), which is not followed"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is a file"
    return _somebody_elses(folder, found) if found.st_uid != os.geteuid() else None


def check_local_root(configured: str | None) -> str | None:
    """What :func:`local_root` would refuse, without making anything; None: nothing."""
    return refusal(os.path.join(configured or default_root(), _NAME))


def _somebody_elses(folder: str, found: os.stat_result) -> str:
    return f"{folder} belongs to another user (uid {found.st_uid}, and this is uid {os.geteuid()})"
