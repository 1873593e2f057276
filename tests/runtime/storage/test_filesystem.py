"""Where a path leads: to where Spark would write if it were given the same text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mixedmode.errors import OptionError
from mixedmode.runtime.storage.filesystem import resolve, uri
from mixedmode.runtime.storage.folder_checks import check_folder, resolve_option
from pyarrow import fs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "written",
    [
        "file://{folder}/a%20b",
        "file://{folder}/a b",
        "file:{folder}/100%",
        "file:{folder}/a#b?c=1",
        "FILE://{folder}/upper/",
        "file:///{folder}/slashes",
        "file://{folder}/x/../ünï",
        "{folder}/plain%20b",
    ],
)
def test_a_folder_is_sparks(spark: SparkSession, tmp_path: Path, written: str) -> None:
    """Spark's Parquet writer finds its own folder under that name, nothing is decoded; and it reads what is there."""
    location = written.format(folder=tmp_path)
    spark.createDataFrame([(1,)], "n int").write.parquet(location)
    (folder,) = (Path(root) for root, _, files in os.walk(tmp_path) if "_SUCCESS" in files)
    filesystem, path = resolve(location)
    assert isinstance(filesystem, fs.LocalFileSystem)
    assert path == str(folder)
    assert spark.read.parquet(uri(location, path)).count() == 1
    check_folder("path", location)


@pytest.mark.parametrize("location", ["file://host/out", "file:out", "file://out"])
def test_a_local_path_on_another_host(location: str) -> None:
    """Spark refuses these, too."""
    with pytest.raises(OptionError, match=rf"^path = '{location}' cannot be reached"):
        resolve_option("path", location)


def test_other_filesystems_are_pyarrows(tmp_path: Path) -> None:
    """Whatever is no local path is looked up by its scheme."""
    filesystem, path = resolve("mock:///out/")
    assert filesystem.type_name == "mock" and path == "out"
    assert uri("s3://bucket/out", "bucket/out/part") == "s3://bucket/out/part"
