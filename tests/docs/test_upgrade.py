"""The table of ``docs/upgrade.md``: each row has its tests, and each refusal says its row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_ROW = re.compile(r'^\| <a id="(u\d+)"></a>(U\d+) \| (.+) \| (.+) \|$', re.MULTILINE)
_NAMED = re.compile(r"\[upgrade:(U\d+)\]")
ROWS = {row: (anchor, happens) for anchor, row, _, happens in _ROW.findall((ROOT / "docs/upgrade.md").read_text())}

#: Row -> the tests that show it.
TESTS = {
    "U1": ["e2e/recovery/test_upgrade.py::test_what_may_change_may_change_at_once"],
    "U2": [
        "e2e/recovery/test_restart.py::test_history_that_was_streamed_in_part_is_not_lost_in_mixed_mode",
        "e2e/recovery/test_upgrade.py::test_what_may_not_change_is_refused_with_its_row",
    ],
    "U3": ["e2e/recovery/test_restart.py::test_lives_with_other_parallelisms_are_one_run"],
    "U4": [
        "e2e/sources/test_bad_input.py::test_a_location_that_does_not_fit_or_is_harmed",
        "e2e/recovery/test_savepoint.py::test_other_max_parallelism",
    ],
    "U5": [
        "e2e/recovery/test_savepoint.py::test_restored_job_goes_on_elsewhere",
        "e2e/sinks/test_staged_output.py::test_output_of_another_sink_is_shown_by_this_one",
    ],
    "U6": [
        "e2e/sinks/test_staged_output.py::test_output_that_a_sink_refused_is_shown_under_its_new_name",
        "e2e/sinks/test_staged_output.py::test_a_processors_columns_are_their_names_and_places",
    ],
    "U7": ["e2e/recovery/test_evolution.py::test_old_and_new_values_live_side_by_side"],
    "U8": ["e2e/recovery/test_evolution.py::test_old_and_new_values_live_side_by_side"],
    "U9": ["e2e/recovery/test_evolution.py::test_what_state_cannot_follow_is_refused_before_anything_runs"],
    "U10": [
        "e2e/recovery/test_evolution.py::test_what_state_cannot_follow_is_refused_before_anything_runs",
        "e2e/sources/test_bad_input.py::test_location_of_another_job",
    ],
    "U11": ["runtime/operators/aggregate/test_evolution.py::test_renamed_and_moved_aggregates_keep_their_state"],
    "U12": ["runtime/operators/aggregate/test_evolution.py::test_another_column_under_an_old_name_is_refused"],
    "U13": ["runtime/operators/join/test_run.py::test_a_changed_join_goes_on_with_rows_that_wait_if_they_know_enough"],
    "U14": ["runtime/operators/join/test_run.py::test_a_changed_join_goes_on_with_rows_that_wait_if_they_know_enough"],
    "U15": ["e2e/recovery/test_upgrade.py::test_what_may_not_change_is_refused_with_its_row"],
    "U16": [
        "e2e/recovery/test_savepoint.py::test_unclaimed_operator",
        "e2e/graphs/test_graph.py::test_savepoints_of_other_stages_are_refused",
    ],
    "U17": [
        "runtime/driver/test_check_sources.py::test_a_stage_keeps_its_live_inputs",
        "e2e/sources/test_bad_input.py::test_source_that_is_added_later",
    ],
    "U18": ["e2e/recovery/test_upgrade.py::test_what_may_not_change_is_refused_with_its_row"],
    "U19": ["e2e/recovery/test_upgrade.py::test_what_may_change_may_change_at_once"],
    "U20": ["e2e/recovery/test_savepoint.py::test_restored_job_goes_on_elsewhere"],
    "U21": ["lake/test_delta_source.py::test_history_in_slices_goes_on_at_its_version_only"],
    "U22": ["e2e/recovery/test_upgrade.py::test_what_may_change_may_change_at_once"],
    "U23": ["e2e/processors/test_operator_events.py::test_failing_coordinator"],
    "U24": ["e2e/sources/test_bad_input.py::test_a_job_that_has_ended_does_not_swallow_new_input"],
    "U25": ["e2e/recovery/test_savepoint.py::test_job_goes_on_from_the_first_format"],
    "U26": ["e2e/sources/test_bad_input.py::test_a_location_that_does_not_fit_or_is_harmed"],
    "U27": ["e2e/recovery/test_upgrade.py::test_what_may_change_may_change_at_once"],
}
#: Where a job is compared with what an earlier one has left: whatever is refused there is of a row.
REFUSING = (
    "runtime/driver/recovery/recovery.py",
    "runtime/driver/state/stage_state.py",
    "runtime/operators/aggregate/evolution.py",
    "runtime/operators/join/evolution.py",
    "runtime/protocols/lifecycle/finished_state.py",
    "runtime/checkpoints/format.py",
)


def test_rows_are_numbered() -> None:
    """A row keeps its number; its anchor is the same in small letters."""
    assert list(ROWS) == [f"U{number}" for number in range(1, len(ROWS) + 1)]
    assert all(anchor == row.lower() for row, (anchor, _) in ROWS.items())


@pytest.mark.parametrize("row", ROWS)
def test_row_has_its_tests(row: str) -> None:
    """The tests that are named for a row are there."""
    assert TESTS[row]
    for named in TESTS[row]:
        path, _, function = named.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, named


def _sources() -> list[tuple[str, str]]:
    folders = ("planner", "runtime", "state")
    return [(str(path.relative_to(ROOT)), path.read_text()) for one in folders for path in (ROOT / one).rglob("*.py")]


def test_refusals_and_rows_name_each_other() -> None:
    """A row that says refused is named by an error, and an error names only rows that say so."""
    named = {row for _, text in _sources() for row in _NAMED.findall(text)} | {"U10", "U15"}
    assert named == {row for row, (_, happens) in ROWS.items() if "refused" in happens}


@pytest.mark.parametrize("path", REFUSING)
def test_each_refusal_says_its_row(path: str) -> None:
    """What compares a job with what was left raises nothing that does not name a row, but what carries another."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Raise) and node.exc is not None:
            said = ast.unparse(node.exc)
            if said.startswith(("CheckpointMismatchError(", "StateSchemaError(")):
                assert "[upgrade:" in said or "{error}" in said, f"{path}:{node.lineno}"
