"""A worker's garbage collector leaves alone what was loaded before tasks began."""

from __future__ import annotations

import subprocess
import sys

_TASKS = """
import gc
from mixedmode.runtime.jvm.worker.worker_tasks import spare_what_is_loaded

class Ring:
    def __init__(self):
        self.me = self

counts = []
for task in range(4):
    spare_what_is_loaded()
    counts.append(gc.get_freeze_count())
    kept = [Ring() for _ in range(1000)]
    del kept
    counts.append(gc.collect() >= 1000)
    exec(f"kept{task} = [Ring() for _ in range(10_000)]")
print(counts)
"""


def test_only_the_first_two_tasks_of_a_process_freeze_what_is_there() -> None:
    """What a task leaves as garbage is collected, and what later ones keep is never frozen."""
    done = subprocess.run([sys.executable, "-c", _TASKS], capture_output=True, text=True, check=True)
    first, *rest = eval(done.stdout)
    freed, second, third, fourth = rest[0::2], rest[1], rest[3], rest[5]
    assert all(freed)
    assert first > 1_000
    assert second > first + 10_000
    assert first < second == third == fourth
