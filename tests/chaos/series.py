"""What series of runs of any kind share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path


def numbers(arguments: argparse.Namespace, began: float) -> Iterator[int]:
    """The numbers of the runs that are asked for, as long as there is time."""
    if arguments.run is not None:
        yield arguments.run
        return
    number = 0
    while (arguments.runs is None or number < arguments.runs) and (
        arguments.seconds is None or time.monotonic() - began < arguments.seconds
    ):
        yield number
        number += 1


def made(folder: Path) -> Path:
    """A folder that was not there."""
    folder.mkdir()
    return folder
