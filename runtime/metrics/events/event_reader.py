"""Reads the event log of a job, while it runs or after: in this process or in any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....errors import CheckpointError
from ...storage.filesystem import exists, resolve
from .event_files import EventFile, HistoryFolder, RunFolder, whole_lines
from .event_json import of_line
from .events import RunBegan, RunEvent

#: How far the clock of whoever stores the files may be from the driver's.
_CLOCKS_MS = 600_000


def read_history(location: str, *, run: str | None = None, since_ms: int | None = None) -> Iterator[RunEvent]:
    """Returns the events of all runs on a checkpoint location, oldest first.

        for event in mixedmode.read_history("checkpoints"):
            print(event)

    A run that was killed has no :class:`~.events.RunEnded`.  An event of a newer version of mixedmode that this version
    does not know is an :class:`~.events.UnknownEvent`.

    Args:
        location: the job's ``checkpointLocation``, a folder or a URI.
        run: the id of one run, or its beginning; None: all runs.
        since_ms: leave out events before this moment (ms since 1970); None: all events.

    Raises:
        CheckpointError: the location cannot be read, or is not one.
    """
    try:
        yield from _events(history_of(location), run, since_ms)
    except OSError as error:
        raise CheckpointError(f"the history of {location!r} cannot be read: {error}") from error


def history_of(location: str) -> HistoryFolder:
    """The event log of a checkpoint location; errors as of :func:`read_history`."""
    try:
        filesystem, path = resolve(location)
        is_there = exists(filesystem, f"{path}/mixedmode")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{location!r} cannot be reached: {error}") from error
    if not is_there:
        raise CheckpointError(
            f"{location!r} is not the checkpointLocation of a mixedmode job: it has no folder mixedmode/",
            code="MIXEDMODE_CHECKPOINT_NOT_FOUND",
        )
    return HistoryFolder(filesystem, f"{path}/mixedmode")


def _events(folder: HistoryFolder, run: str | None, since_ms: int | None) -> Iterator[RunEvent]:
    for one in folder.runs():
        if run is None or one.run_id.startswith(run):
            yield from _of_run(one, since_ms)


def _of_run(run: RunFolder, since_ms: int | None) -> Iterator[RunEvent]:
    has_begun = False
    for _, data in run.read(None if since_ms is None else since_ms - _CLOCKS_MS):
        for line in whole_lines(data):
            event = of_line(line)
            if event is None or (has_begun and isinstance(event, RunBegan)):
                continue  # each part begins with it, so that it stands for itself
            has_begun = has_begun or isinstance(event, RunBegan)
            if since_ms is None or event.at_ms >= since_ms:
                yield event


class HistoryTail:
    """Follows the newest run of a location: first what it has told so far, then what is new at each look.

    Runs stand in the order of their drivers' clocks, which may differ; the claims know which run has the location.

    Args:
        location: the job's ``checkpointLocation``.
        generation: returns the generation of the claim that holds the location; None: nobody holds it.

    Raises:
        CheckpointError: it is none, or cannot be reached.
    """

    def __init__(self, location: str, generation: Callable[[], int | None] = lambda: None) -> None:
        self._folder = history_of(location)
        self._generation = generation
        #: The generation of the last claim that is known to have held the location.
        self._last: int | None = None
        #: The generation of each run whose log says it, by the run's id.
        self._generations: dict[str, int] = {}
        #: The run that is followed; None: none has been seen yet.
        self.run_id: str | None = None
        #: Number of the part that is read, how many bytes of it have been, and the moment of its last event.
        self._part, self._read, self._at_ms = 0, 0, 0
        self._has_begun = False

    def new_events(self) -> list[RunEvent]:
        """What has been told since the last look; a new run begins with its :class:`~.events.RunBegan`.

        Raises:
            OSError: it cannot be read now.
        """
        self._last = self._generation() or self._last
        runs = self._runs()
        found: list[RunEvent] = []
        known = [at for at, run in enumerate(runs) if run.run_id == self.run_id]
        for run in runs[known[0] :] if known else runs[-1:]:
            if run.run_id != self.run_id:
                self.run_id, self._has_begun = run.run_id, False
                self._part, self._read, self._at_ms = 0, 0, 0
            for part, data in run.read(since_part=self._part):
                found += self._of_part(part, data)
        return found

    def _runs(self) -> list[RunFolder]:
        """All runs by their drivers' clocks; the one that holds the location comes last."""
        runs = self._folder.runs()
        if self._last is None:
            return runs
        for at in reversed(range(len(runs))):
            if self._generation_of(runs[at]) == self._last:
                return [*runs[:at], *runs[at + 1 :], runs[at]]
        return runs

    def _generation_of(self, run: RunFolder) -> int | None:
        """The generation that a run's log begins with; None: it says none yet."""
        if run.run_id not in self._generations:
            began = next(_of_run(run, None), None)
            if isinstance(began, RunBegan):
                self._generations[run.run_id] = began.generation
        return self._generations.get(run.run_id)

    def _of_part(self, part: EventFile, data: bytes) -> list[RunEvent]:
        is_read_on = part.first == self._part and part.level == 0
        # A part that was made of several, and of the one that was read: what is new in it only the time tells.
        after_ms = self._at_ms if part.level and part.first <= self._part else -1
        whole = data.rfind(b"\n") + 1
        lines = data[self._read if is_read_on else 0 : whole].splitlines()
        self._part, self._read = part.last, whole
        kept = []
        for event in filter(None, map(of_line, lines)):
            if event.at_ms > after_ms and not (self._has_begun and isinstance(event, RunBegan)):
                self._has_begun = self._has_begun or isinstance(event, RunBegan)
                self._at_ms = max(self._at_ms, event.at_ms)
                kept.append(event)
        return kept
