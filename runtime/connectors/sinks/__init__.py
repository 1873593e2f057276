"""Sinks: files, tables, memory, console, noop, foreachBatch; each says which guarantee it gives."""

from .base import Sink
from .deliveries import Deliveries, WholeResult
from .sink_factory import check_guarantee, make_sink
from .sink_spec import SinkSpec
from .table_checks import table_format

__all__ = ["Deliveries", "Sink", "SinkSpec", "WholeResult", "check_guarantee", "make_sink", "table_format"]
