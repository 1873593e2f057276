"""The page on testing: its code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def run(text: str, names: dict[str, Any]) -> None:
    for code in _BLOCK.findall(text):
        exec(compile(code, PAGE.name, "exec"), names)


def test_the_page_without_spark() -> None:
    """What comes before Spark needs none."""
    names: dict[str, Any] = {"__name__": "__main__"}
    run(PAGE.read_text().partition("## A whole job, with Spark")[0], names)
    names["harness"].close()


@pytest.mark.slow
def test_the_page_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A whole job and a dry run give what the page says of them."""
    before, _, rest = PAGE.read_text().partition("## A whole job, with Spark")
    names: dict[str, Any] = {"__name__": "__main__", "spark": spark, "folder": str(tmp_path / "history")}
    run(before.partition("### However the rows come")[0], names)
    names["harness"].close()
    run(rest, names)
