"""What recovery makes of Spark's log before a checkpoint has a position."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.errors import CorruptStateError, PlanError
from mixedmode.runtime.checkpoints.first_position import FirstPosition, FirstPositions, discard_if_behind
from mixedmode.runtime.checkpoints.metadata import SparkPosition
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.sources.live_query import LiveSource
from mixedmode.runtime.connectors.sources.live_sources import FIRST_OFFSET, LiveSourceFacts, check_replayable

RATE = LiveSourceFacts("rate", {"rowspersecond": "5"})
FILES = LiveSourceFacts("FileSource[/landing]", {"path": "/landing"})
FEED = LiveSourceFacts("feed", {"path": "/feed"})
TOLD = LiveSourceFacts("delta", {"path": "/t", FIRST_OFFSET: '{"version":5}'})
TOLD_ENTRY = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}\n{"version":5}'
ENTRY = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1}\n{"line":3}'


@pytest.fixture
def spark_log(store: CheckpointStore) -> Path:
    """Spark's log of a query that has committed batches 0 and 1 and planned batch 2."""
    folder = Path(store.spark_location)
    for log, last in (("offsets", 2), ("commits", 1)):
        (folder / log).mkdir(parents=True)
        for batch in range(last + 1):
            (folder / log / str(batch)).write_text(ENTRY if log == "offsets" else 'v1\n{"nextBatchWatermarkMs":0}')
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "sources" / "0" / "0").write_text("v1\n1700000000000")
    (folder / "metadata").write_text('{"id":"query"}')
    return folder


def entries(folder: Path, log: str) -> set[str]:
    return set(os.listdir(folder / log)) if (folder / log).exists() else set()


def test_a_source_with_a_log_begins_where_it_began(store: CheckpointStore, spark_log: Path) -> None:
    """Its log and the query's id stay; what was planned and committed is forgotten."""
    positions = FirstPositions(store, (RATE,))
    positions._save(FirstPosition((RATE.identity,)))
    assert positions.go_back()
    assert (entries(spark_log, "offsets"), entries(spark_log, "commits")) == (set(), set())
    assert (spark_log / "sources" / "0" / "0").exists() and (spark_log / "metadata").exists()


def test_a_source_without_a_log_begins_behind_its_first_batch(store: CheckpointStore, spark_log: Path) -> None:
    """Micro-batch 0 stays committed, even if Spark had lost it; later ones are forgotten."""
    positions = FirstPositions(store, (FEED,))
    positions._save(FirstPosition((FEED.identity,), ENTRY, rows=2))
    (spark_log / "commits" / "0").unlink()
    assert positions.go_back()
    assert (entries(spark_log, "offsets"), entries(spark_log, "commits")) == ({"0"}, {"0"})
    assert positions.load() == FirstPosition((FEED.identity,), ENTRY, rows=2)


def test_a_first_batch_that_was_planned_is_run_as_planned(store: CheckpointStore, spark_log: Path) -> None:
    """Of a source without a log the plan of micro-batch 0 is all that is known of where it began."""
    positions = FirstPositions(store, (FEED,))
    positions._save(FirstPosition((FEED.identity,)))
    assert positions.go_back()
    assert (entries(spark_log, "offsets"), entries(spark_log, "commits")) == ({"0"}, set())


@pytest.mark.parametrize("before", [None, RATE, LiveSourceFacts("feed", {"path": "/other"})])
def test_another_source_begins_anew(store: CheckpointStore, spark_log: Path, before: LiveSourceFacts | None) -> None:
    """What another source has logged is not its start."""
    positions = FirstPositions(store, (FEED,))
    if before is not None:
        positions._save(FirstPosition((before.identity,), ENTRY))
    assert not positions.go_back()
    assert not spark_log.exists() and positions.load() is None


class ToldLive:
    """Stands for the live query of sources that were told where to begin."""

    def stated_entry(self, sources: object) -> str:
        return TOLD_ENTRY


def test_a_source_begins_behind_the_offset_that_it_was_told(store: CheckpointStore, spark_log: Path) -> None:
    """Its log says that it has read up to there, twice; a restart goes back to that, and to a pinned backlog's plan."""
    positions, live = FirstPositions(store, (TOLD,)), cast(LiveSource, ToldLive())
    settled = positions.settle(live, store.location, history_first=True)
    assert settled == FirstPosition((TOLD.identity,), TOLD_ENTRY, batch=1) == positions.load()
    assert (entries(spark_log, "offsets"), entries(spark_log, "commits")) == ({"0", "1"}, {"1"})
    assert {(spark_log / "offsets" / name).read_text() for name in "01"} == {TOLD_ENTRY}
    assert (spark_log / "metadata").read_text() == '{"id":"query"}', "it is the same query"
    for batch, log in ((2, "offsets"), (2, "commits"), (3, "offsets")):
        (spark_log / log / str(batch)).write_text(ENTRY)
    assert positions.settle(live, store.location, history_first=True) == settled
    assert positions.go_back(replay=True, entry=ENTRY)
    assert (entries(spark_log, "offsets"), entries(spark_log, "commits")) == ({"0", "1", "2"}, {"1"})
    assert positions.go_back()
    assert (entries(spark_log, "offsets"), entries(spark_log, "commits")) == ({"0", "1"}, {"1"})
    (spark_log / "metadata").unlink()
    positions.discard()
    assert positions.settle(live, store.location, history_first=True) == settled
    store.spark_log.check(SparkPosition(batch_id=1, offset_entry=TOLD_ENTRY))
    behind_another = LiveSourceFacts("delta", {"path": "/t", FIRST_OFFSET: '{"version":9}'})
    assert not FirstPositions(store, (behind_another,)).go_back(), "it is to begin somewhere else, so begins anew"


def test_an_offset_told_beside_a_source_that_keeps_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both are could not be settled together; beside one that logs its start it can."""
    found = (TOLD, RATE)
    monkeypatch.setattr("mixedmode.runtime.connectors.sources.live_sources.live_sources", lambda live: found)
    check_replayable(cast(Any, None))
    found = (TOLD, FEED)
    with pytest.raises(PlanError, match=r"'feed' keeps no record .* 'delta' begins right behind a history"):
        check_replayable(cast(Any, None))


@pytest.mark.parametrize(
    ("mode", "is_known", "is_refused"),
    [
        ("archive", False, True),
        ("DELETE", False, True),
        ("Off", False, False),
        (None, False, False),
        ("delete", True, False),
    ],
)
def test_files_that_go_before_a_checkpoint_holds_their_rows_are_refused(
    monkeypatch: pytest.MonkeyPatch, mode: str | None, is_known: bool, is_refused: bool
) -> None:
    """A version of Spark whose cleaner cannot be taken out of its query takes files away micro-batch by micro-batch."""
    options = {"path": "/landing"} | ({} if mode is None else {"cleansource": mode})
    found = (LiveSourceFacts("FileSource[/landing]", options),)
    place = "mixedmode.runtime.connectors.sources.live_sources"
    monkeypatch.setattr(f"{place}.live_sources", lambda live: found)
    monkeypatch.setattr(f"{place}.can_be_taken", lambda spark: is_known)
    with pytest.raises(PlanError, match="cleanSource = ") if is_refused else nullcontext():
        check_replayable(cast(Any, SimpleNamespace(sparkSession=None)))


def test_rate_limits_and_credentials_do_not_make_another_source() -> None:
    """Only what says which data a source reads belongs to its identity."""
    one = LiveSourceFacts("kafka", {"subscribe": "t", "maxoffsetspertrigger": "5", "kafka.sasl.jaas.config": "a"})
    other = LiveSourceFacts("kafka", {"subscribe": "t", "kafka.sasl.jaas.config": "b", "startingoffsets": "earliest"})
    assert one.identity == other.identity != LiveSourceFacts("kafka", {"subscribe": "u"}).identity
    # Behind another history it begins somewhere else.
    behind = [LiveSourceFacts("kafka", {"subscribe": "t", "startingoffsets": f'{{"t":{{"0":{at}}}}}'}) for at in (5, 6)]
    assert len({one.identity, *(source.identity for source in behind)}) == 3


def test_who_keeps_the_first_position() -> None:
    """Sources that log it, sources whose options say it, and those that are asked again."""
    cases = {
        "kafka": {"startingoffsets": "latest"},
        "rate": {},
        "rate-micro-batch": {},
        "FileSource[/x]": {},
        "socket": {},
        "feed": {},
    }
    found = {name: LiveSourceFacts(name, options).first_position_by for name, options in cases.items()}
    assert found == {
        "kafka": "logged",
        "rate": "logged",
        "rate-micro-batch": "given",
        "FileSource[/x]": "logged",
        "socket": "lost",
        "feed": "asked",
    }
    assert TOLD.first_position_by == "given"
    assert LiveSourceFacts("delta", {"startingversion": "7"}).first_position_by == "given"
    from_now = LiveSourceFacts("delta", {"startingversion": "latest"})
    assert (from_now.first_position_by, from_now.from_now) == ("asked", "startingversion = 'latest'")


def test_damage(store: CheckpointStore, spark_log: Path) -> None:
    """A damaged record is an error; a damaged log of a file source is not, since that begins with what is there."""
    positions = FirstPositions(store, (FILES,))
    positions._save(FirstPosition((FILES.identity,)))
    (spark_log / "sources" / "0" / ".0.crc").write_bytes(b"crc\0wrong")
    rate = FirstPositions(store, (RATE,))
    rate._save(FirstPosition((RATE.identity,)))
    with pytest.raises(CorruptStateError, match="sources/0"):
        rate.go_back()
    positions._save(FirstPosition((FILES.identity,)))
    assert not positions.go_back() and not spark_log.exists()

    record = Path(positions.folder) / "position.json"
    record.write_bytes(record.read_bytes()[:-1] + b"x")
    with pytest.raises(CorruptStateError, match=r"position\.json.*begins.*damaged"):
        positions.go_back()


def test_the_landed_rows_go_with_the_last_checkpoint_that_needs_them(store, make_metadata) -> None:  # type: ignore[no-untyped-def]
    """As long as a retained checkpoint has no position of its own, the first one is kept."""
    positions = FirstPositions(store, (FEED,))
    positions._save(FirstPosition((FEED.identity,), ENTRY, rows=2))
    store.write(make_metadata(1, spark=None))
    discard_if_behind(store)
    assert positions.load() is not None
    store.write(make_metadata(2, spark={"batch_id": 0, "offset_entry": ENTRY}))
    discard_if_behind(store)
    assert positions.load() is not None
    store.retention.subsume(1)
    discard_if_behind(store)
    assert positions.load() is None
