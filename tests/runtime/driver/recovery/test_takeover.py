"""Drivers that are paused anywhere and wake up after others have taken over: never two of them count."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mixedmode.errors import CorruptStateError
from mixedmode.runtime.checkpoints.lease.driver_lease import LocationLost
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.connectors.sinks import folder_sink
from mixedmode.runtime.driver.checkpoint import staged_output_migration
from paused_drivers import EXPIRY_MS, OUT, Driver, World, here

MakeMetadata = Callable[..., CheckpointMetadata]
Choose = Callable[[list[Driver]], Driver]


@pytest.fixture(autouse=True)
def output_on_the_tests_disk() -> object:
    """The path of the sinks is on the disk of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_sink, "resolve", lambda path: (here.disk, path))
        patch.setattr(staged_output_migration, "resolve", lambda path: (here.disk, OUT))
        yield


def run(world: World, drivers: list[Driver], choose: Choose) -> None:
    """Let drivers go on, one access at a time, until all have ended; what counts is whole after each removal."""
    while running := [driver for driver in drivers if driver.about is not None]:
        chosen = choose(running)
        removes = chosen.about is not None and chosen.about.startswith("delete")
        chosen.step()
        if removes:
            world.check_valid_checkpoints()


def finish(world: World) -> None:
    """One more driver, whom nobody disturbs, goes on from what is there: all rows are shown, each once."""
    last = Driver("last", world, 1, 2)
    run(world, [last], lambda running: running[0])
    assert last.error is None, last.error
    newest = world.store.latest()
    assert newest is not None
    assert world.shown == list(range(1, newest.epoch + 1))
    generations = [generation for generation, _ in world.claimed]
    assert len(set(generations)) == len(generations)


@pytest.mark.parametrize("renames", [True, False])
def test_one_driver_after_the_other(make_metadata: MakeMetadata, renames: bool) -> None:
    """Drivers that end in order share a branch; nothing is waited for."""
    world = World(make_metadata, renames)
    for number in range(3):
        run(world, [driver := Driver(f"d{number}", world, 3, 2)], lambda running: running[0])
        assert driver.error is None
    assert world.shown == list(range(1, 10))
    assert world.store.branch.number == 0 and world.store.ids() == [8, 9]
    assert world.now_ms < 3000


@pytest.mark.slow
@pytest.mark.parametrize(("renames", "retained"), [(True, 1), (False, 2)])
def test_a_driver_paused_at_each_access(make_metadata: MakeMetadata, renames: bool, retained: int) -> None:
    """The first driver is paused before each of its accesses in turn, a second one takes over, recovers and takes
    checkpoints, the first one wakes up and goes on as far as it can: the output is what an undisturbed run gives."""
    paused_at, ended = 0, False
    while not ended:
        world = World(make_metadata, renames)
        first = Driver("first", world, 3, retained)
        for _ in range(paused_at):
            first.step()
        ended, about = first.about is None, first.about
        second = Driver("second", world, 2, retained)
        run(world, [second], lambda running: running[0])
        assert second.error is None, (about, second.error)
        run(world, [first], lambda running: running[0])
        finish(world)
        paused_at += 1
    assert paused_at > 60


@pytest.mark.slow
@example([(0, 60), (1, 200)], True, 1)
@example([(0, 1), (1, 71), (0, 50), (1, 79)], True, 2)
@example([(0, 1), (1, 69), (0, 50), (1, 75)], True, 2)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 1) | st.integers(1, 150)), max_size=12),
    st.booleans(),
    st.integers(1, 2),
)
@settings(
    max_examples=int(os.environ.get("MIXEDMODE_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],  # the fixture is a function
)
def test_three_drivers_paused_anywhere(
    make_metadata: MakeMetadata, turns: list[tuple[int, int]], renames: bool, retained: int
) -> None:
    """However long each of three drivers is paused before which access, no checkpoint that counts loses a file, and all
    rows are shown, each once."""
    world = World(make_metadata, renames)
    drivers = [Driver(f"d{number}", world, 2, retained) for number in range(3)]
    accesses = (number for number, some in turns for _ in range(some))

    def choose(running: list[Driver]) -> Driver:
        return running[next(accesses, 0) % len(running)]

    run(world, drivers, choose)
    finish(world)


def test_who_has_lost_the_location_is_told(make_metadata: MakeMetadata) -> None:
    """The error of a driver that wakes up inside a checkpoint says who has the location now."""
    world = World(make_metadata, True)
    first = Driver("first", world, 3, 2)
    while not (first.about or "").startswith("put loc/mixedmode/checkpoints/chk-00000002"):
        first.step()
    run(world, [Driver("second", world, 1, 2)], lambda running: running[0])
    run(world, [first], lambda running: running[0])
    assert isinstance(first.error, LocationLost)
    assert "another driver (run second" in str(first.error)
    assert world.now_ms > EXPIRY_MS
    finish(world)


def test_a_damaged_claim_of_a_branch_that_has_nothing_yet(make_metadata: MakeMetadata) -> None:
    """Where a claim is needed to know what counts, its damage is named; it is not taken for an empty location."""
    world = World(make_metadata, True)
    run(world, [Driver("first", world, 2, 2)], lambda running: running[0])
    (path,) = [name for name in world.files if name.endswith(".beat")]
    world.files[path] = world.files[path].replace(b"true", b"false")  # as if it had been killed
    second = Driver("second", world, 1, 2)
    while not (second.about or "").startswith("put loc/mixedmode/branch-"):
        second.step()
    second.give_up()
    assert world.store.ids() == [1, 2]
    (path,) = [name for name in world.files if name.endswith("-second.claim")]
    world.files[path] = world.files[path][:-1]
    with pytest.raises(CorruptStateError, match=r"-second\.claim, which says what branch 2 goes on from, is damaged"):
        world.store.ids()
