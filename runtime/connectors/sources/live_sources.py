"""Finds the live sources of a job, and how each is told where to begin.

Spark asks a source for its first position when it plans the query's first micro-batch.  Some write the answer down in
the query's checkpoint, or need not be asked; all others are asked again until that batch is committed, and one that
begins "from now" then says something else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame

from ....errors import PlanError, not_supported
from ...spark_io.brokers import check_reachable
from ...spark_io.source_cleaners import can_be_taken
from ...spark_io.spark_sources import sources

#: ``logged``: the source keeps it in ``sources/`` of the query's checkpoint; ``given``: it follows from the options;
#: ``asked``: nobody keeps it before the first micro-batch is committed; ``lost``: rows cannot be had again anyway.
FirstPositionBy = Literal["logged", "given", "asked", "lost"]

_KNOWN: dict[str, FirstPositionBy] = {
    "kafka": "logged",
    "rate": "logged",
    "rate-micro-batch": "given",
    "ratemicrobatch": "given",
    "socket": "lost",
}
#: Options that say what a source reads, as against how; with another value it is another source.
_PLACES = ("assign", "database", "host", "path", "port", "subscribe", "subscribepattern", "table", "topic", "url")
#: An option of ours, which no source looks at: the offset behind which a stream begins, as Spark's log has it.
FIRST_OFFSET = "mixedmode.first-offset"
#: Options that say where it begins, where they say it for good.
_BEGINNINGS = ("startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp", FIRST_OFFSET)
_NOW = ("latest", "now")
#: What the offsets of kinds of sources are, as JSON; those of files have one field, ``logOffset``.
_OFFSETS: dict[str, type] = {"kafka": dict, "rate": int, "rate-micro-batch": dict, "ratemicrobatch": dict}


@dataclass(frozen=True)
class LiveSourceFacts:
    """One source at the bottom of a live frame."""

    name: str
    #: Its options, names in lower case.
    options: dict[str, str]

    @property
    def first_position_by(self) -> FirstPositionBy:
        """Who keeps the position at which it begins."""
        if self.name.startswith("FileSource"):
            return "logged"
        if self.first_offset is not None:
            return "given"
        if self.name == "delta" and self.from_now is None:
            return "given"  # a table's beginning, or a version: asked again, it is the same or holds more
        return _KNOWN.get(self.name, "asked")

    @property
    def first_offset(self) -> str | None:
        """The offset behind which it was told to begin, in its own words; None: it begins where it wants to."""
        return self.options.get(FIRST_OFFSET)

    @property
    def is_files(self) -> bool:
        """True for Spark's file sources, which begin with whatever is there."""
        return self.name.startswith("FileSource")

    @property
    def cleans(self) -> bool:
        """True if it deletes or archives the files that it has read."""
        return self.is_files and self.options.get("cleansource", "off").lower() != "off"

    @property
    def from_now(self) -> str | None:
        """The option that tells it to begin from now, with its value; None: none does that we know of."""
        for option, value in self.options.items():
            says_where = "start" in option or "initial" in option or "position" in option
            if says_where and value.lower() in _NOW:
                return f"{option} = {value!r}"
        return None

    @property
    def defaults_to_latest(self) -> bool:
        """True if nobody said where it begins, and Spark's default is behind all that is there at the first start."""
        return self.name == "kafka" and not any(option in self.options for option in _BEGINNINGS)

    def gave(self, offset: str) -> bool:
        """Whether an offset of Spark's log may be one of a source of this kind; True for kinds that are not known."""
        try:
            found = json.loads(offset)
        except ValueError:
            return self.name not in _OFFSETS and not self.is_files
        if self.is_files:
            return isinstance(found, dict) and found.keys() == {"logOffset"}
        wanted = _OFFSETS.get(self.name)
        is_of_files = isinstance(found, dict) and "logOffset" in found
        return wanted is None or (isinstance(found, wanted) and not is_of_files)

    @property
    def identity(self) -> str:
        """What it reads: two sources of one identity are the same one."""
        places = [f"{option}={self.options[option]}" for option in _PLACES if option in self.options]
        places += [
            f"{option}={self.options[option]}"
            for option in _BEGINNINGS
            if self.options.get(option, "latest").lower() not in (*_NOW, "earliest")
        ]
        return " ".join([self.name, *places])


def live_sources(live: DataFrame) -> tuple[LiveSourceFacts, ...]:
    """The streaming sources of a frame, in the order in which Spark's log knows them."""
    return tuple(LiveSourceFacts(one.name, one.options) for one in sources(live) if one.is_streaming)


def check_brokers(frame: DataFrame) -> None:
    """Raise PlanError if a read of Kafka names brokers that take no connections: Spark would look for a minute."""
    for source in sources(frame):
        if source.name == "kafka" or source.kafka_end is not None:
            check_reachable(source.options)


def sources_read_once(live: DataFrame) -> tuple[str, ...]:
    """Names of the sources that keep nothing: each connection begins from now, and what one has read is gone."""
    return tuple(one.name for one in live_sources(live) if one.first_position_by == "lost")


def at_most_once(live: DataFrame) -> str | None:
    """The warning about sources that cannot be read again, as Spark gives one; None: all can."""
    names = sources_read_once(live)
    if not names:
        return None
    return (
        f"live source {names[0]!r} cannot be read again, so its rows count at most once: what it sends before the"
        " stream begins, or after the last checkpoint before a crash, is lost, and trigger(availableNow=True) reads"
        " nothing of it. Use it for tests only"
    )


def latest_by_default(live: DataFrame) -> str | None:
    """The warning about sources that begin with later messages because nothing was asked for; None: there is none."""
    names = [source.name for source in live_sources(live) if source.defaults_to_latest]
    if not names:
        return None
    return (
        f"live source {names[0]!r} has no startingOffsets, and Spark's default is 'latest': the job reads no message"
        " that was there before its first start. Set 'earliest', or read history and topic with mixedmode.kafka.read();"
        " set 'latest' if this is what you want"
    )


def check_replayable(live: DataFrame) -> None:
    """Raise PlanError if a source may not give again what it gave, and the job would be wrong without a word.

    A source that keeps nothing by its nature is read at most once (:func:`at_most_once`), but then by a job of its own:
    Spark has one log for all, and no position of that source to go back to.
    """
    found = live_sources(live)
    lost = [source for source in found if source.first_position_by == "lost"]
    if lost and len(lost) < len(found):
        other = next(source for source in found if source not in lost)
        raise PlanError(
            f"live source {lost[0].name!r} cannot be read again, and a job with a checkpointLocation would have to go"
            f" back in {other.name!r}, which it also reads. Read the first one by a job of its own, or use a sink"
            " that needs no checkpointLocation",
            code="MIXEDMODE_POSITION_UNKNOWN",
        )
    behind = next((source for source in found if source.first_offset is not None), None)
    for source in found:
        if behind is not None and source.first_position_by == "asked":
            raise PlanError(
                f"live source {source.name!r} keeps no record of where it begins, and beside it {behind.name!r} begins"
                " right behind a history: where both are cannot be settled together. Give the first one a position"
                " that it keeps, or read it by a job of its own",
                code="MIXEDMODE_POSITION_UNKNOWN",
            )
        if source.cleans and not can_be_taken(live.sparkSession):
            raise not_supported(
                f"live source {source.name} has cleanSource = {source.options['cleansource']!r}: this version of Spark"
                " takes files away as soon as the next micro-batch begins, and a job that goes on from its last"
                " checkpoint reads again what came behind it. Leave the option out, and take away what is older than"
                " the last checkpoint by other means"
            )


def cleans_files(live: DataFrame) -> bool:
    """True if a source of files is to take those away that it has read."""
    return any(source.cleans for source in live_sources(live))
