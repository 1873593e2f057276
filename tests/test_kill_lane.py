"""Which files of a run go to the process for kills."""

from __future__ import annotations

from pathlib import Path

import kill_lane

TESTS = Path(__file__).parent
FILES = ["chaos", "graphs", "kills", "whole", "units"]


def test_one_process_takes_files_that_kill_and_the_others_take_them_last() -> None:
    """From both ends, so that the first of them and the shortest others are left for whoever is done first."""
    taken: list[tuple[str, str]] = []
    waiting = list(FILES)
    for place in ("lane", "else", "lane", "else", "else"):
        file = kill_lane.next_file(waiting, {"chaos", "kills"}.__contains__, place == "lane")
        waiting.remove(file)
        taken.append((place, file))
    assert taken == [
        ("lane", "kills"),
        ("else", "graphs"),
        ("lane", "chaos"),
        ("else", "whole"),
        ("else", "units"),
    ]
    assert kill_lane.next_file(["graphs", "units"], lambda file: False, True) == "units"
    assert kill_lane.next_file(["chaos", "kills"], lambda file: True, False) == "chaos"


def test_a_file_kills_if_all_its_tests_do_or_if_one_needs_the_jvm_of_drivers() -> None:
    """By the marker of the file, not by that of one of its tests."""
    assert kill_lane.is_of_kills(TESTS / "e2e" / "recovery" / "test_kill.py")
    assert kill_lane.is_of_kills(TESTS / "e2e" / "whole" / "test_cluster.py")
    assert kill_lane.is_of_kills(TESTS / "e2e" / "kafka" / "test_kafka_kill.py")
    assert not kill_lane.is_of_kills(TESTS / "e2e" / "run" / "test_breaks.py")
