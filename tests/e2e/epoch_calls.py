"""Counts what the epochs of a query with rows cost the driver: calls to the JVM, and plans that Spark has to make."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from mixedmode.runtime.catalyst.prepared.batch_calls import BatchFunction
from mixedmode.runtime.catalyst.prepared.prepared_physical_plan import PreparedPhysicalPlan
from mixedmode.runtime.driver.epochs.epoch_runner import EpochRunner
from py4j.clientserver import ClientServerConnection


class EpochCalls:
    """Counts on the thread that runs an epoch.

    Args:
        replace: as ``setattr``.
    """

    def __init__(self, replace: Callable[[Any, str, Any], None] = setattr) -> None:
        #: Of each epoch its calls.
        self.by_epoch: list[int] = []
        #: Of each micro-batch all calls, from where Spark calls with it to the end of that call.
        self.by_batch: list[int] = []
        #: Of each epoch its jobs whose plan was there already.
        self.ready: list[int] = []
        #: The plans of these jobs, in order.
        self.plans: list[PreparedPhysicalPlan] = []
        self._now = threading.local()
        send, run, collected, take = (
            ClientServerConnection.send_command,
            EpochRunner.streaming_epoch,
            PreparedPhysicalPlan.collected,
            BatchFunction.call,
        )

        def counted(connection: Any, command: str) -> Any:
            if hasattr(self._now, "calls"):
                self._now.calls += 1
            return send(connection, command)

        def epoch(runner: Any, phase: Any, rows: Any, *others: Any, **more: Any) -> None:
            within = hasattr(self._now, "calls")
            before = self._now.calls = getattr(self._now, "calls", 0)
            self._now.ready = 0
            run(runner, phase, rows, *others, **more)
            if rows is not None:
                self.by_epoch.append(self._now.calls - before)
                self.ready.append(self._now.ready)
            del self._now.ready
            if not within:
                del self._now.calls

        def batch(function: Any, frame: Any, batch_id: int) -> Any:
            if hasattr(self._now, "calls"):  # one that has come unread is read
                return take(function, frame, batch_id)
            self._now.calls = 0
            take(function, frame, batch_id)
            self.by_batch.append(self._now.calls)
            del self._now.calls
            return None

        def ready(template: Any, *arguments: Any) -> Any:
            if hasattr(self._now, "ready"):
                self._now.ready += 1
                self.plans.append(template)
            return collected(template, *arguments)

        replace(ClientServerConnection, "send_command", counted)
        replace(EpochRunner, "streaming_epoch", epoch)
        replace(PreparedPhysicalPlan, "collected", ready)
        replace(BatchFunction, "call", batch)
