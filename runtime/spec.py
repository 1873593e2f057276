"""Defines what the planner hands to the runtime: plain, frozen data.

The planner decides and fills these in; the runtime executes them and decides nothing about modes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from .connectors.staged_form import StagedForm, columns_of
from .operators.contract import KeyedOperator
from .operators.emission_watermark import EMITTED_COLUMN, emitted_when_due
from .operators.frame_steps import FrameStep, Metrics, behind_steps, metrics_of
from .scan.engines import LEAST_BYTES
from .settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from .connectors.late_rows import LateRows
    from .connectors.sinks.base import Sink
    from .connectors.sources.live_inputs import LiveInput
    from .connectors.sources.source_lanes import Lane
    from .operators.output_transform import OutputTransform
    from .protocols.operator_events.coordinator import OperatorCoordinator


__all__ = [
    "JobSpec",
    "LaneRead",
    "Phase",
    "PhaseKind",
    "Settings",
    "SortEngine",
    "StageEdge",
    "StageSpec",
    "over_edges",
]

#: Who sorts the rows of a shard: Spark before they cross into Python, or mixedmode.sorter in the task.
SortEngine = Literal["spark", "arrow"]
PhaseKind = Literal["backlog", "history", "catch-up", "switch", "live", "finish"]

#: Behind the description of a sink whose live phase is in Real-Time Mode.
IN_REAL_TIME = "; in the live phase sent at once, and at-least-once"


class Phase(BaseModel):
    """One step of a run, with the reason why it is in the plan.

    ``backlog``   history and the live source's waiting data as sorted passes over batch keyed state
    ``history``   the history cut into epochs that run as a stream (streaming mode)
    ``catch-up``  what the live source holds at the start, as a stream with isBacklog=true (streaming mode)
    ``switch``    isBacklog turns false: final watermark, immediate checkpoint
    ``live``      micro-batches of the live source until the query is stopped
    ``finish``    end of input: MAX_WATERMARK, last commit, the query ends by itself
    """

    model_config = ConfigDict(frozen=True)

    kind: PhaseKind
    reason: str
    #: Names of the sources read in this phase ("history", "live").
    sources: tuple[str, ...] = ()
    #: How the keyed stage works: "sorted" (one key at a time, batch keyed state) or "random" (RocksDB).
    style: Literal["sorted", "random"] = "random"
    #: Who sorts a sorted pass.
    sorter: SortEngine = "spark"
    #: Milliseconds between checkpoints, or as soon as there is a change; None: no periodic checkpoint in this phase.
    checkpoint_interval_ms: int | Literal["auto"] | None = None
    #: Length of an epoch in Spark's Real-Time Mode; None: the phase has micro-batches, or none.
    real_time_ms: int | None = None
    #: Human-readable facts for explain(): watermark, state, failure, scheduling.
    details: dict[str, str] = {}

    @property
    def mode(self) -> Literal["backlog", "streaming"]:
        """In which mode it runs: one key at a time over sorted rows, or as a stream."""
        return "backlog" if self.style == "sorted" else "streaming"

    @property
    def takes_savepoints(self) -> bool:
        """Whether there is state to take one of; a backlog at batch speed has none before its end."""
        return self.kind != "backlog"

    @property
    def serves_savepoints_at_its_end(self) -> bool:
        """Whether those that were asked for in it may still wait when it has ended."""
        return self.kind in ("history", "catch-up", "switch")

    @property
    def holds_events_back(self) -> bool:
        """Whether user events wait for its end: nothing of a backlog is for anybody, and nobody interferes with it."""
        return self.kind == "backlog"

    @property
    def finishes_its_epoch(self) -> bool:
        """Whether a stop lets the epoch in hand come to its end; in all others Spark's jobs are cancelled."""
        return self.kind == "live"

    @property
    def is_passed_once(self) -> bool:
        """Whether a recovered job that is out of its backlog has it behind it."""
        return self.kind != "live"


@dataclass(frozen=True)
class StageEdge:
    """What a stage takes from an earlier one."""

    #: Uid of the earlier stage.
    origin: str
    #: Operations without state on its rows, in order.
    steps: tuple[FrameStep, ...] = ()
    #: How far the watermark stays behind that of the earlier stage.
    delay_ms: int = 0
    #: What the operations make of no rows: their plan, for questions; None: there are no operations.
    template: DataFrame | None = None
    #: Their event time; None: they have none.
    event_time: str | None = None
    #: For each key column of the earlier stage the place of the key column here that it becomes, unchanged; None: it
    #: becomes none.  Empty: it is not known, or of no use.
    key_places: tuple[int | None, ...] = ()
    #: Whether the watermark follows that of the earlier stage; False: these rows have no event time, others have.
    has_watermark: bool = True

    def key_groups_of(self, earlier: KeyedOperator) -> tuple[int, ...] | None:
        """The places of key columns by which rows are in the key groups they come from; None: there are no such."""
        if not self.key_places or not earlier.key_columns:
            return None
        deciding = range(len(earlier.key_columns)) if earlier.key_group_places is None else earlier.key_group_places
        places = [self.key_places[place] for place in deciding]
        return None if None in places else tuple(place for place in places if place is not None)

    def over(self, rows: DataFrame, *, emitted: bool) -> DataFrame:
        """The rows that the stage takes.

        Args:
            rows: what was handed on.
            emitted: with the watermark at which each row was emitted.  Where an operation (on pandas frames, say) does
                not keep it, a row counts as emitted when event time came to it.
        """
        return over_edges([(self, rows)], emitted=emitted)[0]


def over_edges(handed_on: Sequence[tuple[StageEdge, DataFrame]], *, emitted: bool) -> list[DataFrame]:
    """The rows that a stage takes of several; arguments as of :meth:`StageEdge.over`."""
    rows = [(frame if emitted else frame.drop(EMITTED_COLUMN), edge.steps) for edge, frame in handed_on]
    frames, event_time = behind_steps(rows, EMITTED_COLUMN), handed_on[0][0].event_time
    return [_emitted(frame, event_time) for frame in frames] if emitted else frames


def _emitted(rows: DataFrame, event_time: str | None) -> DataFrame:
    if EMITTED_COLUMN in rows.columns:
        return rows
    assert event_time is not None, "only a stage with event time asks for it"
    return emitted_when_due(rows, event_time)


@dataclass(frozen=True)
class LaneRead:
    """What a stage takes of a lane of sources."""

    #: The lane's number.
    lane: int
    #: Operations without state on its rows, in order.
    steps: tuple[FrameStep, ...] = ()
    #: The same, done to one of its sources, for questions; None: there are no operations.
    template: DataFrame | None = None
    #: The lane's column that is the stage's event time; None: none is, or nobody needs to know.
    event_time: str | None = None
    #: Behind how many of the operations event times are looked at, and their column there; None: behind all of them.
    timed: tuple[int, str] | None = None

    @property
    def is_observed(self) -> bool:
        """Whether something is computed of the rows on their way, for progress."""
        return any(step.metrics is not None for step in self.steps)


@dataclass(frozen=True)
class StageSpec:
    """One keyed stage of a job."""

    operator: KeyedOperator
    #: The column that its watermark is taken from, or that its rows are ordered by; None: it has none.
    event_time: str | None
    watermark_delay_ms: int
    #: Talks to the shards from the driver; None: nobody does.
    coordinator: OperatorCoordinator | None = None
    #: The earlier stages whose rows it takes.
    edges: tuple[StageEdge, ...] = ()
    #: The lanes of sources whose rows it takes.
    reads: tuple[LaneRead, ...] = ()
    #: How far the watermark stays behind each live input of those, by name.
    delays_ms: Mapping[str, int] = field(default_factory=dict)
    #: Names of more live inputs of those, whose rows have no event time: they say nothing of the watermark.
    timeless: tuple[str, ...] = ()
    #: Whether a history of those belongs to no live input, and must not move the watermark of any.
    has_lone_history: bool = False
    #: What each key gets at the end of a backlog that the stream follows; where all input ends it is MAX_WATERMARK.
    final_watermark: Literal["max", "observed"] = "observed"

    @property
    def uid(self) -> str:
        """Id under which its state is stored."""
        return self.operator.uid

    @property
    def observed(self) -> tuple[Metrics, ...]:
        """What is computed of its rows on their way to it, for progress."""
        return metrics_of(*(read.steps for read in self.reads), *(edge.steps for edge in self.edges))

    def keeps_key_groups_of(self, earlier: KeyedOperator) -> bool:
        """Whether all its rows come from this stage, and each is in the key group here that it was in there."""
        places = self.edges[0].key_groups_of(earlier) if len(self.edges) == 1 and not self.reads else None
        if places is None:
            return False
        return self.operator.in_key_groups_by(places).key_group_places == self.operator.key_group_places

    @property
    def reads_sources(self) -> bool:
        """Whether rows of it come from the sources, and its watermark from their event times."""
        return bool(self.reads)

    @property
    def tells_inputs_apart(self) -> bool:
        """Whether event times are to be known by input: there are several, live ones among them, or a lone history."""
        inputs = len(self.delays_ms) + len(self.timeless) + len(self.edges) + self.has_lone_history
        return self.event_time is not None and bool(self.delays_ms) and inputs > 1

    @property
    def looks_before_steps(self) -> bool:
        """Whether rows that are dropped on their way move the watermark, too: somebody looks at them before."""
        return self.event_time is not None and any(read.timed is not None for read in self.reads)

    @property
    def needs_input_column(self) -> bool:
        """Whether its rows say which source they came from: a look at them tells only so whose event times it sees."""
        return bool(self.delays_ms) and len(self.delays_ms) + len(self.timeless) + self.has_lone_history > 1

    @property
    def leading_edges(self) -> tuple[StageEdge, ...]:
        """The earlier stages that its watermark follows."""
        return tuple(edge for edge in self.edges if edge.has_watermark)


@dataclass(frozen=True)
class JobSpec:
    """A described job, ready to run."""

    spark: SparkSession
    name: str | None
    #: The sources, by what stages take together.
    lanes: tuple[Lane, ...]
    #: The live inputs of all lanes as one stream; None: there are none.
    live: DataFrame | None
    #: The keyed stages in topological order; the rows of the last one go to the sink.
    stages: tuple[StageSpec, ...]
    sink: Sink
    settings: Settings
    phases: tuple[Phase, ...]
    checkpoint_location: str | None
    #: Spark's trigger keyword arguments, e.g. {"processingTime": "2 seconds"} or {"availableNow": True}.
    trigger: dict[str, Any]
    #: explain(extended) of the plan, for query.explain().
    explain: Callable[[bool], str]
    #: The live inputs that ``live`` is made of.  Where a stage reads several, its lanes' rows have ``INPUT_COLUMN``.
    live_inputs: tuple[LiveInput, ...] = ()
    #: Where rows that came too late go; None: they are dropped.
    late_rows: LateRows | None = None
    #: What is done to the last stage's rows before they are staged; None: nothing.
    output_transform: OutputTransform | None = None
    #: The plan as JSON, for savepoints.
    plan_json: str = "{}"
    #: Why the job must not begin with these sources, though it may go on with them; None: it may.
    begin_refused: str | None = None
    #: What is due by event time fires although no rows come; False: with the next rows.
    fires_without_rows: bool = True
    #: By ``execution.backlog.engine`` = ``auto`` Spark reads files that have less together: decided with the plan.
    scan_least_bytes: int = LEAST_BYTES
    #: The session with the settings of its start; None: it has not been started.
    planned_in: SparkSession | None = None

    @property
    def planning(self) -> SparkSession:
        """The session in which rows of the job are planned."""
        return self.planned_in or self.spark

    @property
    def sink_description(self) -> str:
        """Where the output goes and when it is visible, in words."""
        described = self.sink.describe()
        return described + IN_REAL_TIME if any(one.real_time_ms is not None for one in self.phases) else described

    @property
    def last_stage(self) -> StageSpec:
        """The one whose rows are output, or one of those: it hands nothing on to others."""
        return self.stages[-1]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The stages whose rows are output: the last one, or several that are united behind it."""
        branches = () if self.output_transform is None else self.output_transform.branches
        return tuple(dict.fromkeys(branch.origin for branch in branches)) or (self.last_stage.uid,)

    @property
    def operator(self) -> KeyedOperator:
        """The last stage's."""
        return self.last_stage.operator

    def stage_of(self, uid: str) -> StageSpec:
        """The stage of this id."""
        return next(stage for stage in self.stages if stage.uid == uid)

    @property
    def has_history(self) -> bool:
        """Whether there is a bounded source."""
        return any(lane.history is not None for lane in self.lanes)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of all that is read; all histories are one."""
        live = tuple(one.name for one in self.live_inputs)
        return ("history", *live) if self.has_history else live

    def sources_of(self, stage: StageSpec) -> tuple[str, ...]:
        """Names of the sources that a stage reads itself."""
        bounded = any(self.lanes[read.lane].history is not None for read in stage.reads)
        return (*(["history"] if bounded else []), *stage.delays_ms, *stage.timeless)

    def inputs_of(self, stage: StageSpec) -> tuple[LiveInput, ...]:
        """The live inputs that a stage reads and takes its watermark from."""
        return tuple(one for one in self.live_inputs if one.name in stage.delays_ms)

    @property
    def readers(self) -> tuple[StageSpec, ...]:
        """The stages that read the sources."""
        return tuple(stage for stage in self.stages if stage.reads_sources)

    def has_phase(self, kind: PhaseKind) -> bool:
        """Whether the plan has a phase of this kind."""
        return any(phase.kind == kind for phase in self.phases)

    @property
    def output_transform_in_stage(self) -> OutputTransform | None:
        """What is done to the last stage's rows inside its own Spark job; None: nothing."""
        return None if self.output_transform is None or self.output_transform.moves_rows else self.output_transform

    @property
    def output_transform_behind(self) -> OutputTransform | None:
        """What is done to them in a job of its own, over what the stage hands on; None: there is no such job."""
        return None if self.output_transform is None or not self.output_transform.moves_rows else self.output_transform

    @property
    def output_schema(self) -> StructType:
        """Columns of the rows that are staged."""
        return self.operator.output_schema if self.output_transform is None else self.output_transform.schema

    @property
    def staged_form(self) -> StagedForm:
        """What its output is until it is shown."""
        identities = self.operator.output_identities
        if self.output_transform is not None:
            identities = self.output_transform.identities(identities)
        columns = columns_of(self.output_schema, identities)
        return StagedForm(columns=columns, partition_by=self.sink.partition_by, path=self.sink.staging_path)

    @property
    def observed(self) -> tuple[Metrics, ...]:
        """All that is computed of rows on their way, for progress."""
        behind = () if self.output_transform is None else self.output_transform.observed
        return (*(one for stage in self.stages for one in stage.observed), *behind)

    @property
    def keeps_state(self) -> bool:
        """False in batch mode, where the state of a key is forgotten at its end."""
        return self.settings.runtime_mode != "batch"
