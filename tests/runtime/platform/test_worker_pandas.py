"""PyArrow does not import pandas in a worker before somebody else does, and knows its objects then."""

from __future__ import annotations

import subprocess
import sys

_FIRST = """
import sys
import numpy as np
import pyarrow as pa
from mixedmode.runtime.operators.aggregate import operator
from mixedmode.runtime.operators.processor import operator
from mixedmode.runtime.tasks import shard_task
from mixedmode.runtime.platform.worker_tasks import task_begins
task_begins()
task_begins()
assert pa.array([1, None]).null_count == 1
assert pa.array(np.arange(3)).to_numpy().sum() == 3
assert "pandas" not in sys.modules
"""
_THEN = """
import pandas as pd
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
assert pa.array(pd.Series(["a", None], dtype="category")).type == pa.dictionary(pa.int8(), pa.string())
assert type(pd.__loader__) is type(pd.__spec__.loader) is type(pd.core.__loader__)
assert not any("Noticed" in type(finder).__name__ for finder in sys.meta_path)
"""
_BY_ARROW = """
table = pa.table({"a": [1, 2]}).to_pandas()
assert list(table["a"]) == [1, 2]
assert pa.array(table["a"]).to_pylist() == [1, 2]
"""
_FAILS_ONCE = """
import builtins
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas._config":
            sys.meta_path.remove(self)
            raise ImportError("not yet")
sys.meta_path.append(Broken())
sys.meta_path.insert(0, sys.meta_path.pop())
try:
    import pandas
    raise SystemExit("it was to fail")
except ImportError:
    pass
"""


def _run(*parts: str) -> None:
    done = subprocess.run([sys.executable, "-c", "".join(parts)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_who_imports_pandas_finds_it_known_to_arrow() -> None:
    """Series become arrays with their nulls and categories, as if Arrow had looked for pandas first."""
    _run(_FIRST, _THEN)


def test_arrow_imports_pandas_where_it_makes_objects_of_it() -> None:
    """A table becomes a frame, and its columns arrays again."""
    _run(_FIRST, _BY_ARROW)


def test_an_import_that_fails_is_tried_again() -> None:
    """Who imports pandas after that finds it known, too."""
    _run(_FIRST, _FAILS_ONCE, _THEN)


def test_pandas_that_is_there_stays_known() -> None:
    """A worker that has run other code before keeps what that has loaded."""
    _run("import pandas\n", _FIRST.replace('"pandas" not in', '"pandas" in'), _THEN)
