"""The page on Real-Time Mode: its readers of the output find what counts, however often epochs come again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from page_code import code_with

PAGE = "real-time.md"


def headers(run: int, epoch: int, sequence: int) -> list[tuple[str, bytes]]:
    numbers = {"run": run, "epoch": epoch, "shard": 0, "sequence": sequence}
    return [("own", b"x"), *((f"mixedmode.{name}", str(number).encode()) for name, number in numbers.items())]


def test_an_older_message_that_comes_late_is_no_news() -> None:
    reader = code_with(PAGE, "LastOfEachKey")()
    assert reader.is_news(b"a", headers(3, 1, 0))
    assert reader.is_news(b"a", headers(3, 1, 9))
    assert reader.is_news(b"a", headers(3, 1, 10))  # numbers, not texts
    assert reader.is_news(b"b", headers(3, 1, 1))
    assert reader.is_news(b"a", headers(5, 1, 0))
    assert not reader.is_news(b"a", headers(3, 1, 11))
    assert not reader.is_news(b"a", headers(3, 2, 0))
    assert reader.is_news(b"a", headers(5, 2, 0))


def test_micro_batches_end_the_runs_before_them() -> None:
    reader = code_with(PAGE, "LastOfEachKey")()
    assert reader.is_news(b"a", None)
    assert reader.is_news(b"a", headers(3, 1, 0))
    assert reader.is_news(b"a", [("own", b"x")])
    assert not reader.is_news(b"a", headers(3, 1, 1))
    assert reader.is_news(b"a", headers(4, 7, 0))


#: Run, the epoch that it began with, epoch, row.
Sent = list[tuple[int, int, int, int]]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Sent, Sent]:
    """What runs of a job have sent, in an order in which tasks outlive their run; and what counts.

    A run reads each row from the last commit on, in epochs of its own lengths, some of them without output, and dies
    within one.  One that has committed anything has sent a message (the page names what is if not).
    """
    sent: Sent = []
    late: Sent = []
    counts: Sent = []
    rows = draw(st.integers(1, 12))
    committed, since, epoch, run, is_silent = 0, 1, 1, 1, False
    while committed < rows:
        if draw(st.booleans()):
            epoch, is_silent = epoch + 1, True
            continue
        end = committed + draw(st.integers(1, rows - committed))
        dies = run < 6 and draw(st.booleans())
        messages = [(run, since, epoch, row) for row in range(committed, end)]
        if not dies:
            sent += messages
            counts += messages
            committed, epoch, is_silent = end, epoch + 1, False
            continue
        cut = draw(st.integers(int(is_silent), len(messages)))
        straggling = draw(st.integers(int(is_silent), cut))
        sent += messages[:straggling]
        late += messages[straggling:cut]
        run, since, is_silent = run + 1, epoch, False
        if draw(st.booleans()):
            sent += late
            late = []
    return [*sent, *late], counts


@given(runs())
def test_what_was_replaced_is_left_out(found: tuple[Sent, Sent]) -> None:
    """Each row counts once, in its committed epoch, whenever the messages of an aborted epoch arrive."""
    sent, counts = found
    places = code_with(PAGE, "not_replaced")([(run, since, epoch) for run, since, epoch, _ in sent])
    assert sorted(sent[place] for place in places) == sorted(counts)


@given(runs())
def test_the_last_news_of_a_key_is_the_last_that_counts(found: tuple[Sent, Sent]) -> None:
    sent, counts = found
    reader, last = code_with(PAGE, "LastOfEachKey")(), {}
    for run, since, epoch, row in sent:
        if reader.is_news(row % 2, headers(run, epoch, row)):
            last[row % 2] = run, since, epoch, row
    assert last == {row % 2: (run, since, epoch, row) for run, since, epoch, row in counts}
