"""The driver's numbered log, and the small files that shards hand over."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from mixedmode.runtime.storage import exclusive
from pyarrow import fs


def put_if_absent(folder: str, number: int, body: dict[str, Any]) -> bool:
    """Create a record, synced with its name; False: it is there already."""
    return exclusive.put_if_absent(fs.LocalFileSystem(), f"{folder}/{number:08d}", json.dumps(body).encode())


def read(folder: str, number: int) -> dict[str, Any] | None:
    """A record, if it is there."""
    try:
        return json.loads(Path(f"{folder}/{number:08d}").read_text())
    except FileNotFoundError:
        return None


def wait_for(folder: str, number: int) -> dict[str, Any]:
    """A record, as soon as it is there."""
    while (found := read(folder, number)) is None:
        time.sleep(0.001)
    return found


def hand_over(path: str, body: dict[str, Any], *, synced: bool) -> None:
    """Write a file that is there as a whole or not at all."""
    with open(path + ".made", "w") as file:
        json.dump(body, file)
        if synced:
            file.flush()
            os.fsync(file.fileno())
    os.rename(path + ".made", path)
