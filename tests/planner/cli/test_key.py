"""A key on the command line as the values of its columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
import typer
from mixedmode.planner.cli.key import key_values
from mixedmode.runtime.checkpoints.metadata import OperatorState, StateLayout
from mixedmode.state.keys.registry import schema_to_json

WINDOW = pa.struct([("start", pa.timestamp("us")), ("end", pa.timestamp("us"))])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (WINDOW, '{"start":1e400,"end":2}'),
        (WINDOW, f'{{"start":{10**30},"end":2}}'),
        (pa.list_(pa.int32()), f"[{10**30}]"),
        (pa.int64(), "1e400"),
    ],
)
def test_a_number_that_no_column_holds(kind: pa.DataType, text: str) -> None:
    """It is an error of the command line, which names the column and its type."""
    layout = StateLayout(operator="agg", key_labels=("k",), key_schema=schema_to_json(pa.schema([("k", kind)])))
    stage = OperatorState(uid="totals", layout=layout, max_parallelism=128, registry=None)
    with pytest.raises(typer.BadParameter, match=r"^--key .* is no .*, which key column 'k' is"):
        key_values(stage, [text])
