"""A coordinator and a processor that count: each end sends 0, 1, 2, … and writes down what it has received.

Any event that is lost, doubled or out of order is not the next number; both ends raise at once.  Shared by the
end-to-end tests and the driver that is killed.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

OUTPUT = "kind string, shard long, number long"


class Counting(StatefulProcessor):
    """One event to the coordinator per row; of each event from it a row.  The shard's counts are its own state."""

    def init(self, handle: Any) -> None:
        self._coordinator = handle.coordinator
        self._kept: dict[str, Any] = {"sent": 0, "received": 0}

    def restoreShard(self, states: list[dict[str, Any]]) -> None:
        for state in states:
            self._kept = state

    def snapshotShard(self) -> dict[str, Any]:
        return self._kept

    def handleEvent(self, event: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        if event["number"] != self._kept["received"]:
            raise AssertionError(f"shard {event['shard']} got {event['number']}, expected {self._kept['received']}")
        self._kept["received"] += 1
        yield ("event", event["shard"], event["number"])

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for _ in rows:
            self._coordinator.send(self._kept["sent"])
            self._kept["sent"] += 1
        return iter(())

    def finish(self) -> Iterator[tuple[Any, ...]]:
        yield ("finished", None, self._kept["received"])


class Numbering(mixedmode.OperatorCoordinator):
    """Sends its numbers from a thread of its own, and one inside each checkpoint().

    Args:
        total: how many numbers each shard is sent.
        every_s: time between two of them; None: all are sent when the first event has come.
        per_checkpoint: how many the thread sends between two checkpoints, so that a slow machine has checkpoints as
            often as a fast one; None: any number.
        serialises_first: in checkpoint(), make the state before sending, as it will be.
    """

    def __init__(
        self,
        total: int,
        every_s: float | None = None,
        per_checkpoint: int | None = None,
        serialises_first: bool = False,
    ) -> None:
        self.total = total
        self._serialises_first = serialises_first
        self._per_checkpoint = per_checkpoint
        self._every_s = every_s
        self._restored = False

    def restore(self, state: bytes) -> None:
        body = json.loads(state)
        self.sent, self.received = body["sent"], {int(shard): n for shard, n in body["received"].items()}
        self._restored = True

    def open(self, context: mixedmode.CoordinatorContext) -> None:
        if not self._restored:
            self.sent, self.received = 0, {}
        self._restored = False
        self._since_checkpoint = 0
        self.context = context
        self.resets: list[tuple[int, int]] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if self._every_s is not None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def subtaskReset(self, shard: int, checkpointId: int) -> None:
        self.resets.append((shard, checkpointId))

    def _run(self) -> None:
        while self.sent < self.total and not self._ended.wait(self._every_s):
            with self.context.lock:
                if self._since_checkpoint != self._per_checkpoint:
                    self._since_checkpoint += 1
                    self.send_one()

    def send_one(self) -> None:
        if self.sent < self.total:
            for shard in range(self.context.parallelism):
                self.context.gateway(shard).send({"shard": shard, "number": self.sent})
            self.sent += 1

    def handleEventFromSubtask(self, shard: int, event: int) -> None:
        expected = self.received.get(shard, 0)
        if event != expected:
            raise AssertionError(f"the coordinator got {event} from shard {shard}, expected {expected}")
        self.received[shard] = expected + 1
        while self._every_s is None and self.sent < self.total:
            self.send_one()

    def checkpoint(self) -> bytes:
        self._since_checkpoint = 0
        sends = self._every_s is not None and self.sent < self.total
        state = self._state(self.sent + sends) if self._serialises_first else None
        if sends:
            self.send_one()
        return state or self._state(self.sent)

    def _state(self, sent: int) -> bytes:
        return json.dumps({"sent": sent, "received": self.received}).encode()

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()


def described(history: Any, live: Any, coordinator: mixedmode.OperatorCoordinator | None) -> Any:
    """The job."""
    return (
        mixedmode.read(history=history, live=live)
        .groupBy("key")
        .transformWithState(Counting(), OUTPUT, "append", "none", coordinator=coordinator)
        .uid("numbering")
    )


def stored(checkpoints: Path) -> dict[str, Any]:
    """The newest checkpoint's coordinator state, the shards' own states, and the events on their way."""
    newest = max((checkpoints / "mixedmode" / "checkpoints").glob("*/_metadata"))
    operator = json.loads(json.loads(newest.read_text())["body"])["operators"][0]
    return {
        "coordinator": json.loads(base64.b64decode(operator["coordinator"])),
        "shards": [json.loads(shard["own_state"][-1]) for shard in operator["shards"] if shard["own_state"]],
        "events": operator["buffered_events"],
    }


def check_all_there(checkpoints: Path, rows: int, total: int, shards: int) -> None:
    """Both ends of the newest checkpoint have sent and received everything, once."""
    found = stored(checkpoints)
    waiting = {entry["shard"]: len(entry["events"]) for entry in found["events"] if entry["to"] == "subtask"}
    assert len(found["shards"]) == shards
    assert found["coordinator"]["sent"] == total
    for shard, state in enumerate(found["shards"]):
        assert state["received"] + waiting.get(shard, 0) == total
        assert state["sent"] == found["coordinator"]["received"][str(shard)]
    assert sum(found["coordinator"]["received"].values()) == rows
