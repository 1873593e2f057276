"""The page of the command line: what typer writes of the commands, under a head of ours."""

from __future__ import annotations

import subprocess
import sys

_ABOVE = """
# Command line

A relative path is from where the command runs; a savepoint may stand wherever a location is read. Exit codes: 0 done,
1 the job or its files, 2 the command line.
"""


def page() -> str:
    """All commands, in the order in which they were written down."""
    made = subprocess.run(
        [sys.executable, "-m", "typer", "mixedmode.planner.cli.app", "utils", "docs", "--name", "mixedmode"],
        check=True,
        capture_output=True,
        text=True,
    )
    _, _, rest = made.stdout.partition("\n")
    return f"{_ABOVE.strip()}\n{rest}"
