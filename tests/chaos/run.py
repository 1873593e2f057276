"""One chaos run: the steps of a plan, carried out through however many drivers it takes, and its result checked."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import models
import outputs
import support
from disturber import flag_of
from drivers import DriverProcess, Drivers, Lost, Wrong
from jobs import FINAL_STATE
from plans import FLUSH_KEY, INTERVAL, MAX_DELAY_S, Plan, Step
from points import Disturbance

#: How often and how long is looked whether the last rows have come.
_LOOKS, _LONGEST_S = 3, 120


class Run:
    """A run.

    Args:
        plan: what is done.
        folder: an empty folder for it.
        drivers: where it runs.
    """

    def __init__(self, plan: Plan, folder: Path, drivers: Drivers) -> None:
        self._plan = plan
        self._folder = folder
        self._drivers = drivers
        self._driver: DriverProcess | None = None
        #: Disturbances that were armed and have not happened, by number; and those that have.
        self._armed: dict[int, Disturbance] = {}
        self.kills: list[Disturbance] = []
        #: How many epochs were applied while a checkpoint was completed beside them.
        self.overlaps = 0
        self._explained = 0
        self._numbers = iter(range(10_000))
        self._inputs = [support.World(None, folder / f"live-{number}") for number in range(plan.inputs)]  # type: ignore[arg-type]
        # How the job is to be started.
        self._runs = self._is_started = False
        self._start: dict[str, Any] = {}
        self._starts = 0
        self._generation = self._savepoints = self.lives = 0

    def perform(self) -> None:
        """Do all of it.

        Raises:
            Wrong: the result is not what it must be.
        """
        plan = self._plan
        if plan.history:
            support.write(self._folder / "history.parquet", plan.history)
        for world, rows in zip(self._inputs, plan.waiting, strict=True):
            if rows:
                world.land(rows)
        does: dict[str, Callable[[Step], None]] = {
            "start": self._start_again,
            "restore": self._restore,
            "land": self._land,
            "flush": self._flush,
            "drain": self._drain,
        }
        try:
            for step in plan.steps:
                self._arm(step.disturbances)
                does[step.do](step)
                self._note_kills()
            self._check_state()
        finally:
            self._disarm()

    # -- steps -------------------------------------------------------------------------------------------------------

    def _start_again(self, step: Step) -> None:
        if self._runs:
            self._do("stop")
            self._is_started = False
        first = {"history": True, "out": "out-0", "checkpoints": "checkpoints-0"}
        self._start = {**first, **self._start, "pipeline.parallelism": str(step.parallelism)}
        self._runs = True
        self._at_work()

    def _restore(self, step: Step) -> None:
        path = self._take_savepoint(drain=False)
        self._generation += 1
        out = self._start["out"] if step.same_output else f"out-{self._generation}"
        self._start = {
            "history": step.keeps_history,
            "out": out,
            "checkpoints": f"checkpoints-{self._generation}",
            "pipeline.parallelism": str(step.parallelism),
            "execution.savepoint.path": path,
        }
        self._at_work()

    def _land(self, step: Step) -> None:
        for number in step.files:
            where, rows = self._plan.files[number]
            self._inputs[where].land(rows)
        self._do("process")

    def _flush(self, step: Step) -> None:
        last = max(event[1] for event in [*self._plan.backlog, *self._plan.live])
        for world in self._inputs:
            world.land([(FLUSH_KEY, last + 100 * MAX_DELAY_S, 0)])
        wanted, until = models.expected(self._plan), time.monotonic() + _LONGEST_S
        looks = 0
        while True:
            self._do("process")
            looks += 1
            found = self._seen()
            is_over = time.monotonic() > until if self._plan.kind == "ticks" else looks == _LOOKS
            if found == wanted or is_over:
                break
            time.sleep(0.02)  # between two looks at clocks of the job
        self._do("stop")
        self._is_started, self._runs = False, False
        self._compare("output", wanted, self._seen())

    def _drain(self, step: Step) -> None:
        self._take_savepoint(drain=True)
        self._runs = False
        self._compare("output", models.expected(self._plan), self._seen())

    def _take_savepoint(self, drain: bool) -> str:
        """Stop with a savepoint; if that is disturbed the next life finishes or forgets it, and it is done again."""
        path = ""

        def command() -> dict[str, Any]:
            nonlocal path
            path = str(self._folder / f"savepoint-{self._savepoints}")
            self._savepoints += 1
            return {"path": path, "drain": drain}

        self._do("savepoint", command)
        self._is_started = False
        return path

    # -- the driver --------------------------------------------------------------------------------------------------

    def _do(self, what: str, arguments: Callable[[], dict[str, Any]] = dict) -> Any:
        """Have the driver do something, however many lives it takes."""
        while True:
            with self._survived():
                driver = self._at_work_once()
                return driver.ask(do=what, **arguments())

    def _at_work(self) -> None:
        done = False
        while not done:
            with self._survived():
                self._at_work_once()
                done = True

    def _at_work_once(self) -> DriverProcess:
        """A driver, in which the job runs if it is to."""
        if self._driver is None:
            self._driver = driver = self._drivers.current(self._plan.cluster)
            self.lives += 1
            for number, one in self._armed.items():
                self._tell(driver, number, one)
        if self._runs and not self._is_started:
            plan = [self._plan.seed, self._plan.number, self._plan.cluster]
            interval = {INTERVAL: self._plan.interval_of(self._starts)}
            self._starts += 1
            self._driver.ask(do="start", plan=plan, folder=str(self._folder), **interval, **self._start)
            self._is_started = True
        return self._driver

    @contextmanager
    def _survived(self) -> Iterator[None]:
        """The death of a driver that was killed is no more than that."""
        try:
            yield
        except Lost:
            assert self._driver is not None
            self._note_kills()
            fatal = sum(one.is_fatal for one in self.kills)
            log, self._driver, self._is_started = self._driver.log, None, False
            chance = random.Random(f"{self._plan.seed}/{self._plan.number}/{self.lives}")
            self._drivers.drop(orphans=chance.random() < 0.5)
            if fatal == self._explained:
                raise Wrong(f"the driver or its JVM ended although nobody killed it; see {log}") from None
            self._explained = fatal

    # -- disturbances ------------------------------------------------------------------------------------------------

    def _arm(self, disturbances: tuple[Disturbance, ...]) -> None:
        for one in disturbances:
            if one.in_task and one in self._armed.values():
                continue
            number = next(self._numbers)
            self._armed[number] = one
            if self._driver is not None:
                with self._survived():
                    self._tell(self._driver, number, one)

    def _tell(self, driver: DriverProcess, number: int, one: Disturbance) -> None:
        if one.in_task:
            flag_of(driver.folder, one).unlink(missing_ok=True)
        else:
            driver.ask(do="arm", number=number, disturbance=asdict(one))

    def _note_kills(self) -> None:
        if self._driver is None:
            return
        self.overlaps += self._driver.new_overlaps()
        kills = self._driver.folder / "kills"
        happened = {int(line.split()[0]) for line in kills.read_text().splitlines()} if kills.exists() else set()
        for number, one in list(self._armed.items()):
            if flag_of(self._driver.folder, one).exists() if one.in_task else number in happened:
                self.kills.append(self._armed.pop(number))

    def _disarm(self) -> None:
        """Leave the driver as the next run wants it."""
        if self._driver is None:
            return
        self._note_kills()
        for one in self._armed.values():
            if one.in_task:
                flag_of(self._driver.folder, one).touch()
        try:
            self._driver.ask(do="disarm")
        except (Lost, Wrong):
            self._drivers.drop()
        (self._driver.folder / "kills").unlink(missing_ok=True)

    # -- results -----------------------------------------------------------------------------------------------------

    def _seen(self) -> list[models.Row]:
        try:
            rows = outputs.committed(self._folder, last_only=self._plan.kind == "totals")
        except AssertionError as wrong:
            raise Wrong(str(wrong)) from None
        return models.seen(self._plan, rows)

    def _check_state(self) -> None:
        if self._plan.drains:
            return
        name = FINAL_STATE.get(self._plan.kind)
        location = str(self._folder / self._start["checkpoints"])
        found = {key: tuple(value) for key, value in self._do("state", lambda: {"location": location, "name": name})}
        found.pop(FLUSH_KEY, None)
        if self._plan.kind == "ticks":  # how often it ticked is a matter of time; that it stands still is not
            found = {key: value for key, value in found.items() if value[1]}
        self._compare("state", sorted(models.expected_state(self._plan).items()), sorted(found.items()))

    def _compare(self, what: str, wanted: list[Any], found: list[Any]) -> None:
        if found == wanted:
            return
        missing = Counter(map(repr, wanted)) - Counter(map(repr, found))
        extra = Counter(map(repr, found)) - Counter(map(repr, wanted))
        some = [*(f"  missing {row}" for row in list(missing)[:5]), *(f"  extra   {row}" for row in list(extra)[:5])]
        counts = f"{missing.total()} missing, {extra.total()} extra of {len(wanted)}"
        raise Wrong("\n".join([f"the {what} differs: {counts}", *some]))
