"""Keeps long-lived objects of a Python worker out of its garbage collector.

PySpark has a worker collect garbage of all generations after each task.  Modules and what they hold are some 80,000
objects and never garbage, but they are looked at each time: 35 ms of a core after every task, as much as a task of a
small epoch computes itself, and the next one waits for it.  What is frozen is not looked at.
"""

from __future__ import annotations

import gc

#: The first task of a process freezes what Spark's worker has loaded, the second what the first has loaded.  No more
#: than that, as what is frozen and becomes garbage later stays.
_TIMES = 2

_frozen = 0


def spare_what_is_loaded() -> None:
    """Have this process's garbage collector leave alone what is there now; called as a task begins."""
    global _frozen
    if _frozen < _TIMES:
        _frozen += 1
        gc.freeze()
