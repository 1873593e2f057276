"""Defines a sink's transaction: the staged output that becomes visible with one checkpoint."""

from __future__ import annotations

import hashlib

from ..support.frozen import Frozen
from .sink_calls import SinkCall, epochs_of
from .staged_form import StagedForm
from .staging import StagedFile

#: An ordinal is the branch of the location, then at least the time in milliseconds: enough for some more centuries.
_TIME_BITS = 44
#: Of what stands for the ordinal where none was recorded: the branch, then the id.
_ID_BITS = 32


class SinkTransaction(Frozen):
    """Output that becomes visible when its checkpoint is complete.  ``id`` is stable across re-deliveries."""

    id: int
    files: tuple[StagedFile, ...] = ()
    #: How to read them; None: written before this was recorded.
    form: StagedForm | None = None
    #: What tells it from every other one, as an id may come again when a job is put back to an older checkpoint; the
    #: same when its files are staged again in another form.  Empty: written before this was recorded.
    token: str = ""
    #: Greater than that of every transaction before it, those included that were given up when the job was put back to
    #: an older checkpoint.  None: written before this was recorded.
    ordinal: int | None = None
    #: The calls in which a sink's function gets the rows, in order; empty: there are no rows, or it was written before
    #: calls were recorded.
    calls: tuple[SinkCall, ...] = ()

    @property
    def all_calls(self) -> tuple[SinkCall, ...]:
        """The calls; before they were recorded there was one call with all rows, under the id of the transaction."""
        if self.calls or not self.files:
            return self.calls
        return (SinkCall(id=self.id, epochs=epochs_of(self.files)),)

    @property
    def unique(self) -> str:
        """The token, or what stands for it: the names of attempts' files do not come again either."""
        return self.token or hashlib.sha256("/".join(file.name for file in self.files).encode()).hexdigest()[:32]

    def ordinal_in(self, branch: int) -> int:
        """The ordinal, or what stood for it before it was recorded.

        Args:
            branch: that of the location in which the transaction is committed.
        """
        return (branch << _ID_BITS) + self.id if self.ordinal is None else self.ordinal


def next_ordinal(previous: int | None, branch: int, now_ms: int) -> int:
    """The ordinal of a new transaction.

    Nobody who was put back to an older checkpoint knows which ordinals the newer ones had; but they are in the past.

    Args:
        previous: that of the one before, as far as the job knows; None: there is none, or it has none.
        branch: that of the location.
        now_ms: the time on the clock on the wall.
    """
    return max(0 if previous is None else previous + 1, first_ordinal(branch) + now_ms)


def first_ordinal(branch: int) -> int:
    """One that is less than those of a branch and greater than those of all branches before it."""
    return branch << _TIME_BITS
