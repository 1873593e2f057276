"""The driver's half of the protocol: it looks at what the shards report and what Spark read, and commits epochs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import records
from plan import PARTITIONS, SHARDS
from timeline import Timeline

if TYPE_CHECKING:
    from mixedmode.state.store.state_manifest import StateManifest
    from pyspark.sql.streaming import StreamingQuery

#: The run's number; a folder is used for one run, so there is no other.
RUN = 1
#: The record that says that the run begins.  Epoch N waits for record N + 1, which commits what is before it.
FIRST_RECORD = 1


class Commits:
    """The committed position, and how it moves on.

    Args:
        folder: of the run.
        source: the topic that is read.
        manifests: of the shards, before the first epoch.
        log: the timeline.
    """

    def __init__(self, folder: str, source: str, manifests: list[StateManifest], log: Timeline) -> None:
        self._folder, self._source, self._log = folder, source, log
        self.manifests = manifests
        #: Committed offsets by source partition.
        self.ends = {str(partition): 0 for partition in range(PARTITIONS)}
        #: The newest committed epoch.
        self.epoch = -1
        self._put(0, run=0, ends={})
        self._put(FIRST_RECORD, begin=True, ends={})

    @property
    def rows(self) -> int:
        """How many are committed."""
        return sum(self.ends.values())

    def commit_next(self, query: StreamingQuery) -> bool:
        """Commit the next epoch if all shards have reported it; False: they have not."""
        epoch = self.epoch + 1
        reports = [f"{self._folder}/reports/{RUN}-{epoch}-{shard}" for shard in range(SHARDS)]
        if not all(map(os.path.exists, reports)):
            return False
        self._log("driver reports there", epoch=epoch)
        progress = self._progress(query, epoch)
        told = [json.loads(Path(report).read_text()) for report in reports]
        end = self._checked(progress, told)
        from mixedmode.state.store.files import StateFile

        new = [[StateFile.from_json(file) for file in report["files"]] for report in told]
        self.manifests = [old.append(files) for old, files in zip(self.manifests, new, strict=True)]
        self.epoch, self.ends = epoch, end
        self._put(epoch + 1 + FIRST_RECORD, ends=end)
        self._log("driver committed", epoch=epoch)
        return True

    def _put(self, number: int, *, run: int = RUN, **more: Any) -> None:
        body = {"kind": "commit", "run": run, "epoch": self.epoch, **more}
        body["shards"] = [manifest.to_json() for manifest in self.manifests]
        if not records.put_if_absent(f"{self._folder}/log", number, body):
            raise RuntimeError(f"fenced off: record {number} is there")

    def _progress(self, query: StreamingQuery, epoch: int) -> dict[str, Any]:
        """Spark's progress of an epoch; its own commit comes just before, and is cheaper to look for."""
        while query.isActive and not os.path.exists(f"{self._folder}/spark-log-{RUN}/commits/{epoch}"):
            time.sleep(0.004)
        while (progress := query.lastProgress) is None or progress["batchId"] < epoch:
            if not query.isActive:
                raise RuntimeError(f"the query ended: {query.exception()}")
            time.sleep(0.002)
        found: dict[str, Any] = progress if isinstance(progress, dict) else json.loads(progress.json)
        self._log("driver progress", epoch=found["batchId"], durations=found["durationMs"])
        return found

    def _checked(self, progress: dict[str, Any], told: list[dict[str, Any]]) -> dict[str, int]:
        """The epoch's end offsets, if the shards have seen just the rows before them."""
        place, epoch, ends = progress["sources"][0], self.epoch + 1, self.ends
        start, end = self._offsets(place["startOffset"]), self._offsets(place["endOffset"])
        right = progress["batchId"] == epoch and start == ends
        right &= all((report["run"], report["epoch"]) == (RUN, epoch) for report in told)
        for partition, to in end.items():
            since = ends[partition]
            right &= sum(report["counts"].get(partition, 0) for report in told) == to - since
            of_offsets = (to * (to - 1) - since * (since - 1)) // 2
            right &= sum(report["sums"].get(partition, 0) for report in told) == of_offsets
        if not right:
            seen = [(report["counts"], report["sums"]) for report in told]
            raise RuntimeError(f"refused: epoch {progress['batchId']} of {start} to {end} behind {ends}: {seen}")
        return end

    def _offsets(self, told: Any) -> dict[str, int]:
        """By partition, as Spark's progress tells them; nothing told: the beginning."""
        told = json.loads(told) if isinstance(told, str) else told
        return {partition: int(told[self._source][partition]) if told else 0 for partition in self.ends}
