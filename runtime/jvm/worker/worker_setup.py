"""Tells from the error of a first job what is wrong with the workers' Python."""

from __future__ import annotations

import re

from ....errors import SetupError

#: What Java says of a program that is not there, or cannot be run.
_CANNOT_RUN = re.compile(r'Cannot run program "([^"]+)"[^\n]*?: (?:Exec failed, )?(error=\d+, [^\n]+|[^\n]+)')
_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): (No module named '[\w.]+'|[^\n]+)")
_OTHER_VERSION = re.compile(r"\[PYTHON_VERSION_MISMATCH\] ([^\n]+)")


def worker_setup_error(error: BaseException, python: str) -> SetupError | None:
    """What to tell of a job that does nothing but what all jobs of ours do; None: it has failed for another reason.

    Args:
        error: what it has failed with.
        python: what the workers were to run.
    """
    said = str(error)
    if found := _CANNOT_RUN.search(said):
        what = f"which cannot be started there: {found.group(2).strip()}"
    elif found := _NO_MODULE.search(said):
        what = f"which has not what tasks need: {found.group(1).strip()}"
    elif found := _OTHER_VERSION.search(said):
        what = f"which is of another version than the driver's: {found.group(1).strip()}"
    else:
        return None
    return SetupError(
        f"Spark's workers would run Python {python!r}, {what}; set PYSPARK_PYTHON (or spark.pyspark.python) to a Python"
        " that is there on every executor, of the driver's minor version, with mixedmode installed",
        code="MIXEDMODE_WORKER_PYTHON",
    )
