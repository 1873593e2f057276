"""Rewinding Spark's query log to the batch of a checkpoint."""

from __future__ import annotations

import os
import shutil
from itertools import product
from pathlib import Path

import pytest
from mixedmode.errors import CorruptStateError
from mixedmode.runtime.checkpoints.metadata import SparkPosition
from mixedmode.runtime.checkpoints.spark_log import SparkLog, crc_file
from pyarrow import fs

COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


def offsets(batch: int) -> str:
    """An entry as Spark writes it for one file source."""
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":17000000{batch:05d}}}\n{{"logOffset":{batch}}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The checkpoint folder of a query that has processed batches 0 to 3 and planned batch 4."""
    for log, last in (("offsets", 4), ("commits", 3)):
        (tmp_path / log).mkdir()
        for batch in range(last + 1):
            entry = offsets(batch) if log == "offsets" else COMMIT
            (tmp_path / log / str(batch)).write_text(entry)
            (tmp_path / log / f".{batch}.crc").write_bytes(crc_file(entry.encode()))
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "4").write_text("files")
    (tmp_path / "metadata").write_text('{"id":"query"}')
    return tmp_path


def log_of(folder: Path) -> SparkLog:
    return SparkLog(fs.LocalFileSystem(), str(folder))


def entries(folder: Path) -> dict[str, set[str]]:
    return {log: set(os.listdir(folder / log)) for log in ("offsets", "commits")}


def test_rewind_forgets_later_batches(folder: Path) -> None:
    """Every entry after the position goes, with its checksum file; the rest stays as it was."""
    log = log_of(folder)
    position = log.position(1)
    assert position.offset_entry == offsets(1)
    assert log.rewind(position) == 3
    kept = {"0", "1", ".0.crc", ".1.crc"}
    assert entries(folder) == {"offsets": kept, "commits": kept}
    assert (folder / "sources" / "0" / "4").exists()
    assert (folder / "metadata").exists()


def test_what_spark_had_not_finished_writing_is_no_entry(folder: Path) -> None:
    """A file that a killed Spark was about to rename to an entry may be cut off, and its checksum with it."""
    for name, content in ((".5.0b1c.tmp", "fil"), ("..5.0b1c.tmp.crc", "crc")):
        (folder / "sources" / "0" / name).write_text(content)
    log_of(folder).check()


def test_what_sources_have_read_is_sealed(folder: Path) -> None:
    """Spark writes no checksums; with ours a wrong bit is found, and those of removed entries go."""
    source, log = folder / "sources" / "0", log_of(folder)
    (source / "9.compact").write_text("all files")
    (source / ".10.0b1c.tmp").write_text("fil")
    (source / ".3.crc").write_bytes(crc_file(b"removed by Spark"))
    os.unlink(folder / "offsets" / "0")
    log.seal()
    names = {"4", ".4.crc", "9.compact", ".9.compact.crc", ".10.0b1c.tmp"}
    assert set(os.listdir(source)) == names
    assert ".0.crc" not in os.listdir(folder / "offsets") and ".1.crc" in os.listdir(folder / "offsets")
    log.check()
    log.seal()
    assert set(os.listdir(source)) == names
    (source / "4").write_text("fileS")
    log.seal()  # what was sealed stays so
    with pytest.raises(CorruptStateError, match="sources/0/4"):
        log.check()


def test_nothing_is_sealed_before_a_query_has_begun(tmp_path: Path) -> None:
    """There may be no folder yet, and names may hold what is special to a pattern."""
    log_of(tmp_path / "none").seal()
    source = tmp_path / "a[1]" / "sources" / "0"
    source.mkdir(parents=True)
    (source / "0").write_text("files")
    log_of(tmp_path / "a[1]").seal()
    assert (source / ".0.crc").read_bytes() == crc_file(b"files")


@pytest.mark.parametrize("back", ["restart", "replay", "rewind"])
def test_going_back_removes_what_spark_had_not_finished_writing(folder: Path, back: str) -> None:
    """Temporary files of a killed Spark go, whatever their number: beside one no query without entries begins."""
    names = [".0.0b1c.tmp", "..0.0b1c.tmp.crc", ".9.0b1c.tmp"]
    for log, name in product(("offsets", "commits"), names):
        (folder / log / name).write_text("v1")
    if back == "rewind":
        (folder / "sources" / "0" / "..4.0b1c.tmp.crc").write_text("crc")
    log = log_of(folder)
    {"restart": log.restart, "replay": log.replay, "rewind": lambda: log.rewind(log.position(1))}[back]()
    assert not [path.name for path in folder.rglob("*.tmp*")]


def test_rewind_to_an_uncommitted_batch_commits_it(folder: Path) -> None:
    """A batch that our checkpoint holds but Spark had not committed is not delivered again."""
    log = log_of(folder)
    assert log.rewind(log.position(4)) == 0
    assert (folder / "commits" / "4").read_text().startswith("v1\n")


def test_rewind_restores_a_purged_entry(folder: Path) -> None:
    """An entry that Spark has purged meanwhile is written again from the checkpoint, without a stale checksum."""
    log = log_of(folder)
    position = log.position(1)
    for name in ("offsets", "commits"):
        os.unlink(folder / name / "1")
    log.rewind(position)
    assert (folder / "offsets" / "1").read_text() == offsets(1)
    assert (folder / "commits" / "1").exists()
    assert ".1.crc" not in os.listdir(folder / "offsets")


def test_rewind_twice_is_rewind_once(folder: Path) -> None:
    """A rewind that is repeated after a crash changes nothing more."""
    log = log_of(folder)
    position = log.position(2)
    log.rewind(position)
    before = entries(folder)
    assert log.rewind(position) == 0
    assert entries(folder) == before


def test_clear_forgets_the_query(folder: Path) -> None:
    """Clearing removes the whole folder, and may be done again."""
    log_of(folder).clear()
    log_of(folder).clear()
    assert not folder.exists()


def test_replay_hands_the_first_batch_over_again(folder: Path) -> None:
    """Only the plan of the first batch is left: Spark would otherwise go on from its newest plan and skip the first."""
    log_of(folder).replay()
    assert set(os.listdir(folder / "offsets")) == {"0", ".0.crc"}
    assert not (folder / "commits").exists()
    assert (folder / "sources" / "0" / "4").exists()


def test_rewind_restores_the_entry_before(folder: Path) -> None:
    """Spark will not start without the entry before the newest; where it was purged, a copy says "nothing between"."""
    log = log_of(folder)
    position = log.position(3)
    for batch in (0, 1, 2):
        os.unlink(folder / "offsets" / str(batch))
        os.unlink(folder / "offsets" / f".{batch}.crc")
    log.rewind(position)
    assert set(os.listdir(folder / "offsets")) == {"2", "3", ".3.crc"}
    assert (folder / "offsets" / "2").read_text() == offsets(3)


def test_a_missing_or_altered_entry_makes_no_difference(folder: Path) -> None:
    """Whatever bit or end is lost of the entries that Spark starts from, or of their checksums, is put right."""
    log = log_of(folder)
    position = log.position(3)
    log.rewind(position)
    sound = {"offsets/3": {offsets(3)}, "offsets/2": {offsets(2), offsets(3)}, "commits/3": {COMMIT}}
    for name, allowed in sound.items():
        whole = (folder / name).read_bytes()
        harmed = [whole[:cut] for cut in range(len(whole))]
        harmed += [whole[:i] + bytes([whole[i] ^ (1 << i % 8)]) + whole[i + 1 :] for i in range(len(whole))]
        crc = folder / name.replace("/", "/.")
        for content in harmed:
            (folder / name).write_bytes(content)
            crc.with_name(f"{crc.name}.crc").write_bytes(crc_file(whole))
            log.rewind(position)
            assert (folder / name).read_text() in allowed, content
        (folder / name).write_bytes(whole)
        crc.with_name(f"{crc.name}.crc").write_bytes(crc_file(whole)[:-1])
        log.rewind(position)
        assert (folder / name).read_text() in allowed
        assert not crc.with_name(f"{crc.name}.crc").exists(), "Spark would refuse a good entry with a bad checksum"


def test_replay_restores_the_first_entry(folder: Path) -> None:
    """A damaged plan of the pinned batch is written again from the pin."""
    (folder / "offsets" / "0").write_text(offsets(0)[:-3])
    log_of(folder).replay(offsets(0))
    assert (folder / "offsets" / "0").read_text() == offsets(0)


def test_what_cannot_be_restored_is_checked(folder: Path) -> None:
    """The source's own log and the query's id are compared with Hadoop's checksums; an entry without one is taken."""
    log = log_of(folder)
    log.check()
    for name in ("metadata", "sources/0/4"):
        path = folder / name
        whole = path.read_bytes() * 400  # several chunks
        path.write_bytes(whole)
        crc = path.with_name(f".{path.name}.crc")
        crc.write_bytes(crc_file(whole))
        log.check()
        for harmed in (whole[:-1], whole[:700] + b"?" + whole[701:], b""):
            path.write_bytes(harmed)
            with pytest.raises(CorruptStateError, match=str(path)):
                log.check()
        path.write_bytes(whole)
    log.check()


def source_log(folder: Path, *names: str) -> Path:
    """The log of the first source, with these entries."""
    log = folder / "sources" / "0"
    for old in log.iterdir():
        old.unlink()
    for name in names:
        (log / name).write_text("files")
    return log


def test_a_source_that_is_read_twice_has_one_log(folder: Path) -> None:
    """Its offset is told twice; the number of each offset's log says where its entries are."""
    source_log(folder, "0", "1", "2", "3", "4")
    log, entry = log_of(folder), offsets(4)
    twice = SparkPosition(batch_id=4, offset_entry=entry + '\n{"logOffset":4}\n{"other":1}')
    log.check(twice, (0, 0, 1))
    with pytest.raises(CorruptStateError, match="sources/1/"):
        log.check(twice, (0, 1, 2))


WHOLE_LOGS = [
    [str(n) for n in range(5)],
    [str(n) for n in range(9)],  # the query went on after the position
    ["2.compact", "3", "4"],
    ["0", "1", "2.compact", "3", "4"],
    ["4.compact"],
    ["2.compact", "3", "4", "5.compact", "6"],
]


@pytest.mark.parametrize("names", WHOLE_LOGS)
def test_every_entry_that_a_file_source_needs_is_missed(folder: Path, names: list[str]) -> None:
    """An entry since the last compaction that is not there is named with what to do; older ones are Spark's to
    remove."""
    log = log_of(folder)
    position = log.position(4)
    source = source_log(folder, *names)
    log.check(position)
    compactions = [int(name.split(".")[0]) for name in names if name.endswith(".compact")]
    for name in names:
        number = int(name.split(".")[0])
        (source / name).unlink()
        if number >= max(compactions, default=0) and (number <= 4 or name != names[-1]):
            with pytest.raises(
                CorruptStateError, match=rf"/sources/0/{number}(\.compact)? is missing, .*Restore it .*, or start again"
            ):
                log.check(position)
        (source / name).write_text("files")


def test_a_missing_query_folder_is_named(folder: Path) -> None:
    """The folder, or the file with the query's id, is missed only where a query has been."""
    log = log_of(folder)
    position = log.position(0)
    source_log(folder, "0")
    (folder / "metadata").unlink()
    with pytest.raises(CorruptStateError, match=rf"^{folder}/metadata is missing"):
        log.check(position)
    log.check()
    shutil.rmtree(folder)
    with pytest.raises(CorruptStateError, match=rf"^{folder} is missing, .*start again with a new checkpointLocation"):
        log.check(position)


@pytest.mark.parametrize("line", ["-", "3", '{"logOffset":-1}', '{"topic":{"0":17}}', '{"logOffset":3,"x":1}', "{"])
def test_sources_of_other_kinds_have_no_such_log(folder: Path, line: str) -> None:
    """What another source writes beside its query is its own affair, as is a file source that has read nothing."""
    log = log_of(folder)
    shutil.rmtree(folder / "sources")
    log.check(SparkPosition(batch_id=3, offset_entry=f"v1\n{{}}\n{line}"))
