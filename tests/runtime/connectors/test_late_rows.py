"""Names of columns that late rows cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixedmode import PlanError
from mixedmode.runtime.connectors.late_rows import LateRows
from pyspark.sql.types import LongType, StructField, StructType


def schema(name: str) -> StructType:
    return StructType([StructField("key", LongType()), StructField(name, LongType())])


@pytest.mark.parametrize("name", ["stage", "Stage"])
def test_the_folders_name_is_refused_as_a_column_of_several_stages(tmp_path: Path, name: str) -> None:
    """Who reads the whole folder gets the stage under it; of one stage the files are in the folder itself."""
    with pytest.raises(
        PlanError, match=rf"column {name}, which stage second takes, has the name of the folders .*=<uid>"
    ):
        LateRows(str(tmp_path), {"first": schema("value"), "second": schema(name)})
    assert LateRows(str(tmp_path), {"only": schema(name)}).schemas["only"].fieldNames() == ["key", name, "_watermark"]


@pytest.mark.parametrize("name", ["_watermark", "_Watermark"])
def test_the_watermarks_name_is_refused_as_a_column(tmp_path: Path, name: str) -> None:
    """In any case: Spark's writers take two such columns for one."""
    with pytest.raises(PlanError, match=f"column {name} has the name under which late rows get their watermark"):
        LateRows(str(tmp_path), {"only": schema(name)})
