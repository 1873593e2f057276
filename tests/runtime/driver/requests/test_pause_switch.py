"""The switch of a pause, without a run."""

from __future__ import annotations

import pytest
from mixedmode.errors import QueryError
from mixedmode.runtime.driver.requests.pause_switch import PauseSwitch


@pytest.fixture
def changes() -> list[int]:
    return []


@pytest.fixture
def switch(changes: list[int]) -> PauseSwitch:
    return PauseSwitch(lambda: changes.append(1))


def test_pause_is_answered_when_the_run_stands_still(switch: PauseSwitch, changes: list[int]) -> None:
    """Who asks for a pause hears of it when the run stands still, and everybody who asks again at once."""
    answers = [switch.ask(), switch.ask()]
    assert switch.is_wanted and not switch.stands and len(changes) == 2
    assert not any(answer.done() for answer in answers)
    assert switch.stand(1000)
    assert [answer.result(0) for answer in answers] == [None, None]
    assert switch.ask().result(0) is None
    assert switch.times == 1, "one pause"


def test_run_goes_on_after_its_pause(switch: PauseSwitch) -> None:
    """A pause lasts from the moment when the run stands still to the one when it goes on."""
    switch.ask()
    switch.stand(1000)
    assert switch.stand(2000), "it still stands"
    assert switch.lift() and not switch.lift()
    assert switch.stands and not switch.is_wanted, "until the run has noticed"
    assert switch.go_on(5000) == 4000
    assert not switch.stands and switch.go_on(6000) == 0


def test_lifted_before_the_run_stands_still(switch: PauseSwitch) -> None:
    """A pause that is lifted too early fails for those who wait for it, and the run does not stand still."""
    answer = switch.ask()
    switch.lift()
    with pytest.raises(QueryError, match="resumed it before"):
        answer.result(0)
    assert not switch.stand(1000) and not switch.stands


def test_pause_that_cannot_be_made(switch: PauseSwitch) -> None:
    """A run that cannot come to a stand says why to whoever waits, and goes on until it is asked again."""
    answer = switch.ask()
    switch.refuse("its checkpoint failed")
    with pytest.raises(QueryError, match="not paused: its checkpoint failed"):
        answer.result(0)
    assert not switch.is_wanted and not switch.stand(1000)
    switch.ask()
    assert switch.stand(2000)


def test_end_of_the_run(switch: PauseSwitch) -> None:
    """A run that ends answers whoever waits for its pause, and can be neither paused nor resumed."""
    answer = switch.ask()
    switch.close("the query has ended")
    with pytest.raises(QueryError, match="not paused: the query has ended"):
        answer.result(0)
    assert not switch.is_wanted
    with pytest.raises(QueryError, match="cannot be paused: the query has ended"):
        switch.ask()
    with pytest.raises(QueryError, match="cannot be resumed: the query has ended"):
        switch.lift()
