"""Options from a TOML file."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixedmode import OptionError
from mixedmode.planner.options.file import file_layer
from mixedmode.planner.options.layers import resolve_options


def test_tables_become_dotted_names(tmp_path: Path) -> None:
    """A table is a prefix; numbers and booleans are written as text."""
    path = tmp_path / "job.toml"
    path.write_text(
        'path = "out"\ntruncate = true\n[execution]\nruntime-mode = "batch"\n'
        '[execution.checkpointing]\ninterval = "2 s"\n[pipeline]\nparallelism = 3\n'
    )

    resolved = resolve_options(file_layer(path))

    assert resolved.settings.runtime_mode == "batch"
    assert resolved.settings.checkpoint_interval_ms == 2_000
    assert resolved.settings.parallelism == 3
    assert resolved.sink_options == {"path": "out", "truncate": "true"}


def test_an_error_names_the_file(tmp_path: Path) -> None:
    """Whoever reads the error finds the place."""
    path = tmp_path / "job.toml"
    path.write_text('[execution]\nruntime-mode = "quick"\n')

    with pytest.raises(OptionError, match=r"execution\.runtime-mode = 'quick' \(from .*job\.toml\)"):
        resolve_options(file_layer(path))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a = ", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"[sorter]\nmemory = [1, 2]", r"sorter\.memory = \[1, 2\].* is of type list"),
    ],
)
def test_a_file_that_holds_no_options_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    """Broken TOML, broken UTF-8 and values that are no option's are errors."""
    path = tmp_path / "job.toml"
    path.write_bytes(content)

    with pytest.raises(OptionError, match=problem):
        file_layer(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A file that cannot be read is an error, not an empty one."""
    with pytest.raises(OptionError, match=r"absent\.toml' cannot be read: No such file"):
        file_layer(tmp_path / "absent.toml")
