"""What a task does first leaves the worker to those who come after it as they expect it."""

from __future__ import annotations

import subprocess
import sys

_TASK = """
import numpy as np
import pyarrow as pa
from mixedmode.runtime.jvm.worker.worker_tasks import task_begins
task_begins()
assert pa.array([1, None]).null_count == 1
assert pa.array(np.arange(3)).to_numpy().sum() == 3
"""
_AFTER_IT = """
import pandas as pd
mixed = pd.DataFrame({"a": [1, pd.NA], "b": [pd.NaT, None]}, dtype=object)
assert [column.null_count for column in pa.Table.from_pandas(mixed)] == [1, 2]
assert pa.Array.from_pandas(pd.Series([[pd.NaT]]))[0].as_py() == [None]
moment = pd.Timestamp("2020-01-01T00:00:00.000000001")
assert pa.array([moment], pa.timestamp("ns")).view(pa.int64()).to_pylist() == [moment.value]
"""


def test_arrow_knows_what_pandas_has() -> None:
    """In functions of others that the worker runs later: what is missing is null, and nanoseconds stay."""
    done = subprocess.run([sys.executable, "-c", _TASK + _AFTER_IT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
