"""Trying a job before it runs: a processor without Spark, a whole job over rows of a test.

    from mixedmode.testing import Harness

    harness = Harness(Visits(), key="customer", schema="customer string, amount long", output="customer string, n long")
    assert harness.push([("ann", 5)]) == [Row(customer="ann", n=1)]
    harness.assert_same_results([("ann", 5), ("bob", 7)])

:class:`Harness` runs a processor in the test's own process, without Spark: rows, watermark and clock are the test's,
and output, state, timers and events can be seen.

:func:`run_job` runs a whole job in Spark, over rows of the test, in a temporary place, and stops it.
"""

from .harness import Event, Harness
from .job_run import JobRun, run_job
from .row_tables import GivenRow, GivenRows, Output
from .state_methods import Timer

__all__ = ["Event", "GivenRow", "GivenRows", "Harness", "JobRun", "Output", "Timer", "run_job"]
