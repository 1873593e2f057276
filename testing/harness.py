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
from ..runtime.driver.epoch_specs import OBSERVED
from ..runtime.driver.source_rows import SourceRows
from ..runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..runtime.protocols.operator_events.coordinator import OperatorCoordinator
from ..runtime.protocols.operator_events.event_codec import decode, types_by_name
from ..runtime.spec import Phase
from .asked import Asked, OptionValue, asked_of
from .cuts import BEFORE_THE_END, Way, check_same, ways
from .given_rows import GivenRow, GivenRows, Output, moment_ms, plain_rows, rows_of
from .job_here import JobHere
from .stage_here import UID
from .state_of_keys import StateOfKeys
from .user_errors import as_raised

_BACKLOG = Phase(kind="backlog", reason="a test", style="sorted")
_LIVE = Phase(kind="live", reason="a test")
#: So often the clock may find something due at one and the same time: more is a timer that registers itself for ever.
_MOST_TICKS = 1000


@dataclass(frozen=True)
class Event:
    """What a processor has sent to its coordinator."""

    shard: int
    event: Any


class Harness(StateOfKeys):
    """Runs a ``StatefulProcessor`` epoch by epoch, as a job would, in this process and without Spark.

    ::

        harness = Harness(Rotations(), key="tailnum", schema="tailnum string, ts timestamp, delay long",
                          output="tailnum string, legs long", time_mode="eventTime", event_time="ts", delay="1 hour")
        harness.backlog(history)            # one sorted pass, key by key, and the switch
        out = harness.push([("N1", datetime(2024, 1, 1), 5)])
        assert harness.peek_value_state("legs", "N1") == (1,)
        harness.set_watermark(datetime(2024, 1, 2))
        harness.assert_same_results(rows)   # however the rows are cut

    What runs is the operator, the state in RocksDB, the watermark and the driver's rules for epochs that a job has;
    what Spark does, the shuffle and the sort, is done here.  Only processors can be run so: what Spark itself computes
    (aggregates, joins, deduplication, ``select`` and ``where``) needs a session, see :func:`mixedmode.testing.run_job`.

    Args:
        processor: an instance; of two inputs if ``schema`` is a pair.
        key: the key column, or columns in order.  Of two inputs a pair, one for each, or one for both.
        schema: the columns of the rows, as a ``StructType`` or DDL; a pair for a processor behind ``cogroup``.
        output: the columns of the processor's rows, as ``outputStructType``.
        time_mode: ``none``, ``processingTime`` or ``eventTime``, as ``timeMode``.
        event_time: the column of ``withWatermark``; of two inputs a pair, None for one without.
        delay: how far the watermark stays behind event times, as ``"1 hour"``.
        in_pandas: the handlers take and give pandas frames (``transformWithStateInPandas``).
        initial_state: rows to begin with, which go to ``handleInitialState`` in the first epoch.
        initial_schema: their columns; the key columns are called as those of the rows.
        coordinator: runs for real, and exchanges events with the processor.
        options: of the job, as ``.option()`` takes them; for example ``execution.backlog.final-watermark``.
        shards: how many the stage has; with one, keys come in their order.
        processing_time: the clock's first reading, in milliseconds or as a datetime.
        time_zone: in which pandas frames show timestamps; None: that of this process.

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
            asked_of(
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

    def _open(self, asked: Asked) -> None:
        self._asked, self._now_ms = asked, asked.start_ms
        self._folder = tempfile.TemporaryDirectory(prefix="mixedmode-harness-", ignore_cleanup_errors=True)
        self._switched = self._ended = False
        self._late = 0
        #: What the processor has sent to its coordinator, in order; from a backlog it arrives at the switch.
        self.events: list[Event] = []
        settings = asked.settings
        with as_raised(), processing_time(lambda: self._now_ms):
            self._job = JobHere(
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
        """Rows as a backlog: sorted, one key at a time over state in memory, then the switch to the stream.

        Later in the stream: a stream that fell back into backlog.  Under ``execution.runtime-mode = batch`` it is all
        there is, and the input ends with it.

        Args:
            rows: the rows.
            right: those of the second input.

        Returns:
            What the processor gives, key after key.
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
        """Rows as one micro-batch of the stream.

        Args:
            rows: the rows.
            right: those of the second input.
            settle: :meth:`settle` then, as if nothing came for a while; False: the next rows come at once, before the
                watermark that these rows move has fired anything.

        Returns:
            What the processor gives.
        """
        with self._epoch("push") as epochs:
            self._switch()
            epochs.streaming_epoch(_LIVE, self._source(rows, right, "push()"))
            if settle:
                self._settle()
        return self._output()

    def settle(self) -> Output:
        """What is due fires, and events are delivered, without new rows, as in Spark's micro-batches without data."""
        with self._epoch("settle"):
            self._switch()
            self._settle()
        return self._output()

    def set_watermark(self, watermark: int | datetime) -> Output:
        """Move the watermark on, as a row of another key that is later by the delay would; what is due fires.

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
        """Move the clock on; what is due by then fires, and state whose time to live is over is gone.

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
        """The end of all input: event-time timers fire, then ``endInput()`` and ``finish()`` are called."""
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
        """Go on from a checkpoint in what would be another process, the coordinator from its ``restore``.

        Args:
            shards: how many there are from now on, if there was more than one; None: as before.

        Raises:
            PlanError: the state cannot be dealt to so many.
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
        """The watermark in milliseconds; None: there is none yet."""
        now_ms = self._job.state.stages[UID].watermark.current_ms
        return None if now_ms == MIN_WATERMARK else now_ms

    @property
    def processing_time(self) -> int:
        """The clock, in milliseconds."""
        return self._now_ms

    @property
    def late_rows(self) -> int:
        """How many rows came too late so far, and were dropped."""
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
        """Run the rows as one backlog, as a stream, and cut at random between the two; all must give the same.

        Each way is a harness of its own, made as this one.  Compared are all rows of output, in any order, up to the
        end of the input, and, unless MAX_WATERMARK comes at the switch, output, state and timers before that end.  The
        rows come in order of event time; some ways also restart from a checkpoint in between.

        Args:
            rows: the rows; without event times they come in this order.
            right: those of the second input.
            cuts: how many random ways there are.
            seed: of those; None: a new one, which is printed.
            out_of_order: random ways bring rows late, by up to the delay: in no way may results depend on it.

        Raises:
            AssertionError: two ways give something else; the message says how they cut, what differs, and the seed.
        """
        stage = self._asked.stage
        given = [(0, row) for row in plain_rows(rows, "assert_same_results()")]
        given += [(1, row) for row in plain_rows(right, "right of assert_same_results()")]
        self._source_of(given, "assert_same_results()")
        times = stage.event_times(given)
        is_observed = self._asked.settings.final_watermark != "max" or stage.time_mode != "eventTime"
        found = []
        for way in ways(times, cuts, seed, stage.delay_ms if out_of_order else 0):
            with self._another() as another:
                found.append((way, another._outcome(way, given, whole=is_observed)))
        check_same(found, is_observed=is_observed)

    def _outcome(self, way: Way, rows: Sequence[tuple[int, GivenRow]], *, whole: bool) -> dict[str, Any]:
        """What one way of cutting gives."""
        output: list[Any] = []
        what = "assert_same_results()"
        for number, part in enumerate(way.parts):
            is_backlog = number == 0 and way.begins_with_backlog
            some = [rows[place] for place in part]
            left, right = ([row for at, row in some if at == side] for side in (0, 1))
            if is_backlog:
                output += self.backlog(left, right)
            elif some:
                with self._epoch(what) as epochs:
                    self._switch()
                    epochs.streaming_epoch(_LIVE, self._source_of(some, what))
                output += self._output()
            if number in way.restarts_behind and not self._ended:
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
        """Remove what it has on disk; also at the end of a ``with`` block, and when nobody has it any more."""
        self._job.close()
        self._folder.cleanup()

    def __enter__(self) -> Harness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
