"""Files of a scan are dealt evenly to the tasks that run at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixedmode.runtime.scan.partial_scans import file_parts

_MIB = 1 << 20


def _task_bytes(folder: Path, sizes_mib: list[int], tasks: int) -> list[int]:
    """How much each task reads of files without content, all of which are covered once."""
    paths = []
    for number, size in enumerate(sizes_mib):
        path = folder / f"{number}.parquet"
        with path.open("wb") as file:
            file.truncate(size * _MIB)
        paths.append(str(path))
    _, dealt = file_parts([f"file://{path}" for path in paths], tasks)
    for path, size in zip(paths, sizes_mib, strict=True):
        parts = sorted((part.start, part.end) for its in dealt for part in its if part.path == path)
        ends = [0, *(end for _, end in parts)]
        assert [start for start, _ in parts] == ends[:-1] and ends[-1] == size * _MIB
    return [sum(part.size_bytes for part in its) for its in dealt]


@pytest.mark.parametrize(
    ("sizes_mib", "tasks", "expected"),
    [
        ([3], 2, 1),
        ([5, 3], 4, 2),
        ([40] * 8, 2, 2),
        ([100] * 3, 2, 2),
        ([90] * 6, 2, 4),  # two would read more than is read at once, and of three one would run by itself
        ([300, 300, 300, 300, 300], 4, 8),
    ],
)
def test_tasks_that_run_at_once_read_about_as_much(
    tmp_path: Path, sizes_mib: list[int], tasks: int, expected: int
) -> None:
    found = _task_bytes(tmp_path, sizes_mib, tasks)
    assert len(found) == expected
    assert max(found) <= 256 * _MIB + 4 * _MIB
    assert max(found) - min(found) <= max(4 * _MIB, max(found) // 2)
