"""Where there may be executors to keep shards on."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.runtime.jobs import shard_placement
from mixedmode.runtime.jobs.shard_placement import ShardPlacement


@pytest.mark.parametrize(
    ("master", "setting", "possible", "warned"),
    [
        ("local", "true", False, 0),
        ("local[*]", "true", False, 0),
        ("local[2, 4]", "false", False, 0),
        ("local-cluster[2,1,1024]", "false", True, 0),
        ("spark://host:7077", "true", False, 1),
        ("yarn", "FALSE", True, 0),
    ],
)
def test_only_a_cluster_is_told_what_shards_need(
    caplog: pytest.LogCaptureFixture, master: str, setting: str, possible: bool, warned: int
) -> None:
    """In local mode there is nothing to choose, and nothing to warn of."""
    context = SimpleNamespace(master=master, getConf=lambda: {"spark.shuffle.reduceLocality.enabled": setting})
    spark: Any = SimpleNamespace(sparkContext=context)
    with caplog.at_level(logging.WARNING, shard_placement.__name__):
        assert ShardPlacement.are_possible(spark) is possible
    assert len(caplog.records) == warned
