"""The left rows of a semi join that have met a partner: each goes out once, with the first.

Of a key whose rows come in parts it is the first in the part: what is emitted is the same, but a partner that is stored
and later than one of the next part may count.
"""

from __future__ import annotations

import numpy as np

from .pairing import PairingRows
from .state.blocks import NEVER


class SemiJoinMatches:
    """Remembers when each row met its first partner.

    Args:
        is_semi: False: there is nothing to remember.
    """

    def __init__(self, is_semi: bool) -> None:
        self._is_semi = is_semi
        #: By the rows' identity: when the stream brings each one's first pair.
        self._times_us: dict[int, np.ndarray] = {}

    def note(self, rows: PairingRows, places: np.ndarray, times_us: np.ndarray) -> None:
        """Some of the rows have partners.

        Args:
            rows: what they are of.
            places: which.
            times_us: of each the greater event time of the pair.
        """
        known = self._times_us.setdefault(id(rows), np.full(len(rows), NEVER))
        np.minimum.at(known, places, times_us)

    def taken(self, rows: PairingRows) -> tuple[np.ndarray, np.ndarray] | None:
        """Those that have not gone out before, and their times; they have had a partner from now on.  None: none."""
        times_us = self._times_us.pop(id(rows), None) if self._is_semi else None
        if times_us is None:
            return None
        at = np.flatnonzero((times_us < NEVER) & ~rows.matched)
        rows.matched[at] = True
        return at, times_us[at]
