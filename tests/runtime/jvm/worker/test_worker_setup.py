"""What is said of a Python that workers do not have, or that has not what tasks need."""

from __future__ import annotations

import pytest
from mixedmode.runtime.jvm.worker.worker_setup import worker_setup_error


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            'java.io.IOException: Cannot run program "/opt/job/bin/python": error=2, No such file or directory\n\tat x',
            "cannot be started there: error=2, No such file or directory;",
        ),
        (
            "  File x\nModuleNotFoundError: No module named 'mixedmode'\n\n\tat org",
            "tasks need: No module named 'mixedmode';",
        ),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9", "has different version: 3.9;"),
    ],
)
def test_what_workers_lack_is_told_with_the_cure(raised: str, told: str) -> None:
    """The message has the interpreter, what is wrong with it, and what to set."""
    found = worker_setup_error(RuntimeError(raised), "/opt/job/bin/python")
    assert found is not None and found.code == "MIXEDMODE_WORKER_PYTHON"
    assert told in str(found) and "'/opt/job/bin/python'" in str(found) and "set PYSPARK_PYTHON" in str(found)


def test_other_failures_are_not_the_interpreters() -> None:
    """What is not known to be the interpreter's fault is not said to be."""
    assert worker_setup_error(RuntimeError("Job aborted: No space left on device"), "python3") is None
