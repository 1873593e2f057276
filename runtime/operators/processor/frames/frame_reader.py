"""pandas frames of a key's rows: the columns of a record batch are converted once, a frame is a slice of them.

Values and dtypes are those of PySpark's pandas functions: timestamps without a zone in the session's time zone, structs
and maps as dicts, arrays as numpy arrays; a frame whose integers have nulls has them as floats (or as ``Int64`` and its
kin, if ``preferIntExtensionDtype`` asks for it), one without has them as what they are.  The frame's own rows decide
that, not their neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import _create_converter_to_pandas
from pyspark.sql.types import DataType, StructType, TimestampNTZType, TimestampType

from .frame_settings import FrameSettings

if TYPE_CHECKING:
    import pandas as pd

#: Names of Spark's types and of pandas' own ones.
_INTEGERS = {"byte": "Int8", "short": "Int16", "integer": "Int32", "long": "Int64"}
_FLAT = {"boolean", "float", "double"}
#: So many ways of having nulls in a batch's columns are worth a conversion of the batch.
_MAX_BASES = 8
#: As PySpark asks Arrow.
_TO_PANDAS = {"date_as_object": True, "coerce_temporal_nanoseconds": True, "integer_object_nulls": True}


class FrameReader:
    """Makes frames of one schema.

    Args:
        schema: their columns, found in batches by name.
        settings: what the session says of pandas.
    """

    def __init__(self, schema: StructType, settings: FrameSettings) -> None:
        self.names = schema.fieldNames()
        self.types = [field.dataType for field in schema.fields]
        self.settings = settings

    def view(self, batch: pa.RecordBatch) -> FrameView:
        """A batch whose columns are found by name."""
        return FrameView(self, [batch.column(batch.schema.get_field_index(name)) for name in self.names], len(batch))


class FrameView:
    """The rows of one batch, as frames.

    Args:
        reader: knows the schema.
        columns: its columns.
        rows: how many there are.
    """

    def __init__(self, reader: FrameReader, columns: list[pa.Array], rows: int) -> None:
        self._reader = reader
        self._columns = columns
        self._rows = rows
        #: Places of columns whose dtype depends on whether there is a null, each with the nulls before each row.
        self._nulls: list[tuple[int, list[int]]] = []
        for place, (column, data_type) in enumerate(zip(columns, reader.types, strict=True)):
            if column.null_count and self._changes_with_nulls(data_type):
                counts = np.cumsum(column.is_null().to_numpy(zero_copy_only=False))
                self._nulls.append((place, [0, *counts.tolist()]))
        #: The whole batch, by which of those columns are converted as having nulls.
        self._bases: dict[tuple[bool, ...], pd.DataFrame] = {}

    def frame(self, start: int, stop: int) -> pd.DataFrame:
        """The rows from start to before stop, with an index from 0."""
        import pandas as pd

        pattern = tuple([counts[stop] != counts[start] for _, counts in self._nulls]) if self._nulls else ()
        base = self._bases.get(pattern)
        if base is None:
            if len(self._bases) >= _MAX_BASES:
                return self._frame(pattern, start, stop)
            base = self._bases[pattern] = self._frame(pattern, 0, self._rows)
        # As iloc, in half the time, and a frame of its own: no SettingWithCopyWarning, an index from 0.
        manager = base._mgr.get_slice(slice(start, stop), axis=1)
        manager.axes[1] = pd.RangeIndex(stop - start)
        return base._constructor_from_mgr(manager, axes=manager.axes)

    def _frame(self, pattern: tuple[bool, ...], start: int, stop: int) -> pd.DataFrame:
        import pandas as pd

        reader = self._reader
        with_nulls = {place for (place, _), nulls in zip(self._nulls, pattern, strict=True) if nulls}
        filled = {place for place, _ in self._nulls} - with_nulls
        values = {
            place: self._values(place, column.slice(start, stop - start), place in filled)
            for place, column in enumerate(self._columns)
        }
        # It copies: handlers may write into their frames, and Arrow's memory is not theirs.
        frame = pd.DataFrame(values, index=pd.RangeIndex(stop - start))
        frame.columns = pd.Index(reader.names)
        return frame

    def _changes_with_nulls(self, data_type: DataType) -> bool:
        name = data_type.typeName()
        return (name in _INTEGERS and not self._reader.settings.int_extension_dtypes) or name == "boolean"

    def _values(self, place: int, column: pa.Array, filled: bool) -> Any:
        """A column's values; ``filled``: what stands for its nulls is never shown."""
        settings, data_type = self._reader.settings, self._reader.types[place]
        kind = data_type.typeName()
        if kind in _INTEGERS and settings.int_extension_dtypes:
            import pandas as pd

            return column.to_pandas(types_mapper=pd.ArrowDtype).astype(_INTEGERS[kind])
        if kind in _INTEGERS or kind in _FLAT:
            whole = column.fill_null(False if kind == "boolean" else 0) if filled else column
            return whole.to_numpy(zero_copy_only=False)
        try:
            if isinstance(data_type, TimestampType):
                # Not pandas' zones, which know other offsets before 1901 than Arrow's, PySpark's.
                local = pc.local_timestamp(column.cast(pa.timestamp("us", settings.time_zone)))
                return local.cast(pa.timestamp("ns")).to_numpy(zero_copy_only=False)
            if isinstance(data_type, TimestampNTZType):
                return column.cast(pa.timestamp("ns")).to_numpy(zero_copy_only=False)
            return self._converter(data_type)(column.to_pandas(**_TO_PANDAS))
        except pa.ArrowInvalid as error:
            if not isinstance(data_type, (TimestampType, TimestampNTZType)):
                raise
            raise OverflowError(
                f"column {self._reader.names[place]}: {error}; timestamps of pandas go from 1677 to 2262, filter out"
                " what is beyond"
            ) from error

    def _converter(self, data_type: DataType) -> Callable[[pd.Series], pd.Series]:
        converter: Callable[[pd.Series], pd.Series] = _create_converter_to_pandas(
            data_type,
            nullable=True,
            timezone=self._reader.settings.time_zone,
            struct_in_pandas="dict",
            error_on_duplicated_field_names=True,
            ndarray_as_list=False,
        )
        return converter
