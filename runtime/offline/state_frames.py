"""Checks the frames that users give for a stage's state, and brings them into the form that the task takes.

A frame may look as :mod:`..state_reader` shows the state, with structs ``key``, ``value`` and so on, or have the key's
and the value's fields as columns of their own.  Nothing is guessed: a column that is missing, unknown or of another
type is an error that names it.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ...errors import StateSchemaError
from ...state.codec.widening import obstacle
from ...state.keys.key_space import TIMER_KINDS, TIMER_SLOTS, TimerKind
from ...state.keys.registry import StateDescriptor
from ..catalyst.columns import columns_ddl, normalise_floats, quoted
from ..catalyst.types.arrow_types import arrow_type
from ..tasks.state.scan_task import struct_of
from ..tasks.state.state_change_task import EXPIRES, ORDER, REMOVED, TAG, change_key_column, value_columns

#: What the reader shows besides, and what is of no meaning here.
_IGNORED = ("partition_id",)
_TTL = "ttlExpirationMs"
_KEY, _VALUE, _ELEMENT, _USER_KEY, _USER_VALUE = "key", "value", "list_element", "user_map_key", "user_map_value"
_POSITION, _TIME, _KIND = "position", "expiration_timestamp_ms", "timer_kind"

#: Bits of the types of integers.
_WIDTHS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}

#: A struct's fields as columns.
_Fields = list[tuple[StructField, "Column"]]


@dataclass(frozen=True)
class StageKey:
    """The key of a stage: what its frames have in common.

    Args:
        uid: the stage.
        labels: its key columns, as users know them.
        schema: the same, as they are stored.
    """

    uid: str
    labels: tuple[str, ...]
    schema: pa.Schema

    @property
    def struct(self) -> StructType:
        """The key under the names that users know."""
        stored = struct_of(self.schema)
        fields = zip(self.labels, stored.fields, strict=True)
        return StructType([StructField(label, field.dataType) for label, field in fields])


class StateFrames:
    """Makes rows for :class:`~..tasks.state.state_change_task.StateChangeTask` of users' frames.

    Args:
        key: the key of the stage.
    """

    def __init__(self, key: StageKey) -> None:
        self._key = key

    def removed(self, frame: DataFrame) -> DataFrame:
        """Keys that go.

        Raises:
            StateSchemaError: a column is missing, unknown or of another type.
        """
        given = _Given(frame, f"the frame of keys to remove from stage {self._key.uid!r}")
        keys = self._keys(given)
        given.check_rest()
        return frame.select(*keys, F.lit(REMOVED).alias(TAG)).distinct()

    def timers(self, frame: DataFrame, kinds: Sequence[TimerKind]) -> DataFrame:
        """Timers.

        Args:
            frame: key, ``expiration_timestamp_ms`` (milliseconds, or a timestamp), and ``timer_kind`` unless there is
                one kind only.
            kinds: those that the stage can have.

        Raises:
            StateSchemaError: as :meth:`removed`, or the stage has no timers.
        """
        given = _Given(frame, f"the frame of timers for stage {self._key.uid!r}")
        if not kinds:
            raise StateSchemaError(f"stage {self._key.uid!r} has no timers: its timeMode is none")
        keys = self._keys(given)
        found = given.find(_TIME)
        if found is None:
            raise given.missing(_TIME, "long (milliseconds) or timestamp")
        field, column = found
        if isinstance(field.dataType, TimestampType):
            column = F.unix_millis(column)
        else:
            given.check_type(field, LongType(), "the time of a timer")
        slots = {kind: TIMER_SLOTS[kind] for kind in kinds}
        named = given.find(_KIND)
        if named is not None:
            given.check_type(named[0], StringType(), "the kind of a timer")
            tag = F.lit(None).cast("int")
            for kind, slot in slots.items():
                tag = F.when(named[1] == kind, F.lit(slot)).otherwise(tag)
            allowed = ", ".join(slots)
            said = F.concat(
                F.lit(f"{given.what} has timer_kind "),
                F.coalesce(named[1], F.lit("null")),
                F.lit(f"; stage {self._key.uid!r} has timers of kind: {allowed}"),
            )
            tag = F.when(tag.isNotNull(), tag).otherwise(F.raise_error(said).cast("int"))
        elif len(slots) > 1:
            raise given.missing(_KIND, f"string ({' or '.join(TIMER_KINDS)})")
        else:
            tag = F.lit(next(iter(slots.values())))
        given.check_rest()
        no_time = F.raise_error(F.lit(f"{given.what} has a row without {_TIME}")).cast("long")
        time = F.when(column.isNotNull(), column.cast("long")).otherwise(no_time)
        return frame.select(*keys, tag.alias(TAG), time.alias(ORDER))

    def state(self, item: StateDescriptor, frame: DataFrame) -> DataFrame:
        """The values of a variable.

        Args:
            item: the variable.
            frame: a row a key of a value state, a row an element of a list (with ``position``, 0, 1, …), a row an entry
                of a map.

        Raises:
            StateSchemaError: as :meth:`removed`.
        """
        given = _Given(frame, f"the frame for {item.kind} state {item.name!r} of stage {self._key.uid!r}")
        keys = self._keys(given)
        wanted, expires = struct_of(item.schema), None
        found: _Fields = []
        if item.user_key_schema is not None:
            found += given.fields(_USER_KEY, struct_of(item.user_key_schema), apart=self._key.labels)
        name = {"value": _VALUE, "list": _ELEMENT, "map": _USER_VALUE}[item.kind]
        inner = given.struct(name)
        if item.ttl_ms is not None and inner is not None and inner.fieldNames() == [_VALUE, _TTL]:
            given.used.add(name)
            packed = F.col(quoted(name))
            found += given.fields_of(packed[_VALUE], inner[_VALUE].dataType, wanted, f"{name}.{_VALUE}")
            given.check_type(inner[_TTL], LongType(), "the time at which a value expires")
            expires = packed[_TTL]
        else:
            found += given.fields(name, wanted, apart=self._key.labels)
            if item.ttl_ms is not None and (own := given.find(_TTL)) is not None:
                given.check_type(own[0], LongType(), "the time at which a value expires")
                expires = own[1]
        order = None
        if item.kind == "list" and (place := given.find(_POSITION)) is not None:
            given.check_type(place[0], LongType(), "the position of an element")
            order = place[1]
        given.check_rest()
        columns = [
            given.converted(one, field.dataType).alias(field.name)
            for one, field in zip(found, value_columns(item), strict=True)
        ]
        return frame.select(
            *keys,
            F.lit(item.slot).alias(TAG),
            _long(order).alias(ORDER),
            _long(expires).alias(EXPIRES),
            *columns,
        )

    def _keys(self, given: _Given) -> list[Column]:
        found = given.fields(_KEY, self._key.struct)
        return [
            normalise_floats(given.converted(one, wanted.dataType), wanted.dataType).alias(change_key_column(place))
            for place, (one, wanted) in enumerate(zip(found, self._key.struct.fields, strict=True))
        ]


def _long(column: Column | None) -> Column:
    return F.lit(None).cast("long") if column is None else column.cast("long")


class _Given:
    """A frame of the user's, and which of its columns have been made use of.

    Args:
        frame: the frame.
        what: what it is, for errors.
    """

    def __init__(self, frame: DataFrame, what: str) -> None:
        if frame.isStreaming:
            raise StateSchemaError(f"{what} is a stream; give a bounded DataFrame")
        self.what = what
        self._frame = frame
        self._columns = {field.name: field for field in frame.schema.fields}
        if len(self._columns) < len(frame.schema.fields):
            raise StateSchemaError(f"{what} has two columns of one name: {', '.join(frame.columns)}")
        self.used: set[str] = set()

    def find(self, name: str) -> tuple[StructField, Column] | None:
        """A column that is used if it is there."""
        field = self._columns.get(name)
        if field is None or name in self.used:
            return None
        self.used.add(name)
        return field, F.col(quoted(name))

    def struct(self, name: str) -> StructType | None:
        """The type of a column that is a struct; None: there is no such."""
        field = self._columns.get(name)
        return field.dataType if field is not None and isinstance(field.dataType, StructType) else None

    def fields(self, name: str, wanted: StructType, apart: Sequence[str] = ()) -> _Fields:
        """What a struct is made of: columns of their own, or one of that name that is it.

        Args:
            name: what the struct's column is called.
            wanted: its fields.
            apart: names that are the key's, if that is columns of its own.

        Raises:
            StateSchemaError: there is neither, or a type does not fit.
        """
        taken = self.used if apart else set()
        names = wanted.fieldNames()
        flat = all(one in self._columns and one not in taken for one in names)
        inner = self.struct(name)
        if inner is not None and name not in self.used:
            is_flat = flat and all(_fits(self._columns[one].dataType, wanted[one].dataType) for one in names)
            if not is_flat:
                self.used.add(name)
                return self.fields_of(F.col(quoted(name)), inner, wanted, name)
        if not flat:
            lacking = next(one for one in names if one not in self._columns or one in taken)
            if lacking in taken:
                raise StateSchemaError(
                    f"{self.what} has one column {lacking!r}, which is the key's; give the fields of {name} as a struct"
                    f" column {name!r}"
                )
            raise self.missing(lacking, wanted[lacking].dataType.simpleString(), f", nor a struct {name!r}")
        self.used.update(names)
        for one in names:
            self.check_type(self._columns[one], wanted[one].dataType, f"column {one!r}")
        return [(self._columns[one], F.col(quoted(one))) for one in names]

    def fields_of(self, packed: Column, inner: DataType, wanted: StructType, name: str) -> _Fields:
        """The fields of a struct column, by their names.

        Args:
            packed: the column.
            inner: its type.
            wanted: the fields.
            name: what it is called, for errors.
        """
        have = {field.name: field for field in inner.fields} if isinstance(inner, StructType) else {}
        if have.keys() != set(wanted.fieldNames()):
            raise StateSchemaError(
                f"column {name!r} of {self.what} is {inner.simpleString()}; its fields must be"
                f" {columns_ddl(wanted.fields)}"
            )
        for field in wanted.fields:
            self.check_type(have[field.name], field.dataType, f"field {name}.{field.name}")
        nothing = F.raise_error(F.lit(f"{self.what} has a row whose {name} is null; leave the row out"))
        there = F.when(packed.isNotNull(), packed).otherwise(nothing.cast(inner))
        return [(have[field.name], there[field.name]) for field in wanted.fields]

    def check_type(self, field: StructField, wanted: DataType, what: str) -> None:
        """Raise StateSchemaError if a column's values cannot all be of the wanted type."""
        if not _fits(field.dataType, wanted):
            raise StateSchemaError(
                f"{what} in {self.what} is {field.dataType.simpleString()}; it takes {wanted.simpleString()}, or what"
                " becomes that without loss (an integer of another width, a float a double)"
            )

    def converted(self, given: tuple[StructField, Column], wanted: DataType) -> Column:
        """A column that fits as the wanted type; an integer beyond it is an error of the row."""
        field, column = given
        width = _WIDTHS.get(type(wanted))
        if width is None or _WIDTHS.get(type(field.dataType), 0) <= width:
            return column.cast(wanted)
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        said = F.concat(
            F.lit(f"{self.what} has {field.name} = "),
            column.cast("string"),
            F.lit(f"; {wanted.simpleString()} takes {low} to {high}"),
        )
        return F.when(column.isNull() | column.between(low, high), column.cast(wanted)).otherwise(
            F.raise_error(said).cast(wanted)
        )

    def missing(self, name: str, type_text: str, also: str = "") -> StateSchemaError:
        """The error that there is no such column."""
        near = difflib.get_close_matches(name, self._columns, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        held = ", ".join(self._columns) or "none"
        return StateSchemaError(f"{self.what} has no column {name!r} ({type_text}){also}; its columns are {held}{hint}")

    def check_rest(self) -> None:
        """Raise StateSchemaError if a column was of no use: it may be a field that was misspelled, or is not kept."""
        rest = [name for name in self._columns if name not in self.used and name not in _IGNORED]
        if rest:
            raise StateSchemaError(
                f"{self.what} has column {rest[0]!r}, which is neither the key's nor the state's; used are"
                f" {', '.join(sorted(self.used))}; leave it out"
            )


def _fits(found: DataType, wanted: DataType) -> bool:
    """Whether each value of a type is one of another without loss, or is looked at, as integers are."""
    if type(found) in _WIDTHS and type(wanted) in _WIDTHS:
        return True
    return found == wanted or obstacle(arrow_type(found), arrow_type(wanted)) is None
