"""A filesystem of another name that is this machine's disk, for the driver and, as a file of the job, its workers."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.local import LocalFileSystem
from pyspark import TaskContext


class Shared(LocalFileSystem):
    """``shared://cluster/x`` is ``/x``."""

    protocol = "shared"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str) and "://" in path:
            path = "/" + path.partition("://")[2].partition("/")[2]
        return LocalFileSystem._strip_protocol(path)


class Apart(Shared):
    """As :class:`Shared`, but tasks have another disk than the driver."""

    protocol = "apart"

    def _open(self, path: str, *args: Any, **options: Any) -> Any:
        return super()._open(path if TaskContext.get() is None else f"{path}.elsewhere", *args, **options)
