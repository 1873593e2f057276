"""A processor, run in the test's own process: its real operator, state, timers, watermark and epochs, without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from ..errors import PlanError, QueryError
from ..runtime.driver.clocks import processing_time
from ..runtime.driver.epochs.epoch_specs import OBSERVED
from ..runtime.driver.epochs.source_rows import SourceRows
from ..runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..runtime.protocols.operator_events.coordinator import OperatorCoordinator
from ..runtime.protocols.operator_events.event_codec import decode, types_by_name
from ..runtime.spec import Phase
from .harness_arguments import HarnessArguments, OptionValue, harness_arguments
from .input_splits import BEFORE_THE_END, InputSplit, check_same, input_splits
from .local_job import LocalJob
from .local_stage import UID
from .row_tables import GivenRow, GivenRows, Output, moment_ms, plain_rows, rows_of
from .state_methods import StateMethods
from .user_errors import as_raised

_BACKLOG = Phase(kind="backlog", reason="a test", style="sorted")
_LIVE = Phase(kind="live", reason="a test")
#: So often the clock may find something due at one and the same time: more is a timer that registers itself for ever.
_MOST_TICKS = 1000


@dataclass(frozen=True)
class Event:
    """An event that a processor has sent to its coordinator."""

    shard: int
    event: Any


class Harness(StateMethods):
    """Runs a ``StatefulProcessor`` epoch by epoch, as a job does, in this process and without Spark.

        harness = Harness(Rotations(), key="tailnum", schema="tailnum string, ts timestamp, delay long",
                          output="tailnum string, legs long", time_mode="eventTime", event_time="ts", delay="1 hour")
        harness.backlog(history)            # one sorted pass, key by key, and the switch
        out = harness.push([("N1", datetime(2024, 1, 1), 5)])
        assert harness.peek_value_state("legs", "N1") == (1,)
        harness.set_watermark(datetime(2024, 1, 2))
        harness.assert_same_results(rows)   # however the rows are cut

    It runs the same operator, RocksDB, watermark and epoch rules as a job.  It replaces only Spark: the shuffle and the
    sort.  It can run processors only: operations of Spark itself (aggregates, joins, deduplication, ``select``,
    ``where``) need a session, see :func:`mixedmode.testing.run_job`.

    Args:
        processor: an instance; of two inputs if ``schema`` is a pair.
        key: the key column, or columns in order.  For two inputs a pair, one for each, or one for both.
        schema: the columns of the rows, as a ``StructType`` or DDL; a pair for a processor after ``cogroup``.
        output: the columns of the processor's output, as ``outputStructType``.
        time_mode: ``none``, ``processingTime`` or ``eventTime``, as ``timeMode``.
        event_time: the column of ``withWatermark``; for two inputs a pair, None for one without.
        delay: the delay of the watermark, such as ``"1 hour"``.
        in_pandas: the handlers take and yield pandas frames (``transformWithStateInPandas``).
        initial_state: the first rows, which go to ``handleInitialState`` in the first epoch.
        initial_schema: their columns; the key columns are named as those of the rows.
        coordinator: runs for real, and exchanges events with the processor.
        options: options of the job, as ``.option()`` takes them, such as ``execution.backlog.final-watermark``.
        shards: the number of shards of the stage; with one, keys come in their order.
        processing_time: the first value of the clock, in milliseconds or as a datetime.
        time_zone: the zone of timestamps in pandas frames; None: that of this process.

    Raises:
        PlanError: an argument does not fit; the message names it.
        OptionError: an option is unknown, or its value is not allowed.
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        *,
        key: str | Sequence[str] | tuple[Sequence[str], Sequence[str]],
        schema: StructType | str | tuple[StructType | str, StructType | str],
        output: StructType | str,
        time_mode: str = "none",
        event_time: str | tuple[str | None, str | None] | None = None,
        delay: str = "0",
        in_pandas: bool = False,
        initial_state: GivenRows | None = None,
        initial_schema: StructType | str | None = None,
        coordinator: OperatorCoordinator | None = None,
        options: Mapping[str, OptionValue] | None = None,
        shards: int = 1,
        processing_time: int | datetime = 0,
        time_zone: str | None = None,
    ) -> None:
        self._open(
            harness_arguments(
                processor,
                key,
                schema,
                output,
                time_mode,
                event_time,
                delay,
                in_pandas=in_pandas,
                initial_state=initial_state,
                initial_schema=initial_schema,
                coordinator=coordinator,
                options=options or {},
                shards=shards,
                processing_time=processing_time,
                time_zone=time_zone,
            )
        )

    def _open(self, asked: HarnessArguments) -> None:
        self._asked, self._now_ms = asked, asked.start_ms
        self._folder = tempfile.TemporaryDirectory(prefix="mixedmode-harness-", ignore_cleanup_errors=True)
        self._switched = self._ended = False
        self._late = 0
        #: What the processor has sent to its coordinator, in order; from a backlog it arrives at the switch.
        self.events: list[Event] = []
        settings = asked.settings
        with as_raised(), processing_time(lambda: self._now_ms):
            self._job = LocalJob(
                self._folder.name,
                [asked.stage.spec(settings)],
                {UID: asked.stage.prepared},
                settings.model_copy(update={"max_parallelism": asked.stage.max_parallelism}),
                shards=asked.shards,
                inputs=asked.stage.inputs,
                told=self._told,
            )

    def _another(self) -> Harness:
        """A harness that has seen nothing yet."""
        made: Harness = object.__new__(Harness)
        made._open(self._asked)
        return made

    def _told(self, fact: Any) -> None:
        coordinator = self._asked.stage.coordinator
        types = () if coordinator is None else coordinator.eventTypes
        known = types_by_name(types, type(coordinator).__name__)
        for stage in fact.stages:
            for report in stage.reports:
                self._late += report.counters.rows_late
                self.events += [Event(report.shard, decode(text, known)) for text in report.events]

    # -- rows and time -------------------------------------------------------------------------------------------------

    def backlog(self, rows: GivenRows, right: GivenRows = ()) -> Output:
        """Processes rows as a backlog: sorted, one key at a time with its state in memory, then the switch.

            harness.backlog([("N1", datetime(2024, 1, 1), 5)])

        Called again later: a stream that has fallen back into backlog.  Under ``execution.runtime-mode = batch`` the
        input ends with it.

        Args:
            rows: the rows.
            right: the rows of the second input.

        Returns:
            The rows that the processor yields, key after key.
        """
        first = self._job.state.epoch == 0 and not self._switched
        with self._epoch("backlog") as epochs:
            source = self._source(rows, right, "backlog()")
            if self._asked.settings.runtime_mode == "batch":
                epochs.sorted_pass(_BACKLOG, source, MAX_WATERMARK, at_end=True)
                self._ended = True
            elif first:
                is_max = self._asked.final_watermark == "max"
                epochs.sorted_pass(_BACKLOG, source, MAX_WATERMARK if is_max else OBSERVED)
            else:
                epochs.sorted_pass(_LIVE, source, OBSERVED, drop_late=True)
            self._switch()
            self._job.events.hand_over()
        return self._output()

    def push(
        self,
        rows: GivenRows,
        right: GivenRows = (),
        *,
        settle: bool = True,
    ) -> Output:
        """Processes rows as one micro-batch of the stream.

            harness.push([{"tailnum": "N1", "ts": datetime(2024, 1, 1), "delay": 5}])

        Args:
            rows: the rows.
            right: the rows of the second input.
            settle: then call :meth:`settle`, as if no rows came for a while; False: the next rows come at once, before
                the
                watermark that these rows move has fired anything.

        Returns:
            The rows that the processor yields.
        """
        with self._epoch("push") as epochs:
            self._switch()
            epochs.streaming_epoch(_LIVE, self._source(rows, right, "push()"))
            if settle:
                self._settle()
        return self._output()

    def settle(self) -> Output:
        """Fires what is due and delivers events, without new rows, as micro-batches of Spark without data do:
        ``harness.settle()``.
        """
        with self._epoch("settle"):
            self._switch()
            self._settle()
        return self._output()

    def set_watermark(self, watermark: int | datetime) -> Output:
        """Moves the watermark, as a later row of another key would; everything that is due fires.

            harness.set_watermark(datetime(2024, 1, 2))

        Args:
            watermark: in milliseconds, or a datetime.

        Raises:
            PlanError: the time mode is not eventTime, or the watermark would go back.
        """
        if self._asked.stage.time_mode != "eventTime":
            raise PlanError(f"set_watermark() needs time_mode eventTime, it is {self._asked.stage.time_mode}")
        to_ms = moment_ms(watermark, "set_watermark()")
        tracker = self._job.state.stages[UID].watermark
        if to_ms <= max(tracker.current_ms, tracker.would_reach(None)):
            raise PlanError(f"set_watermark({watermark!r}): it must go forwards, and is {tracker.current_ms}")
        with self._epoch("set_watermark"):
            self._switch()
            for one in tracker.inputs.values():
                one.see(to_ms + one.delay_ms)
            self._settle()
        return self._output()

    def set_processing_time(self, now: int | datetime) -> Output:
        """Moves the clock; everything that is due fires, and expired state (TTL) is removed.

            harness.set_processing_time(datetime(2024, 1, 2))

        Args:
            now: in milliseconds, or a datetime.

        Raises:
            PlanError: the clock would go back.
        """
        to_ms = moment_ms(now, "set_processing_time()")
        if to_ms < self._now_ms:
            raise PlanError(f"set_processing_time({now!r}): it must go forwards, and is {self._now_ms}")
        with self._epoch("set_processing_time"):
            self._switch()
            self._now_ms = to_ms
            self._settle()
        return self._output()

    def end(self) -> Output:
        """Ends all input: event-time timers fire, then ``endInput()`` and ``finish()`` run: ``harness.end()``."""
        with self._epoch("end") as epochs:
            self._switch()
            self._job.events.hand_over()
            state = self._job.state
            state.stages[UID].watermark.end_of_input()
            epochs.fire_all(_LIVE, UID)
            epochs.finish_operators(_LIVE, UID)
            state.stages[UID].finished = state.finished = True
            self._ended = True
        return self._output()

    def restart(self, shards: int | None = None) -> None:
        """Continues from a checkpoint as a new process would; the coordinator continues from its ``restore``.

            harness.restart(shards=4)

        Args:
            shards: the new number of shards, if there was more than one; None: no change.

        Raises:
            PlanError: the state cannot have that many shards.
        """
        held = self._asked.stage.max_parallelism
        if shards is not None and not 1 <= shards <= held:
            raise PlanError(f"restart(shards={shards}): this state can be dealt to 1 to {held}; make it with more")
        with self._epoch("restart"):
            self._job.restart(shards or len(self._job.state.stages[UID].shards))

    @contextmanager
    def _epoch(self, what: str) -> Iterator[Any]:
        __tracebackhide__ = True  # of no interest to whoever reads what pytest shows
        if self._ended:
            raise QueryError(f"{what}(): the input has ended; make another Harness")
        with as_raised(), processing_time(lambda: self._now_ms):
            yield self._job.epochs

    def _source(self, rows: Any, right: Any, what: str) -> SourceRows:
        given = [(0, row) for row in plain_rows(rows, what)]
        others = [(1, row) for row in plain_rows(right, f"right of {what}")]
        if others and not self._asked.stage.is_cogroup:
            raise PlanError(f"{what} got rows of a second input, but schema names one; give it a pair")
        return self._source_of([*given, *others], what)

    def _source_of(self, rows: Sequence[tuple[int, GivenRow]], what: str) -> SourceRows:
        frame: Any = self._asked.stage.frame(rows, what)
        return SourceRows(lives=({0: frame},))

    def _switch(self) -> None:
        """No input is in backlog any more."""
        self._switched = True
        for name in self._job.state.sources:
            self._job.state.set_source(name, is_backlog=False)

    def _settle(self) -> None:
        epochs = self._job.epochs
        epochs.send_events(_LIVE)
        for _ in range(_MOST_TICKS):
            if not epochs.tick(_LIVE, self._now_ms, idle=True):
                return
        raise QueryError(f"after {_MOST_TICKS} epochs something is still due: a timer registers another one each time")

    def _output(self) -> Output:
        return rows_of(self._job.pending(), self._asked.stage.output)

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def watermark(self) -> int | None:
        """The watermark in milliseconds; None if there is none yet: ``harness.watermark``."""
        now_ms = self._job.state.stages[UID].watermark.current_ms
        return None if now_ms == MIN_WATERMARK else now_ms

    @property
    def processing_time(self) -> int:
        """The clock, in milliseconds: ``harness.processing_time``."""
        return self._now_ms

    @property
    def late_rows(self) -> int:
        """The number of late rows that were dropped so far: ``assert harness.late_rows == 0``."""
        return self._late

    # -- comparisons ---------------------------------------------------------------------------------------------------

    def assert_same_results(
        self,
        rows: GivenRows,
        right: GivenRows = (),
        *,
        cuts: int = 10,
        seed: int | None = None,
        out_of_order: bool = False,
    ) -> None:
        """Runs the rows as one backlog, as a stream, and cut at random in between; all must give the same.

            harness.assert_same_results(rows, cuts=5, out_of_order=True)

        Each way has a harness of its own, made like this one.  It compares all output rows up to the end of the input,
        in any order.  Unless MAX_WATERMARK comes at the switch, it also compares output, state and timers before that
        end. The rows come in event-time order; some ways also restart from a checkpoint.

        Args:
            rows: the rows; without event times they come in this order.
            right: the rows of the second input.
            cuts: the number of random ways.
            seed: the seed of the random ways; None: a new one, which is printed.
            out_of_order: random ways bring rows out of order, by up to the delay, which must not change the results.

        Raises:
            AssertionError: two ways differ; the message says how they cut, what differs, and the seed.
        """
        stage = self._asked.stage
        given = [(0, row) for row in plain_rows(rows, "assert_same_results()")]
        given += [(1, row) for row in plain_rows(right, "right of assert_same_results()")]
        self._source_of(given, "assert_same_results()")
        times = stage.event_times(given)
        is_observed = self._asked.settings.final_watermark != "max" or stage.time_mode != "eventTime"
        found = []
        for split in input_splits(times, cuts, seed, stage.delay_ms if out_of_order else 0):
            with self._another() as another:
                found.append((split, another._outcome(split, given, whole=is_observed)))
        check_same(found, is_observed=is_observed)

    def _outcome(self, split: InputSplit, rows: Sequence[tuple[int, GivenRow]], *, whole: bool) -> dict[str, Any]:
        """What one split gives."""
        output: list[Any] = []
        what = "assert_same_results()"
        for number, part in enumerate(split.parts):
            is_backlog = number == 0 and split.begins_with_backlog
            some = [rows[place] for place in part]
            left, right = ([row for at, row in some if at == side] for side in (0, 1))
            if is_backlog:
                output += self.backlog(left, right)
            elif some:
                with self._epoch(what) as epochs:
                    self._switch()
                    epochs.streaming_epoch(_LIVE, self._source_of(some, what))
                output += self._output()
            if number in split.restarts_behind and not self._ended:
                self.restart()
        found: dict[str, Any] = {}
        if not self._ended:
            output += self.settle()
            if whole:
                found = {
                    BEFORE_THE_END: list(output),
                    **{f"state {name!r}": list(self.state(name).items()) for name in self._view.names},
                    "timers": [(timer.key, timer.at_ms) for timer in self.timers()],
                }
            output += self.end()
        return {**found, "output": output, "late": self.late_rows}

    # -- its end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Removes the files of the harness; a ``with`` block and garbage collection do so, too: ``harness.close()``."""
        self._job.close()
        self._folder.cleanup()

    def __enter__(self) -> Harness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
