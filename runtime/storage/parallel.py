"""Work on many files at a time: an object store answers slowly, but many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_AT_A_TIME = 8

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def in_parallel(work: Callable[[_Item], _Done], items: Iterable[_Item]) -> list[_Done]:
    """``work`` of every item, several at a time; the first error ends it once those that have begun are done."""
    wanted = list(items)
    if len(wanted) < 2:
        return [work(item) for item in wanted]
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="mixedmode-copy") as pool:
        futures = [pool.submit(work, item) for item in wanted]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
