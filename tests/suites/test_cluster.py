"""TransformWithStateClusterSuite of Spark: a processor whose rows and state go through two executors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver_jvm import DriverJvm

CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture
def jvm(tmp_path: Path) -> Iterator[DriverJvm]:
    made = DriverJvm(tmp_path)
    yield made
    made.close()


@pytest.mark.cluster
@pytest.mark.suites
@pytest.mark.timeout(600)
@pytest.mark.parametrize("initial", [False, True], ids=["without initial state", "with initial state"])
def test_processor_gives_on_a_cluster_what_stock_gives(tmp_path: Path, jvm: DriverJvm, initial: bool) -> None:
    found: dict[str, Any] = {}
    for way in ("stock", "ours"):
        program = Path(__file__).with_name("fruits.py")
        done = jvm.run(program, tmp_path / way, way, str(initial), SESSIONS_MASTER=CLUSTER)
        assert done.returncode == 0, done.stdout
        found[way] = json.loads(done.stdout.strip().splitlines()[-1])
    counts = {"apple": 4, "orange": 6} if initial else {"apple": 2, "orange": 3}
    first = [["apple", counts["apple"], "non-citrus"], ["orange", counts["orange"], "citrus"]]
    assert found["stock"] == [first, sorted([*first, ["lemon", 1, "citrus"], ["lime", 1, "citrus"]])]
    assert found["ours"] == found["stock"]
