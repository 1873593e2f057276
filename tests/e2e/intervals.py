"""Both kinds of ``execution.checkpointing.interval``: what kills show is shown of either, in one run of the tests.

Each life of a job has the other kind than the life before it.  Which one the first life has follows from the test's
name; ``TEST_OTHER_INTERVALS=1 make test-rest ARGS=tests/e2e/recovery`` gives each life the kind that it has not now,
and ``auto`` to the lives that name a period of their own (:func:`named`).
"""

from __future__ import annotations

import os
import zlib
from collections import Counter

#: A checkpoint behind each change, as by default, and one in each period.
KINDS = ("auto", "200 ms")
#: Of a driver's environment: what it has unless its job says otherwise.
VARIABLE = "TEST_INTERVAL"
_OTHER = "TEST_OTHER_INTERVALS"


def named(period: str) -> str:
    """The interval of a job that names one, so that its test knows which checkpoints there are.

    Args:
        period: what it has unless ``TEST_OTHER_INTERVALS`` is set; then it has ``auto``.
    """
    return "auto" if os.environ.get(_OTHER) else period


class Intervals:
    """The intervals of the lives of jobs."""

    def __init__(self) -> None:
        self._lives: Counter[tuple[str, ...]] = Counter()

    def next(self, *job: str) -> str:
        """The interval of a job's next life.

        Args:
            job: what tells it from others of the same test.
        """
        test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0].rpartition("/")[2]
        life = (test, *job)
        self._lives[life] += 1
        turn = zlib.crc32(test.encode()) + self._lives[life] + bool(os.environ.get(_OTHER))
        return KINDS[turn % len(KINDS)]
