"""Savepoint requests: taken in order, one that ends the job at a time, and every one is answered."""

from __future__ import annotations

import pytest
from mixedmode.errors import CheckpointError, QueryError
from mixedmode.runtime.checkpoints.savepoints.queue import SavepointQueue, SavepointRequest
from mixedmode.runtime.protocols.lifecycle.events import Stop


def plain(path: str = "a", wait: bool = False) -> SavepointRequest:
    return SavepointRequest(path, wait=wait)


def stopping(stop: Stop = Stop.DRAIN) -> SavepointRequest:
    return SavepointRequest("end", stop)


def test_plain_requests_are_taken_in_order() -> None:
    """Requests that do not end the job are handed out once, in the order in which they came."""
    queue = SavepointQueue()
    first, second = plain("1"), plain("2")
    for request in (first, stopping(), second):
        queue.ask(request)
    assert queue.take_plain() == [first, second]
    assert queue.take_plain() == []
    assert not queue.is_empty


def test_one_request_ends_the_job() -> None:
    """While one request is to end the job, no other may; once it is taken, nothing is."""
    queue = SavepointQueue()
    request = stopping()
    queue.ask(request)
    with pytest.raises(QueryError, match="no stop-with-savepoint without drain can be taken: another"):
        queue.ask(stopping(Stop.SUSPEND))
    assert queue.ready_stop() is request and queue.take_stop() is request and queue.ready_stop() is None
    with pytest.raises(QueryError, match="no savepoint can be taken: stop-with-savepoint with drain is under way"):
        queue.ask(plain())


def test_whether_a_request_ends_the_job() -> None:
    """From when one that ends the job is open, until the run has ended; not one whose place is not to be had."""
    queue = SavepointQueue()
    queue.ask(SavepointRequest("/a"))
    assert not queue.ends_the_job
    queue.ask(SavepointRequest("/b", Stop.DRAIN))
    assert queue.ends_the_job
    assert queue.take_stop() is not None
    assert queue.ends_the_job

    def taken(request: SavepointRequest) -> None:
        raise CheckpointError("somebody has it")

    queue = SavepointQueue(taken)
    queue.ask(SavepointRequest("/c", Stop.SUSPEND))
    assert not queue.ends_the_job


def test_those_that_do_not_wait_are_refused() -> None:
    """Where no savepoint can be taken, those that wait stay, and the others are told why."""
    queue = SavepointQueue()
    impatient, patient = plain("1"), plain("2", wait=True)
    queue.ask(impatient)
    queue.ask(patient)
    queue.refuse_those_that_do_not_wait("it is too early")
    assert "it is too early" in str(impatient.answer.exception(0))
    assert queue.take_plain() == [patient] and not patient.answer.done()


def test_the_end_answers_everything() -> None:
    """When the run ends, whoever still waits is told, and whoever comes later is refused."""
    queue = SavepointQueue()
    open_requests = [plain(), stopping()]
    for request in open_requests:
        queue.ask(request)
    queue.close("the query has ended")
    for request in open_requests:
        assert "the query has ended" in str(request.answer.exception(0))
    with pytest.raises(QueryError, match="the query has ended"):
        queue.ask(plain())


def test_a_stop_without_a_place_is_refused() -> None:
    """The place of a request that ends the job is taken once, when its turn comes; without one the queue stays open."""
    asked: list[SavepointRequest] = []

    def take_place(request: SavepointRequest) -> None:
        asked.append(request)
        if request.path == "taken":
            raise CheckpointError("'taken' holds a savepoint")

    queue = SavepointQueue(take_place)
    refused, taken = SavepointRequest("taken", Stop.DRAIN), stopping()
    queue.ask(refused)
    assert queue.ready_stop() is None and queue.take_stop() is None
    assert "'taken' holds a savepoint; the query goes on" in str(refused.answer.exception(0))
    queue.ask(taken)
    assert queue.ready_stop() is taken and queue.take_stop() is taken
    assert asked == [refused, taken]
