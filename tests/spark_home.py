"""A home of Spark that is quick to start from: the installed one, but Python workers import PySpark as it is installed.

In PySpark's own home they find it in a zip file first, in which Python compiles each module anew: half of what the
daemon and each worker take to start.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path


def spark_home(folder: Path) -> Path:
    """The home, of links to what is installed; what a cluster writes lands in it.

    Args:
        folder: takes it, also where other processes do the same.
    """
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    installed = Path(found.origin).parent
    home = folder / f"spark-home-{hashlib.sha256(bytes(installed)).hexdigest()[:12]}"
    home.mkdir(parents=True, exist_ok=True)
    for part in installed.iterdir():
        if part.name != "python":
            with suppress(FileExistsError):
                (home / part.name).symlink_to(part)
    return home
