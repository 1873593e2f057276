"""How a run claims its location, and what becomes of the claim if it cannot begin."""

from __future__ import annotations

from pathlib import Path

import mixedmode
import pytest
from mixedmode.errors import CheckpointError
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease
from mixedmode.runtime.driver.run import runner as runner_module
from mixedmode.runtime.driver.run.runner import JobRunner
from mixedmode.runtime.metrics.events.facts import FactListeners
from mixedmode.runtime.support.ids import NO_RUN, RunId
from pyarrow import fs
from pyspark.sql import SparkSession


@pytest.mark.parametrize("step", ["spark_uri", "BacklogProgress", "identify"])
def test_a_claim_that_fails_keeps_no_location(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whichever step fails behind the claim: the error names the option, and the next run gets the location."""
    (tmp_path / "in").mkdir()
    live = spark.readStream.schema("k string").parquet(str(tmp_path / "in"))
    frame = mixedmode.read(history=spark.sql("select 'a' as k"), live=live)
    stream = frame.writeStream.option("path", str(tmp_path / "out"))
    job = stream.option("checkpointLocation", str(tmp_path / "ck")).described()
    first, second = (JobRunner(job, str(tmp_path / "ck"), RunId(run), FactListeners()) for run in ("first", "second"))
    with monkeypatch.context() as patch:
        patch.setattr(runner_module, step, _refuse)
        with pytest.raises(CheckpointError, match=r"^checkpointLocation '.*/ck' cannot be claimed: .*Permission"):
            first.claim()
    DriverLease(fs.LocalFileSystem(), str(tmp_path / "ck" / "mixedmode"), NO_RUN).check_free()
    second.claim()
    second.context.lease.release()


def _refuse(*_: object) -> None:
    raise PermissionError(13, "Permission denied")
