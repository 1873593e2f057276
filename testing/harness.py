"""A processor, run in the test's own process: its real operator, state, timers, watermark and epochs, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from ..errors import PlanError
from ..runtime.driver.epochs.epoch_specs import OBSERVED
from ..runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..runtime.protocols.operator_events.coordinator import OperatorCoordinator
from .harness_arguments import OptionValue, harness_arguments
from .harness_run import BACKLOG, LIVE, Event, HarnessRun
from .input_splits import BEFORE_THE_END, InputSplit, check_same, input_splits
from .local_stage import UID
from .row_tables import GivenRow, GivenRows, Output, moment_ms, plain_rows
from .state_methods import StateMethods


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
        self._run = HarnessRun(
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

    def _another(self) -> Harness:
        """A harness that has seen nothing yet."""
        made: Harness = object.__new__(Harness)
        made._run = HarnessRun(self._run.arguments)
        return made

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
        first = self._run.job.state.epoch == 0 and not self._run.switched
        with self._run.epoch("backlog") as epochs:
            source = self._run.source(rows, right, "backlog()")
            if self._run.arguments.settings.runtime_mode == "batch":
                epochs.sorted_pass(BACKLOG, source, MAX_WATERMARK, at_end=True)
                self._run.ended = True
            elif first:
                is_max = self._run.arguments.final_watermark == "max"
                epochs.sorted_pass(BACKLOG, source, MAX_WATERMARK if is_max else OBSERVED)
            else:
                epochs.sorted_pass(LIVE, source, OBSERVED, drop_late=True)
            self._run.switch()
            self._run.job.events.hand_over()
        return self._run.output()

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
        with self._run.epoch("push") as epochs:
            self._run.switch()
            epochs.streaming_epoch(LIVE, self._run.source(rows, right, "push()"))
            if settle:
                self._run.settle()
        return self._run.output()

    def settle(self) -> Output:
        """Fires what is due and delivers events, without new rows, as micro-batches of Spark without data do:
        ``harness.settle()``.
        """
        with self._run.epoch("settle"):
            self._run.switch()
            self._run.settle()
        return self._run.output()

    def set_watermark(self, watermark: int | datetime) -> Output:
        """Moves the watermark, as a later row of another key would; everything that is due fires.

            harness.set_watermark(datetime(2024, 1, 2))

        Args:
            watermark: in milliseconds, or a datetime.

        Raises:
            PlanError: the time mode is not eventTime, or the watermark would go back.
        """
        if self._run.arguments.stage.time_mode != "eventTime":
            raise PlanError(f"set_watermark() needs time_mode eventTime, it is {self._run.arguments.stage.time_mode}")
        to_ms = moment_ms(watermark, "set_watermark()")
        tracker = self._run.job.state.stages[UID].watermark
        if to_ms <= max(tracker.current_ms, tracker.would_reach(None)):
            raise PlanError(f"set_watermark({watermark!r}): it must go forwards, and is {tracker.current_ms}")
        with self._run.epoch("set_watermark"):
            self._run.switch()
            for one in tracker.inputs.values():
                one.see(to_ms + one.delay_ms)
            self._run.settle()
        return self._run.output()

    def set_processing_time(self, now: int | datetime) -> Output:
        """Moves the clock; everything that is due fires, and expired state (TTL) is removed.

            harness.set_processing_time(datetime(2024, 1, 2))

        Args:
            now: in milliseconds, or a datetime.

        Raises:
            PlanError: the clock would go back.
        """
        to_ms = moment_ms(now, "set_processing_time()")
        if to_ms < self._run.now_ms:
            raise PlanError(f"set_processing_time({now!r}): it must go forwards, and is {self._run.now_ms}")
        with self._run.epoch("set_processing_time"):
            self._run.switch()
            self._run.now_ms = to_ms
            self._run.settle()
        return self._run.output()

    def end(self) -> Output:
        """Ends all input: event-time timers fire, then ``endInput()`` and ``finish()`` run: ``harness.end()``."""
        with self._run.epoch("end") as epochs:
            self._run.switch()
            self._run.job.events.hand_over()
            state = self._run.job.state
            state.stages[UID].watermark.end_of_input()
            epochs.fire_all(LIVE, UID)
            epochs.finish_operators(LIVE, UID)
            state.stages[UID].finished = state.finished = True
            self._run.ended = True
        return self._run.output()

    def restart(self, shards: int | None = None) -> None:
        """Continues from a checkpoint as a new process would; the coordinator continues from its ``restore``.

            harness.restart(shards=4)

        Args:
            shards: the new number of shards, if there was more than one; None: no change.

        Raises:
            PlanError: the state cannot have that many shards.
        """
        held = self._run.arguments.stage.max_parallelism
        if shards is not None and not 1 <= shards <= held:
            raise PlanError(f"restart(shards={shards}): this state can be dealt to 1 to {held}; make it with more")
        with self._run.epoch("restart"):
            self._run.job.restart(shards or len(self._run.job.state.stages[UID].shards))

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        """What the processor has sent to its coordinator, in order; from a backlog it arrives at the switch.

        Example: ``assert harness.events[0].event == "full"``
        """
        return self._run.events

    @property
    def watermark(self) -> int | None:
        """The watermark in milliseconds; None if there is none yet: ``harness.watermark``."""
        now_ms = self._run.job.state.stages[UID].watermark.current_ms
        return None if now_ms == MIN_WATERMARK else now_ms

    @property
    def processing_time(self) -> int:
        """The clock, in milliseconds: ``harness.processing_time``."""
        return self._run.now_ms

    @property
    def late_rows(self) -> int:
        """The number of late rows that were dropped so far: ``assert harness.late_rows == 0``."""
        return self._run.late

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
        stage = self._run.arguments.stage
        given = [(0, row) for row in plain_rows(rows, "assert_same_results()")]
        given += [(1, row) for row in plain_rows(right, "right of assert_same_results()")]
        self._run.source_of(given, "assert_same_results()")
        times = stage.event_times(given)
        is_observed = self._run.arguments.settings.final_watermark != "max" or stage.time_mode != "eventTime"
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
                with self._run.epoch(what) as epochs:
                    self._run.switch()
                    epochs.streaming_epoch(LIVE, self._run.source_of(some, what))
                output += self._run.output()
            if number in split.restarts_behind and not self._run.ended:
                self.restart()
        found: dict[str, Any] = {}
        if not self._run.ended:
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
        self._run.job.close()
        self._run.folder.cleanup()

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
