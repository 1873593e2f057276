"""``mixedmode plan job.py``: the plan of a job file, without starting the job.

The file is run as a program (``__name__ == "__main__"``) up to its first ``start()`` or ``toTable()``, which gives the
plan instead of starting.  A file that never starts anything may define ``job``: whatever ``writeStream`` has led to.
All that the file does before that, such as making a Spark session, really happens.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from ...errors import MixedModeError, PlanError
from ..frames.writer import MixedStreamWriter
from ..plans.dry_run import DryRunStop, without_starts
from .console import misused

#: The global of a job file that never calls start().
JOB = "job"


def planned(path: Path, arguments: list[str]) -> DryRunStop:
    """Run a job file and return its job, which is not started, and the plan of it.

    Raises:
        PlanError: the file failed before there was a plan.
    """
    kept_arguments, kept_path = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with without_starts():
            defined = runpy.run_path(str(path), run_name="__main__")
            job = defined.get(JOB)
            if isinstance(job, MixedStreamWriter):
                return DryRunStop(job.plan(), job.described())
    except DryRunStop as stop:
        return stop
    except MixedModeError:
        raise
    except SystemExit as error:
        raise PlanError(f"{path} ended with exit code {error.code} before it started a job") from error
    except Exception as error:
        raise PlanError(f"{path} failed before it started a job: {type(error).__name__}: {error}") from error
    finally:
        sys.argv, sys.path[:] = kept_arguments, kept_path
    found = "" if job is None else f" ({JOB} is a {type(job).__name__}, not what writeStream gives)"
    raise misused(f"{path} neither calls start() nor defines {JOB!r}{found}")
