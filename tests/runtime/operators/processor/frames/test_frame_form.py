"""Keys of handlers on pandas frames: as rows have them, but for times, which are the frames'."""

from __future__ import annotations

from datetime import datetime

import pandas as pd
import pyarrow as pa
from mixedmode.runtime.operators.processor.frames.frame_form import FramesForm
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from pyspark.sql import Row

TOKYO = FramesForm(FrameSettings("Asia/Tokyo"))
MOMENT = pa.timestamp("us", "UTC")


def test_times_in_keys_are_in_the_sessions_zone() -> None:
    """Windows as well, which stay rows; times without a zone stay what they are; nulls stay None."""
    window = pa.struct([pa.field("start", MOMENT), pa.field("end", MOMENT)])
    fields = [
        pa.field("at", MOMENT),
        pa.field("plain", pa.timestamp("us")),
        pa.field("w", window),
        pa.field("s", pa.string()),
    ]
    shown = TOKYO.key(pa.schema(fields))
    assert shown is not None
    noon = datetime(2024, 1, 1, 12)
    at, plain, w, s = shown((noon, noon, Row(start=noon, end=None), "x"))
    assert (at, plain, s) == (pd.Timestamp("2024-01-01 21:00"), pd.Timestamp(noon), "x")
    assert (w["start"], w.end) == (at, None)
    assert shown((None, None, None, None)) == (None, None, None, None)


def test_other_keys_are_left_alone() -> None:
    assert TOKYO.key(pa.schema([pa.field("n", pa.int32()), pa.field("d", pa.date32())])) is None
