"""The C heap that tasks keep while they scan."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from mixedmode.runtime.tasks.scan.worker_heap import _glibc

_PROGRAM = """
import resource, sys
import numpy as np
from mixedmode.runtime.tasks.scan.worker_heap import keep_heap, release_heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    before = faults()
    for _ in range(5):
        np.ones(5_000_000)  # 40 MB each, more than glibc keeps by itself
    return faults() - before

release_heap()  # nothing was kept
plain, empty = work(), resident()
keep_heap()
work()
kept, full = work(), resident()
release_heap()
print(plain, kept, full - empty, resident() - empty)
"""


@pytest.mark.skipif(_glibc() is None, reason="only glibc has these parameters")
def test_a_kept_heap_is_used_again_and_given_back() -> None:
    """Arrays that come and go cost no page faults while it is kept; afterwards the memory is the system's again."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    plain, kept, held_bytes, left_bytes = map(int, done.stdout.split())
    assert kept * 10 < plain, f"pages of {resource.getpagesize()} bytes"
    assert held_bytes > 16_000_000
    assert left_bytes < 8_000_000
