"""Micro-batches of one small file, which the one task of an epoch reads by itself."""

from __future__ import annotations

from typing import Any

import mixedmode
import pyarrow as pa
import pytest
import support
from mixedmode.runtime.jobs.small_files import SmallFiles
from support import World

EVENTS = support.stream_of(160, seed=4, keys=70)


@pytest.mark.slow
def test_a_task_reads_small_files_until_it_has_to_leave_them_to_spark(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each key the first row that has arrived goes out.  A file whose numbers Spark would widen is Spark's, and so
    are those behind it."""
    in_task: list[set[bool]] = []
    read_in_task = SmallFiles.read_in_task

    def noted(files: SmallFiles, *arguments: Any) -> Any:
        found = read_in_task(files, *arguments)
        in_task[-1].add(found is not None)
        return found

    in_task.append(set())
    monkeypatch.setattr(SmallFiles, "read_in_task", noted)
    rows = mixedmode.read(history=world.history(EVENTS[:20]), live=world.live(maxFilesPerTrigger="1"))
    query = support.live(world.start(rows.dropDuplicates(["key"]), {"execution.checkpointing.interval": "1 hour"}))
    in_task.clear()
    narrow = support.ARROW_SCHEMA.set(2, pa.field("value", pa.int32()))
    parts = [EVENTS[start : start + 20] for start in range(20, 160, 20)]
    for number, part in enumerate(parts):
        rows = support.table(part)
        in_task.append(set())
        world.land_tables(rows.cast(narrow) if number == 4 else rows)
        query.processAllAvailable()
    support.stop(query)
    # The first one shows what the files are; in the fifth one the task tries.
    assert False in in_task[0] and all(True in each for each in in_task[1:5]), in_task
    assert not any(True in each for each in in_task[5:]), in_task
    expected = {key: (key, support.at(seconds), value) for key, seconds, value in reversed(EVENTS)}
    assert world.output() == sorted(expected.values(), key=repr)
