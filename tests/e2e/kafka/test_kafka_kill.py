"""Jobs over Kafka, killed in the backlog, at the switch and in the stream: each message comes out once."""

from __future__ import annotations

import shutil
from pathlib import Path

import driver_kafka
import kafka_support
import pytest
import support
from driver_jvm import KILLED, DriverJvm
from kafka_broker import Broker
from kafka_support import check_each_once, send
from mixedmode import kafka as topics
from mixedmode.runtime.support.failpoints import VARIABLE
from pyspark import cloudpickle
from pyspark.sql import SparkSession

DRIVER = Path(driver_kafka.__file__)
cloudpickle.register_pickle_by_value(kafka_support)


@pytest.mark.kill
def test_each_message_comes_out_once_over_kills(
    spark: SparkSession, kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path
) -> None:
    """A job behind a lake, killed in its backlog, goes on there with the shards that it had finished; one from "latest"
    on, killed at its switch, begins where it began first; both go on behind a kill in the stream's checkpoint."""
    names, topic = ("behind", "latest"), {}
    for name in names:
        topic[name] = kafka.create(name, 2)
        send(kafka, topic[name], range(20))
        (tmp_path / name).mkdir()
        (tmp_path / name / "topic").write_text(topic[name])
    snapshot = topics.snapshot(spark, kafka.bootstrap, topic["behind"], parse=kafka_support.parsed)
    snapshot.coalesce(1).write.parquet(str(tmp_path / "behind" / "lake"))
    shutil.copytree(tmp_path / "behind" / "lake", tmp_path / "latest" / "lake")  # which has the same rows

    def life(points: str, *jobs: str, number: str = "first") -> int:
        environment = {VARIABLE: points, "TEST_LIFE": number}
        return driver_jvm.run(DRIVER, tmp_path, kafka.bootstrap, *jobs, **environment).returncode

    send(kafka, topic["behind"], range(20, 40))  # what waits is backlog; "latest" begins behind what there is
    assert life("backlog-epoch-applied=kill", "behind") == KILLED
    assert life("checkpoint-before-metadata=kill", "latest") == KILLED
    for name in names:
        send(kafka, topic[name], range(40, 60))
    # Two at the switch, one for each job behind it, and that of the first job's further messages.
    assert life("checkpoint-before-metadata=kill:5", *names, number="second") == KILLED
    for name in names:
        send(kafka, topic[name], range(80, 90))
    assert life("", *names, number="third") == 0
    check_each_once(support.committed(tmp_path / "behind" / "out"), range(100))
    rest = [*range(20), *range(40, 70), *range(80, 100)]  # the second life ended before "latest" got its last ones
    check_each_once(support.committed(tmp_path / "latest" / "out"), rest)
    assert (tmp_path / "behind" / "reused").read_text() == "2 of 2 shards were finished"
