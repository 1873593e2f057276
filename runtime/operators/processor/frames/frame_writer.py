"""pandas frames that a processor yields: checked against the output schema, and turned into record batches.

Most frames have a row or two, and Arrow takes as long for one row as for a thousand.  So the columns of many frames are
joined, as long as their dtypes are the same, and converted together; what that refuses is converted frame by frame, so
that every frame is taken, or refused, as PySpark does it, and an error names the key and the line that yielded it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from traceback import FrameSummary
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import _create_converter_from_pandas
from pyspark.sql.types import StructField, StructType

from .....errors import OutputSchemaError
from ....catalyst.types.arrow_types import arrow_schema
from ....jvm.user_frames import UserFrames
from ..rows.row_writer import frozen_value, is_mutable, misfit
from .frame_settings import FrameSettings

if TYPE_CHECKING:
    import pandas as pd

#: Rows per output record batch, if frames are smaller.
_BATCH_ROWS = 10_000
#: Whether PySpark knows decimals of integers; it does since 4.2 or so.
_COERCES_INTS = "int_to_decimal_coercion_enabled" in inspect.signature(_create_converter_from_pandas).parameters


#: Code and line of a ``yield``.
_Place = tuple[Any, int]


@dataclass(frozen=True)
class _Yielded:
    """One frame that waits."""

    columns: tuple[Any, ...]
    key: Any
    #: None: it was not a generator's.
    place: _Place | None


class FrameBuffer:
    """Frames of many keys on their way to the output.

    Args:
        schema: of the output.
        write: takes the record batches.
        settings: what the session says of pandas.
    """

    def __init__(self, schema: StructType, write: Callable[[pa.RecordBatch], None], settings: FrameSettings) -> None:
        self._schema = schema
        self._arrow_schema = arrow_schema(schema)
        self._write = write
        self._settings = settings
        self._names = schema.fieldNames()
        self._columns = [
            _Column(field, arrow.type, settings) for field, arrow in zip(schema.fields, self._arrow_schema, strict=True)
        ]
        self._frames: list[_Yielded] = []
        self._rows = 0

    def extend(self, rows: Iterable[Any], key: Any) -> None:
        """Take all frames that the handler of a key yields, as they are at this moment."""
        import pandas as pd

        if isinstance(rows, pd.DataFrame):
            raise OutputSchemaError(
                f"the processor returned a pandas DataFrame for key {key!r}; yield it, or return an iterator of frames"
            )
        for frame in rows:
            place = _place(rows)
            if not isinstance(frame, pd.DataFrame):
                raise _located(
                    f"the processor yielded {frame!r} ({type(frame).__name__}) for key {key!r}; yield pandas DataFrames"
                    f" that fit the output schema ({self._schema.simpleString()})",
                    place,
                )
            if not (len(frame.columns) or len(frame)):  # pd.DataFrame() says: nothing
                continue
            columns = self._in_order(frame, key, place)
            if len(frame):
                values = tuple(map(_Column.values, self._columns, columns))
                self._frames.append(_Yielded(values, key, place))
                self._rows += len(frame)
                if self._rows >= _BATCH_ROWS:
                    self.flush()

    def _in_order(self, frame: pd.DataFrame, key: Any, place: _Place | None) -> Iterable[Any]:
        """The columns of the output schema as arrays, by name or by position as PySpark decides it."""
        names = frame.columns.tolist()
        # As iloc[:, place].array, in a tenth of the time.
        column = frame._get_column_array
        if names == self._names:
            return map(column, range(len(names)))
        by_name = self._settings.by_name and any(isinstance(name, str) for name in names)
        if by_name:
            missing = [name for name in self._names if name not in names]
            twice = [name for name in self._names if names.count(name) > 1]
            unknown = [name for name in names if name not in self._names] if self._settings.exact_columns else []
            for what, wrong in (("no", missing), ("more than one", twice), ("another", unknown)):
                if wrong:
                    raise _located(
                        f"the processor yielded a frame with {what} column {', '.join(map(repr, wrong))} for key"
                        f" {key!r}: its columns are {', '.join(map(repr, names)) or 'none'}, the output schema is"
                        f" {self._schema.simpleString()}",
                        place,
                    )
            return [column(names.index(name)) for name in self._names]
        if len(names) != len(self._names):
            raise _located(
                f"the processor yielded a frame with {len(names)} columns for key {key!r}, but the output schema has"
                f" {len(self._names)} fields, which are taken by position: {self._schema.simpleString()}",
                place,
            )
        return map(column, range(len(names)))

    def flush(self) -> None:
        """Write what is waiting."""
        if not self._frames:
            return
        arrays = [
            self._converted(column, [frame.columns[place] for frame in self._frames])
            for place, column in enumerate(self._columns)
        ]
        self._write(pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema))
        self._frames, self._rows = [], 0

    def _converted(self, column: _Column, parts: Sequence[Any]) -> pa.Array:
        """A column of all waiting frames, in their order."""
        arrays, begun = [], 0
        for _, same in groupby(parts, key=lambda part: part.dtype):
            joined = list(same)
            arrays += self._together(column, joined, begun)
            begun += len(joined)
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)

    def _together(self, column: _Column, parts: list[Any], begun: int) -> list[pa.Array]:
        """The same for frames whose column has one dtype; ``begun``: the first of them among all."""
        if len(parts) > 1:
            try:
                return [column.arrow(_joined(parts), cast=False)]
            except Exception:  # whose it is will be told below
                each = [self._together(column, [part], begun + place) for place, part in enumerate(parts)]
                return [array for arrays in each for array in arrays]
        try:
            return [column.arrow(parts[0])]
        except Exception as error:
            raise self._misfit(column, parts[0], self._frames[begun]) from error

    def _misfit(self, column: _Column, part: Any, frame: _Yielded) -> OutputSchemaError:
        for place in range(len(part)):
            one = part[place : place + 1]
            try:
                column.arrow(one)
            except Exception:
                value = one.tolist()[0]
                error = misfit(column.field, value, frame.key, f" in a column of dtype {part.dtype}")
                return _located(str(error), frame.place)
        return _located(
            f"field {column.field.name!r} of the output schema is {column.field.dataType.simpleString()}, which does"
            f" not take the column of dtype {part.dtype} that the processor yielded for key {frame.key!r}",
            frame.place,
        )


class _Column:
    """A column of the output."""

    def __init__(self, field: StructField, arrow_type: pa.DataType, settings: FrameSettings) -> None:
        self.field = field
        self._arrow_type = arrow_type
        self._safe = settings.safe
        coercion = {"int_to_decimal_coercion_enabled": True} if settings.int_to_decimal and _COERCES_INTS else {}
        self._convert = _create_converter_from_pandas(
            field.dataType, timezone=settings.time_zone, error_on_duplicated_field_names=False, **coercion
        )
        # A list or dict that a frame holds may change after it was yielded; what counts is what was yielded.
        self._mutable = is_mutable(field)

    def values(self, column: Any) -> Any:
        """A numpy or pandas array of a frame as one that nobody else can change."""
        values = column.copy()
        if isinstance(values, np.ndarray):
            if self._mutable and values.dtype == np.object_:
                for place, value in enumerate(values):
                    values[place] = frozen_value(value)
            return values
        import pandas as pd

        return values.astype(values.categories.dtype) if isinstance(values.dtype, pd.CategoricalDtype) else values

    def arrow(self, values: Any, *, cast: bool = True) -> pa.Array:
        """Converted as PySpark does it: by the type; ``cast``: else by what Arrow makes of the values, cast to it."""
        import pandas as pd

        series = self._convert(pd.Series(values))
        mask = None if hasattr(series.array, "__arrow_array__") else series.isnull()
        try:
            array = pa.Array.from_pandas(series, mask=mask, type=self._arrow_type, safe=self._safe)
        except pa.ArrowInvalid:
            if not cast:
                raise
            array = pa.Array.from_pandas(series, mask=mask).cast(self._arrow_type, safe=self._safe)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if array.null_count and not self.field.nullable:
            raise ValueError("null")
        return array


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return type(parts[0])._concat_same_type(parts)


def _located(message: str, place: _Place | None) -> OutputSchemaError:
    """An error about a frame that says where it was yielded."""
    if place is None:
        return OutputSchemaError(message)
    code, line = place
    frames = UserFrames((FrameSummary(code.co_filename, line, code.co_name),))
    return OutputSchemaError(frames.located(OutputSchemaError(message)))


def _place(rows: Any) -> _Place | None:
    """Where a generator, or the one that it yields from, has just yielded."""
    while isinstance(inner := getattr(rows, "gi_yieldfrom", None), GeneratorType):
        rows = inner
    frame = getattr(rows, "gi_frame", None)
    return None if frame is None else (frame.f_code, frame.f_lineno)
