"""Files of several attempts become durable beside each other; a report comes when all of its own are."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from mixedmode.runtime.tasks.shard.durable_files import Publications

#: Longer than any thread takes to begin.
_PATIENCE_S = 60


class Files:
    """Files of an attempt, which become durable when the test says so.

    Args:
        name: of the one file.
        error: what goes wrong; None: nothing.
    """

    def __init__(self, name: str, error: Exception | None = None) -> None:
        self.name, self.error = name, error
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.is_aborted = False

    def finish(self) -> list[Any]:
        self.begun.set()
        assert self.may_end.wait(_PATIENCE_S)
        if self.error is not None:
            raise self.error
        return [self.name]

    def abort(self) -> None:
        self.is_aborted = True


def test_no_file_waits_for_another() -> None:
    """State and output of two shards are on their way together; each report has the files of its own attempt."""
    files = [(Files(f"state-{shard}"), Files(f"output-{shard}")) for shard in (0, 1)]
    with Publications(2) as publications:
        begun = [publications.begin(cast(Any, state), cast(Any, output), here=False) for state, output in files]
        for one in (one for pair in files for one in pair):
            assert one.begun.wait(_PATIENCE_S), "it waits for another one"
        found: list[Any] = []
        report = threading.Thread(target=lambda: found.append(begun[0].done()))
        report.start()
        files[0][0].may_end.set()
        report.join(0.1)
        assert not found, "the output is not durable yet"
        for one in (one for pair in files for one in pair):
            one.may_end.set()
        report.join(_PATIENCE_S)
        assert found[0][:2] == (("state-0",), ("output-0",))
        assert begun[1].done()[:2] == (("state-1",), ("output-1",))


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("failing", [0, 1])
def test_nothing_is_left_of_an_attempt_whose_files_cannot_be_written(failing: int, here: bool) -> None:
    """The error comes where the report would, and both kinds of files are removed."""
    files = [Files("state"), Files("output")]
    files[failing].error = OSError("the disk is full")
    for one in files:
        one.may_end.set()
    with Publications(1) as publications:
        begun = publications.begin(cast(Any, files[0]), cast(Any, files[1]), here=here)
        with pytest.raises(OSError, match="the disk is full"):
            begun.done()
    assert [one.is_aborted for one in files] == [True, True]


def test_rows_that_are_handed_on_have_no_files() -> None:
    """Only the state is made durable."""
    state = Files("state")
    state.may_end.set()
    with Publications(1) as publications:
        assert publications.begin(cast(Any, state), None, here=False).done()[:2] == (("state",), ())
