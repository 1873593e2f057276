"""An aggregation that is started again with other aggregates: which state is whose.

- An output column that computes what it did has its state, under whatever name it is output now (of several alike the
  first has that of the first, and so on).
- A column that is new takes aggregates that are there if all of its aggregates are, from the same point on.  Otherwise
  it has a part of the state of its own, which is empty in every group: half of an average would be a wrong number.
- State that no column needs any more is forgotten, so that a column that comes back later starts empty.

A column under the name of another one is refused, since readers of the output would take one for the other, and so is
an aggregation that has nothing in common with the stored one.

The stored order of columns stays if the columns stay; if some come or go, all records are rewritten once, before the
first epoch, so that a checkpoint's state always has one layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from ....errors import CheckpointMismatchError
from .buffers import Buffer
from .definition import OutputColumn
from .identity import StoredAggregate, StoredOutput, buffers_of, column_identity, from_record, result_identity
from .rewrite import RecordRewrite

if TYPE_CHECKING:
    from .definition import Partials
    from .results import Result

#: What :func:`.identity.output_record` has made.
Record = list[dict[str, Any]] | None
#: The state columns of each buffer of a result; None: they are to be made.
_Buffers = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class EvolvedAggregates:
    """What a job works on from now on."""

    #: The very one that was given if nothing has moved.
    partials: Partials
    #: For each output column the new place of each of its results, by the old one.
    renamed: list[dict[int, int]]
    #: In words.
    changes: list[str]
    #: What must be done to stored records first; None: nothing.
    rewrite: RecordRewrite | None


def take_over(
    partials: Partials, schema: pa.Schema, leading: int, record: Record, names: Sequence[str] | None, *, going_on: bool
) -> EvolvedAggregates:
    """Find each aggregate of a job in stored state.

    Args:
        partials: what the job computes.
        schema: the state's schema as it was stored.
        leading: how many of its columns stand before the aggregates'.
        record: the output columns that it is for; None: it was written before that was recorded.
        names: names of the output columns when the job first ran, for state that does not record them.
        going_on: False: the job has ended; what is new would never get a row.

    Raises:
        CheckpointMismatchError: it is another aggregation, or a column has the name of another one.
    """
    return _Match(partials, schema, leading, record, names).taken_over(going_on)


@dataclass
class _Part:
    """The state of one result of one output column."""

    result: int
    #: Where the stored columns of its buffers are; None: it starts empty.
    stored: _Buffers | None
    since: int


@dataclass
class _Layout:
    """State columns in their new order."""

    #: For each the stored column; None: it is new.
    sources: list[int | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    types: list[pa.DataType] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)


class _Match:
    def __init__(
        self, partials: Partials, schema: pa.Schema, leading: int, record: Record, names: Sequence[str] | None
    ) -> None:
        self._partials = partials
        self._schema = schema
        self._leading = leading
        self._labels = [name.partition(": ")[2] for name in schema.names[leading:]]
        self._types = [schema.field(place).type for place in range(leading, len(schema))]
        self._identities = [result_identity(result, partials) for result in partials.results]
        self._stored = self._inferred(names) if record is None else from_record(record)
        self._is_recorded = record is not None

    def taken_over(self, going_on: bool) -> EvolvedAggregates:
        parts, matched = self._parts()
        if not any(part.stored is not None for its in parts for part in its):
            self._refuse_another()
        for its in parts:
            for part in its:
                self._check_types(part)
        changes = self._changes(parts, matched, going_on)
        return self._laid_out(parts, changes)

    # -- who is who ----------------------------------------------------------------------------------------------------

    def _parts(self) -> tuple[list[list[_Part]], list[StoredOutput | None]]:
        """The state of each output column, and the stored column that it is."""
        waiting = list(self._stored)
        matched: list[StoredOutput | None] = []
        for output in self._partials.outputs:
            identity = self._identity(output)
            found = next((stored for stored in waiting if stored.identity == identity), None)
            if found is not None:
                waiting.remove(found)
            matched.append(found)
        newest = max((one.since for stored in self._stored for one in stored.aggregates), default=0)
        parts = []
        for output, found in zip(self._partials.outputs, matched, strict=True):
            aggregates = self._known(output.results) if found is None else found.aggregates
            if aggregates is None:
                parts.append([_Part(place, None, newest + 1) for place in output.results])
            else:
                pairs = zip(output.results, aggregates, strict=True)
                parts.append([_Part(place, one.buffers, one.since) for place, one in pairs])
        return parts, matched

    def _identity(self, output: OutputColumn) -> str:
        return column_identity(output.expression, [self._identities[place] for place in output.results])

    def _known(self, results: Sequence[int]) -> Sequence[StoredAggregate] | None:
        """Stored state for all of a new column's aggregates that has seen the same rows; None: there is not."""
        by_age: dict[int, dict[str, StoredAggregate]] = {}
        for one in (one for stored in self._stored for one in stored.aggregates):
            by_age.setdefault(one.since, {}).setdefault(one.identity, one)
        for since in sorted(by_age):
            found = [by_age[since].get(self._identities[place]) for place in results]
            if found and all(one is not None for one in found):
                return [one for one in found if one is not None]
        return None

    def _inferred(self, names: Sequence[str] | None) -> list[StoredOutput]:
        """The output columns of state that records only the SQL of its columns.

        They are the job's own where the SQL of all their buffers is there.  What columns of other names were is lost.
        """
        found: dict[str, StoredOutput] = {}
        for output in self._partials.outputs:
            aggregates = []
            for place in output.results:
                buffers = [self._run_of(buffer) for buffer in buffers_of(self._partials.results[place], self._partials)]
                known = [run for run in buffers if run is not None]
                if len(known) == len(buffers):
                    aggregates.append(StoredAggregate(self._identities[place], tuple(known), 0))
            if len(aggregates) == len(output.results):
                found[output.name] = StoredOutput(output.name, output.text, output.expression, tuple(aggregates))
        if names is None:
            return list(found.values())
        # In the order of then; a column with another name now is the one that has lost its name.
        others = [output for name, output in found.items() if name not in names]
        outputs = []
        for name in names:
            if name in found:
                outputs.append(found[name])
            elif others:
                outputs.append(replace(others.pop(0), name=name))
            else:
                outputs.append(StoredOutput(name, "something that was not recorded", f"\0{name}", ()))
        return outputs

    def _run_of(self, buffer: Buffer) -> tuple[int, ...] | None:
        """Stored columns with the SQL of a buffer's, one after the other."""
        wanted = [self._partials.labels[place] for place in buffer.columns]
        for start in range(len(self._labels) - len(wanted) + 1):
            if self._labels[start : start + len(wanted)] == wanted:
                return tuple(range(start, start + len(wanted)))
        return None

    # -- what is refused -----------------------------------------------------------------------------------------------

    def _refuse_another(self) -> NoReturn:
        stored = ", ".join(dict.fromkeys(output.text for output in self._stored)) if self._is_recorded else None
        held = stored or ", ".join(self._labels)
        mine = ", ".join(dict.fromkeys(output.text for output in self._partials.outputs))
        raise CheckpointMismatchError(
            f"its aggregates are {held}, this job's are {mine}: they have nothing in common, so nothing of its state is"
            " of use. Use a checkpointLocation of its own for each job [upgrade:U12]",
            code="MIXEDMODE_STATE_EVOLUTION",
        )

    def _check_types(self, part: _Part) -> None:
        if part.stored is None:
            return
        result = self._partials.results[part.result]
        for buffer, places in zip(buffers_of(result, self._partials), part.stored, strict=True):
            for mine, theirs in zip(buffer.columns, places, strict=True):
                stored, wanted = self._types[theirs], self._partials.types[mine]
                if stored != wanted:
                    raise CheckpointMismatchError(
                        f"aggregate {result.text} is kept as {stored} ({self._labels[theirs]}), this job's is {wanted}:"
                        f" its input has another type now; cast it to what it was, or use a new checkpointLocation"
                        " [upgrade:U12]",
                        code="MIXEDMODE_STATE_EVOLUTION",
                    )

    # -- in words ------------------------------------------------------------------------------------------------------

    def _changes(self, parts: list[list[_Part]], matched: Sequence[StoredOutput | None], going_on: bool) -> list[str]:
        changes = []
        # Columns with equal names cannot be told apart by them, and nobody can have two in one output.
        before = {stored.name: stored for stored in self._stored}
        for output, found, its in zip(self._partials.outputs, matched, parts, strict=True):
            namesake = before.get(output.name)
            if namesake is not None and namesake.identity != self._identity(output):
                raise CheckpointMismatchError(
                    f"column {output.name!r} was {namesake.text}, and is {output.text} in this job: readers would take"
                    " one for the other; give it another name, or use a new checkpointLocation [upgrade:U12]",
                    code="MIXEDMODE_STATE_EVOLUTION",
                )
            if found is not None:
                if found.name != output.name:
                    changes.append(f"column {found.name!r} is now called {output.name!r}; it is still {output.text}")
                continue
            if not going_on:
                raise CheckpointMismatchError(
                    f"the job has ended, so column {output.name!r} ({output.text}), which is new, would never get a"
                    " row; use a new checkpointLocation [upgrade:U24]",
                    code="MIXEDMODE_STATE_EVOLUTION",
                )
            if any(part.stored is None for part in its):
                changes.append(
                    f"aggregate {output.text} (column {output.name!r}) is new: it starts empty, in groups that are"
                    " there already, too"
                )
            else:
                changes.append(f"column {output.name!r} is new: its aggregates are kept already ({output.text})")
        taken = [id(found) for found in matched if found is not None]
        used = {part.stored for its in parts for part in its}
        for stored in (one for one in self._stored if id(one) not in taken):
            lost = any(aggregate.buffers not in used for aggregate in stored.aggregates) or not stored.aggregates
            changes.append(
                f"aggregate {stored.text} (column {stored.name!r}) is not computed any more: what it held is dropped"
                if lost
                else f"column {stored.name!r} ({stored.text}) is not output any more; others need its aggregates"
            )
        return changes

    # -- where it is ---------------------------------------------------------------------------------------------------

    def _laid_out(self, parts: list[list[_Part]], changes: list[str]) -> EvolvedAggregates:
        layout, places = self._layout(parts)
        results: list[Result] = []
        since: dict[int, int] = {}
        #: (result of the job, its state) -> its place now
        known: dict[tuple[int, _Buffers | None, int], int] = {}

        def place_of(part: _Part) -> int:
            key = (part.result, part.stored, part.since)
            if key not in known:
                known[key] = len(results)
                if part.since:
                    since[len(results)] = part.since
                results.append(self._moved(part, places))
            return known[key]

        # First those that stand where the planner has put them: rows without a projection are written as they are.
        first = {part.result: part for its in reversed(parts) for part in reversed(its)}
        for result in sorted(first):
            place_of(first[result])
        renamed = [{part.result: place_of(part) for part in its} for its in parts]
        outputs = tuple(
            replace(output, results=tuple(mapping[place] for place in output.results))
            for output, mapping in zip(self._partials.outputs, renamed, strict=True)
        )
        moved = replace(
            self._partials,
            places=tuple(layout.names),
            types=tuple(layout.types),
            buffers=tuple(layout.buffers),
            results=tuple(results),
            outputs=outputs,
            since=since,
        )
        kept = layout.sources == list(range(len(self._labels)))
        return EvolvedAggregates(moved, renamed, changes, None if kept else self._rewrite(layout))

    def _layout(self, parts: list[list[_Part]]) -> tuple[_Layout, dict[tuple[Buffer, tuple[int, ...] | None], int]]:
        """The columns of state, those that are stored first; and where those of each buffer begin."""
        wanted: dict[tuple[Buffer, tuple[int, ...] | None], None] = {}
        for part in (part for its in parts for part in its):
            buffers = buffers_of(self._partials.results[part.result], self._partials)
            for buffer, stored in zip(buffers, part.stored or [None] * len(buffers), strict=True):
                wanted[buffer, stored] = None
        layout, places = _Layout(), {}
        for buffer, stored in sorted(wanted, key=lambda one: (one[1] is None, one[1] or one[0].columns)):
            start = len(layout.names)
            places[buffer, stored] = start
            layout.sources += [None] * len(buffer.columns) if stored is None else stored
            layout.names += [self._partials.places[place] for place in buffer.columns]
            layout.types += [self._partials.types[place] for place in buffer.columns]
            layout.buffers.append(replace(buffer, columns=tuple(range(start, start + len(buffer.columns)))))
        return layout, places

    def _moved(self, part: _Part, places: Mapping[tuple[Buffer, tuple[int, ...] | None], int]) -> Result:
        result = self._partials.results[part.result]
        buffers = buffers_of(result, self._partials)
        moved: dict[int, int] = {}
        for buffer, stored in zip(buffers, part.stored or [None] * len(buffers), strict=True):
            start = places[buffer, stored]
            moved |= {place: start + offset for offset, place in enumerate(buffer.columns)}
        return replace(result, columns=tuple(moved[place] for place in result.columns))

    def _rewrite(self, layout: _Layout) -> RecordRewrite:
        stored = list(self._schema)
        leading = stored[: self._leading]
        columns = [pa.field(f"b{place}", data_type) for place, data_type in enumerate(layout.types)]
        sources = [*range(self._leading), *[None if at is None else at + self._leading for at in layout.sources]]
        fields = [pa.field(item.name, item.type) for item in stored]
        return RecordRewrite(pa.schema(fields), pa.schema([*leading, *columns]), tuple(sources), bool(self._leading))
