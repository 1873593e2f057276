"""One disturbed run in Real-Time Mode: through however many drivers it takes, and what it has committed checked."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kafka_support
import live_jobs
import process_tree
from drivers import DriverProcess, Lost, Wrong
from kafka_broker import Broker
from live_driver import flag_of
from live_drivers import LiveDrivers, signal_all, state_of, victims
from live_plans import KEYS, PARTITIONS, RATE, LivePlan
from live_points import LiveDisturbance
from page_code import code_with

REAL_TIME, MICRO_BATCHES = {"realTime": "2 seconds"}, {"processingTime": "0 seconds"}
_PAGE = "real-time.md"
_LOOK_EVERY_S, _SEND_EVERY_S = 0.01, 0.25
#: A process reaches each point in every epoch; and a run that begins again so often gets nowhere.
_LONGEST_S, _MOST_STARTS = 120, 16


class LiveRun:
    """A run.

    Args:
        plan: what is done.
        folder: an empty folder for it.
        drivers: where it runs.
        broker: has its topics.
    """

    def __init__(self, plan: LivePlan, folder: Path, drivers: LiveDrivers, broker: Broker) -> None:
        self._plan, self._folder, self._drivers, self._broker = plan, folder, drivers, broker
        self._chance = plan.chance
        self._driver: DriverProcess | None = None
        self._trigger = self._running = REAL_TIME
        self._is_started = False
        self._source, self._target = broker.create("source", PARTITIONS), broker.create("target", 1)
        #: All values, in the order in which they were sent.
        self._sent: list[int] = []
        self._sent_at_s = 0.0
        self.kills: list[LiveDisturbance] = []
        self.lives = self._starts = 0
        #: What ended queries on the way, shortened.
        self.errors: Counter[str] = Counter()
        self.epochs = self.checkpoints = 0

    def perform(self) -> None:
        """Do all of it.

        Raises:
            Wrong: the result is not what it must be.
        """
        try:
            self._perform()
        except Wrong:
            if self._driver is not None:
                self._driver.end()
            raise

    def _perform(self) -> None:
        self._send(self._plan.backlog)
        for one in self._plan.disturbances:
            self._disturb(one)
        if self._plan.changes:
            for trigger in (MICRO_BATCHES, REAL_TIME):
                self._do("process")
                self._do("stop")
                self._is_started, self._trigger = False, trigger
                self._send(RATE // 2)
        self._do("process")
        self._do("stop")
        self._is_started = False
        assert self._driver is not None
        self._drivers.give_back(self._driver)  # to check with it, too
        self._driver = None
        self._check_state()
        self._check_output()

    # -- rows --------------------------------------------------------------------------------------------------------

    def _send(self, rows: int) -> None:
        first = len(self._sent)
        values = list(range(first, first + rows))
        if self._plan.kind == "deduplication":  # some come again
            values = [self._chance.choice(self._sent or [0]) if self._chance.random() < 0.3 else one for one in values]
        # All rows of a key are in one partition, in order.
        messages = [(value % KEYS % PARTITIONS, f"k{value % KEYS},{value},{value}") for value in values]
        self._broker.send(self._source, messages)
        self._sent += values

    def _send_sometimes(self) -> None:
        if time.monotonic() >= self._sent_at_s + _SEND_EVERY_S:
            self._sent_at_s = time.monotonic()
            self._send(round(RATE * _SEND_EVERY_S))

    # -- the driver --------------------------------------------------------------------------------------------------

    def _do(self, what: str) -> None:
        """Have the driver do something, however many lives it takes."""
        while True:
            self._come_to_work()
            with self._survived():
                assert self._driver is not None
                try:
                    self._driver.ask(do=what)
                except Wrong as error:
                    if state_of(self._driver)["active"]:
                        raise
                    self._ended(str(error))
                    continue
                return

    def _come_to_work(self, *, until_live: bool = True) -> None:
        """Have a driver in whose live phase the job is."""
        until = time.monotonic() + _LONGEST_S
        while time.monotonic() < until:
            with self._survived():
                if not self._is_started:
                    self._start()
                if not until_live:
                    return
                assert self._driver is not None
                status = state_of(self._driver)
                if not status["active"]:
                    self._ended(str(status["error"]))
                elif status["live"]:
                    return
            time.sleep(0.05)
        raise Wrong(f"the live phase does not come; {self.errors}")

    def _start(self) -> None:
        if self._driver is None:
            self._driver = self._drivers.take()
            self.lives += 1
        self._start_in(self._driver)
        self._running, self._is_started = self._trigger, True

    def _start_in(self, driver: DriverProcess) -> None:
        self._starts += 1
        if self._starts > _MOST_STARTS:
            raise Wrong(f"it gets nowhere; {self.errors}")
        driver.ask(
            do="start",
            kind=self._plan.kind,
            folder=str(self._folder),
            source=self._source,
            target=self._target,
            compacts=self._plan.compacts_eagerly,
            trigger=self._trigger,
        )

    def _ended(self, error: str) -> None:
        """The query has ended by itself, and is started again."""
        self.errors[error.replace("\n", " ")[:90]] += 1
        self._is_started = False

    @contextmanager
    def _survived(self) -> Iterator[None]:
        """The death of a driver is no more than that."""
        try:
            yield
        except Lost:
            self._lose()

    def _lose(self) -> None:
        self._driver, self._is_started = None, False
        if self._plan.changes_at_restart:
            self._trigger = MICRO_BATCHES

    # -- disturbances ------------------------------------------------------------------------------------------------

    def _disturb(self, one: LiveDisturbance) -> None:
        """Have a process held at the point, do it, and come to work again."""
        self._trigger = REAL_TIME
        if self._is_started and (one.point == "begun" or self._running != REAL_TIME):
            self._do("stop")
            self._is_started = False
        if one.point != "begun":
            self._come_to_work()
            self._rows_for(one.after_s)
        held = self._hold(one)
        assert self._driver is not None
        self._carry_out(one, self._driver, held)
        self.kills.append(one)
        self._rows_for(1.0)
        self._come_to_work()

    def _rows_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._send_sometimes()
            time.sleep(_LOOK_EVERY_S)

    def _hold(self, one: LiveDisturbance) -> int:
        """The id of the process that is held at the point."""
        until = time.monotonic() + _LONGEST_S
        if self._driver is None:
            self._driver = self._drivers.take()
            self.lives += 1
        driver = self._driver
        flag = flag_of(driver.folder, one.point)
        go = flag.with_name(f"{flag.name}.go")
        go.unlink(missing_ok=True)
        flag.unlink()
        self._come_to_work(until_live=False)
        looked_s = 0.0
        while not flag.exists() or not flag.read_text().endswith("\n"):
            self._send_sometimes()
            if time.monotonic() > looked_s + 1:
                looked_s = time.monotonic()
                status = state_of(driver)
                if not status["active"]:
                    raise Wrong(f"the query ended before it was disturbed: {status['error']}")
            if time.monotonic() > until:
                raise Wrong(f"nobody comes to {one.point!r}; see {driver.log}")
            time.sleep(_LOOK_EVERY_S)
        return int(flag.read_text())

    def _carry_out(self, one: LiveDisturbance, driver: DriverProcess, held: int) -> None:
        flag = flag_of(driver.folder, one.point)
        go, chosen = flag.with_name(f"{flag.name}.go"), victims(driver, held, one.victim)
        if not chosen:
            raise Wrong(f"there is no {one.victim}")
        signal_all(chosen, signal.SIGKILL if one.way == "kill" else signal.SIGSTOP)
        if one.way == "freeze":
            process_tree.kill([pid for pid in process_tree.find(driver.pid, "worker") if pid != held])
        if one.way == "takeover":
            self._take_over(one, driver, chosen, go)
            return
        go.touch()
        if one.way != "kill":
            self._rows_for(one.stop_s)
            signal_all(chosen, signal.SIGCONT)

    def _take_over(self, one: LiveDisturbance, driver: DriverProcess, stopped: list[int], go: Path) -> None:
        """A second driver begins while what was stopped stands still, and works while that goes on."""
        if one.victim != "driver":
            process_tree.kill([driver.pid])
        go.touch()
        self._lose()
        self._come_to_work()
        self._rows_for(one.stop_s)
        signal_all(stopped, signal.SIGCONT)
        if one.victim != "driver":
            return
        until = time.monotonic() + _LONGEST_S
        try:
            while state_of(driver)["active"]:
                if time.monotonic() > until:
                    raise Wrong(f"a driver whose place was taken goes on; see {driver.log}")
                self._rows_for(0.2)
            self.errors[str(state_of(driver)["error"]).replace("\n", " ")[:60]] += 1
            self._drivers.give_back(driver)
        except Lost:
            pass

    # -- results -----------------------------------------------------------------------------------------------------

    def _check_state(self) -> None:
        found = self._drivers.check(kind=self._plan.kind, folder=str(self._folder), source=self._source)
        self.epochs, self.checkpoints = found["epochs"], found["checkpoints"]
        if found["different"]:
            raise Wrong("\n".join(["a committed state differs:", *found["different"]]))

    def _check_output(self) -> None:
        messages = kafka_support.messages(self._broker, self._target)
        distinct = list(dict.fromkeys(self._sent))
        if self._plan.kind == "aggregate":
            reader, last = code_with(_PAGE, "LastOfEachKey")(), {}
            for key, value, headers in messages:
                if reader.is_news(key, headers):
                    last[key] = value
            found = Counter(last.items())
            greatest: dict[str, str] = {}
            for value in distinct:
                key = f"k{value % KEYS}"
                greatest[key] = max(greatest.get(key, ""), live_jobs.text(value))
            wanted = Counter(greatest.items())
        else:
            found = Counter((key, value) for key, value in _that_count(messages))
            numbers: Counter[str] = Counter()
            wanted = Counter()
            for value in distinct:
                key = f"k{value % KEYS}"
                numbers[key] += 1
                of_processor = f"{value},{numbers[key]}"
                wanted[key, of_processor if self._plan.kind == "processor" else live_jobs.text(value)] += 1
        missing, extra = wanted - found, found - wanted
        if missing or extra:
            some = f"missing {sorted(missing)[:5]}, extra {sorted(extra)[:5]}"
            raise Wrong(f"the output differs: {missing.total()} missing, {extra.total()} extra: {some}")


def _that_count(messages: list[Any]) -> Iterator[tuple[str, str]]:
    """Those that no later run has replaced; micro-batches' always count."""
    tokens = [kafka_support.token(headers) for _, _, headers in messages]
    with_token = [place for place, token in enumerate(tokens) if token is not None]
    counting = code_with(_PAGE, "not_replaced")([tokens[place] for place in with_token])
    counts = {with_token[place] for place in counting} | {p for p, token in enumerate(tokens) if token is None}
    return ((messages[place][0], messages[place][1]) for place in sorted(counts))
