"""``transformWithStateInPandas``: handlers get pandas frames and yield some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ..rows.row_form import Form, ProcessorInput, ProcessorOutput
from ..rows.row_reader import row_class
from .frame_input import FrameInput
from .frame_settings import FrameSettings
from .frame_writer import FrameBuffer


class FramesForm(Form):
    """pandas frames.

    Args:
        settings: what the session says of them.
    """

    def __init__(self, settings: FrameSettings) -> None:
        self.settings = settings

    @property
    def label(self) -> str:
        return "on pandas frames"

    @property
    def facts(self) -> str:
        return repr(self.settings)

    def input(
        self, schema: StructType, initial_schema: StructType | None, folder: str, *, first: bool = False
    ) -> ProcessorInput:
        return FrameInput(schema, initial_schema, self.settings, first=first)

    def output(self, schema: StructType, write: Callable[[pa.RecordBatch], None]) -> ProcessorOutput:
        return FrameBuffer(schema, write, self.settings)

    def key(self, schema: pa.Schema) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
        """Timestamps as frames show them: ``pandas.Timestamp`` in the session's time zone, without it."""
        converters = [_key_value(field.type, self.settings.time_zone) for field in schema]
        if not any(converters):
            return None
        return lambda values: converted(values, converters)


def _key_value(data_type: pa.DataType, time_zone: str) -> Callable[[Any], Any] | None:
    if pa.types.is_timestamp(data_type):
        import pandas as pd

        if data_type.tz is None:
            return pd.Timestamp
        # Keys have naive local time, as rows.
        return lambda value: pd.Timestamp(value.astimezone()).tz_convert(time_zone).tz_localize(None)
    if pa.types.is_struct(data_type):
        converters = [_key_value(field.type, time_zone) for field in data_type]
        if any(converters):
            row = row_class([field.name for field in data_type])
            return lambda value: tuple.__new__(row, converted(value, converters))
    return None


def converted(
    values: tuple[Any, ...], converters: list[Callable[[Any], Any] | None], *, nulls: bool = False
) -> tuple[Any, ...]:
    """The values, each through its converter if there is one; ``nulls``: those, too."""
    return tuple(
        [
            value if convert is None or (value is None and not nulls) else convert(value)
            for value, convert in zip(values, converters, strict=True)
        ]
    )
