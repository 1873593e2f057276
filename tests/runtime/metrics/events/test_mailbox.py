"""Whoever puts something into a mailbox does not wait; what is done with it is done in order."""

from __future__ import annotations

import logging
import threading

import pytest
from mixedmode.runtime.metrics.events.mailbox import Mailbox


def test_things_are_taken_in_order_on_another_thread() -> None:
    """All is taken in the order in which it came, by one thread, which is not that of whoever put it in."""
    taken: list[tuple[int, int]] = []
    box: Mailbox[int] = Mailbox("test", lambda one: taken.append((one, threading.get_ident())), lambda one: True)
    for number in range(500):
        box.put(number)
    assert box.wait(30)
    assert [one for one, _ in taken] == list(range(500))
    assert {thread for _, thread in taken}.isdisjoint({threading.get_ident()})
    assert len({thread for _, thread in taken}) == 1
    box.close()


def test_the_oldest_that_may_be_dropped_is(caplog: pytest.LogCaptureFixture) -> None:
    """A full mailbox drops the oldest of what may be dropped, counts and logs it, and loses nothing else."""
    begun, go, taken = threading.Event(), threading.Event(), list[int]()

    def take(one: int) -> None:
        begun.set()
        assert go.wait(30)
        taken.append(one)

    box: Mailbox[int] = Mailbox("listener Slow", take, lambda one: one % 2 == 0, size=4)
    box.put(0)
    assert begun.wait(30)
    with caplog.at_level(logging.WARNING):
        for number in range(1, 10):
            box.put(number)
    go.set()
    assert box.wait(30)
    assert taken == [0, 1, 3, 5, 7, 9]
    assert box.dropped == 4
    assert [record.getMessage() for record in caplog.records] == [
        "listener Slow is too slow: 4 events wait for it, and the oldest frequent ones are dropped"
    ]
    box.close()


def test_a_failure_is_logged_once_and_the_next_thing_taken(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is raised, the way out included, the rest is taken; one traceback is logged, the others are counted."""
    taken = []

    def take(one: int) -> None:
        taken.append(one)
        if one == 2:
            raise SystemExit
        raise ValueError("bad")

    box: Mailbox[int] = Mailbox("listener Bad", take, lambda one: True)
    with caplog.at_level(logging.ERROR):
        for number in range(4):
            box.put(number)
        assert box.wait(30)
    assert (taken, box.failures) == ([0, 1, 2, 3], 4)
    (record,) = caplog.records
    assert record.exc_info is not None and str(record.exc_info[1]) == "bad"
    box.close()


def test_waiting_has_an_end() -> None:
    """Who waits for something that takes too long goes on, and one that is closed makes nobody wait."""
    go = threading.Event()
    box: Mailbox[int] = Mailbox("test", lambda one: go.wait(30) and None, lambda one: True)
    box.put(1)
    assert not box.wait(0.01)
    box.put(2)
    box.close()
    assert box.wait(30)
    box.put(3)
    go.set()


def test_a_mailbox_does_not_wait_for_itself() -> None:
    """Who is called by a mailbox, and waits for it, gets an answer at once."""
    answers: list[bool] = []
    box: Mailbox[int] = Mailbox("test", lambda one: answers.append(box.wait(30)), lambda one: True)
    box.put(1)
    assert box.wait(30)
    assert answers == [False]
    box.close()


def test_idle_is_asked_again_when_it_says() -> None:
    """What is to be done later is done without anything being put in."""
    often = threading.Event()
    calls: list[int] = []

    def idle() -> float | None:
        calls.append(1)
        if len(calls) < 3:
            return 0.01
        often.set()
        return None

    box: Mailbox[int] = Mailbox("test", lambda one: None, lambda one: True, idle=idle)
    box.put(1)
    assert often.wait(30)
    box.close()
