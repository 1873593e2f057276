"""Trying a job before it runs.

:class:`Harness` runs a processor in the test's own process, without Spark: rows, watermark and clock are the test's,
and output, state, timers and events can be seen.
"""

from .given_rows import GivenRow, Output
from .harness import Event, Harness, Timer

__all__ = ["Event", "GivenRow", "Harness", "Output", "Timer"]
