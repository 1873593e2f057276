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
        #: The threads that have asked for what is done at once.
        self.soon: list[int] = []

    def finish(self) -> list[Any]:
        self.begun.set()
        assert self.may_end.wait(_PATIENCE_S)
        if self.error is not None:
            raise self.error
        return [self.name]

    def finish_soon(self) -> Any:
        """What waits for the file; None: all of it is for another thread."""
        self.soon.append(threading.get_ident())
        return None

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


class SmallFiles(Files):
    """Those that are written at once."""

    def finish_soon(self) -> Any:
        super().finish_soon()
        if self.error is not None and self.error.args == ("at once",):
            raise self.error
        return self.finish


def test_small_files_are_written_by_the_task_itself() -> None:
    """It waits for them only where their report is made, and one kind does not wait for the other."""
    small, large = SmallFiles("state"), Files("output")
    with Publications(1) as publications:
        begun = publications.begin(cast(Any, small), cast(Any, large), here=False)
        assert small.soon == large.soon == [threading.get_ident()]
        assert large.begun.wait(_PATIENCE_S) and not small.begun.is_set()
        for one in (small, large):
            one.may_end.set()
        assert begun.done()[:2] == (("state",), ("output",))


@pytest.mark.parametrize("when", ["at once", "later"])
def test_nothing_is_left_where_a_small_file_cannot_be_written(when: str) -> None:
    """The error comes where the report would, when the other kind of files has come to its end, too."""
    small, large = SmallFiles("state", OSError(when)), Files("output")
    small.may_end.set()
    large.may_end.set()
    with Publications(1) as publications:
        begun = publications.begin(cast(Any, small), cast(Any, large), here=False)
        with pytest.raises(OSError, match=when):
            begun.done()
        assert large.begun.is_set()
    assert small.is_aborted and large.is_aborted


def test_rows_that_are_handed_on_have_no_files() -> None:
    """Only the state is made durable."""
    state = Files("state")
    state.may_end.set()
    with Publications(1) as publications:
        assert publications.begin(cast(Any, state), None, here=False).done()[:2] == (("state",), ())
