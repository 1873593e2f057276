"""Names the newest older checkpoint that is whole, in errors of one that is not."""

from __future__ import annotations

from ...errors import CorruptStateError
from .store import CheckpointStore


def explain_corruption(error: BaseException, store: CheckpointStore) -> BaseException:
    """For a corrupt state file, add which older checkpoint is whole."""
    if not isinstance(error, CorruptStateError) or "older checkpoint" in str(error):
        return error
    if not str(error).startswith("state file"):
        return error  # an older checkpoint would not help
    try:
        ids = store.ids()
        if not ids:
            return error
        explained = store.with_alternative(error, ids[-1])
    except OSError:  # the location is gone as a whole
        return error
    explained.__cause__ = error
    return explained
