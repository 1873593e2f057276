"""The hidden column ``_metadata`` of files, where ``groupBy`` or ``agg`` read it.

Spark finds a hidden column in the rows that are read, not in a frame of the same columns, which is what aggregates are
planned over.  So it becomes a column like others before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pyspark.errors import AnalysisException

from ...errors import PlanError
from ...runtime.jvm.log_levels import unlogged
from .inputs import Inputs
from .schemas import find_column

_NAME = "_metadata"
_MENTION = re.compile(rf"(?<!\w){_NAME}(?!\w)", re.IGNORECASE)


def with_file_metadata(inputs: Inputs, expressions: Iterable[Any]) -> Inputs:
    """The inputs with ``_metadata`` as a column, if expressions name it; the same if they do not, or a source has none.

    Args:
        inputs: what is aggregated.
        expressions: names and columns: keys, aggregates.
    """
    if not any(_MENTION.search(str(one)) for one in expressions):
        return inputs
    if find_column(_NAME, inputs.schema, case_sensitive=False) is not None:
        return inputs
    try:
        with unlogged():
            return inputs.map("agg", lambda frame: frame.select("*", _NAME))
    except (AnalysisException, PlanError):  # the expressions say what is missing
        return inputs
