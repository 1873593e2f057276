"""The versions of libraries with which a run of the tests is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.mark.smoke
def test_workers_import_the_versions_that_the_driver_imports(
    spark: SparkSession, record_testsuite_property: Callable[[str, str], None]
) -> None:
    """``tests/matrix.py`` reads in the report of the run which ones these are."""

    def imported(_: Iterable[int] = ()) -> Iterator[tuple[str, str]]:
        import pyarrow
        import pyspark

        return iter([("pyspark", pyspark.__version__), ("pyarrow", pyarrow.__version__)])

    versions = dict(imported())
    assert dict(spark.sparkContext.parallelize([0], 1).mapPartitions(imported).collect()) == versions
    for library, version in versions.items():
        record_testsuite_property(library, version)
