"""Finds what retention takes from a running job: between a rewind and its replay, in the backlog, and live.

A source that was told to go on without what it has lost (``failOnDataLoss = false``) says so nowhere but in Spark's
log.  So its topics are asked for their first offsets before and after each of its micro-batches, without waiting for
the first answer.  All others end the query, with a text that does not say what to do: they are asked then.

A topic that was deleted and made anew, and has as many messages as the old one had, nobody notices by offsets.  So the
ids of topics are asked for before the first micro-batch of a run, and now and then before later ones.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from ....errors import DataLossError, MixedModeError
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.data_loss import (
    ForgottenMessages,
    Offsets,
    ReadPosition,
    between,
    forgotten_in,
    forgotten_messages,
    is_tolerant,
    logged_offsets,
)
from ...connectors.sources.live_sources import LiveSourceFacts, live_sources
from ...jvm.jvm_loss import links
from ...metrics.events.facts import FactListener, messages_lost
from ...spark_io.spark_kafka import Place, TopicClient
from ...spark_io.spark_sources import log_numbers, sources
from ...spec import JobSpec
from ...support.clean_up import take_all
from ...support.ids import BatchId
from ..clocks import clock_ms
from ..state.job_state import JobState

logger = logging.getLogger(__name__)

#: What names of classes, and conditions of errors, have in them that come of Spark's connector.
_OF_KAFKA = ("kafka010", "org.apache.kafka", "KAFKA_")
#: How often topics are asked for their ids.
_LOOK_EVERY_MS = 10_000


@dataclass
class SourceLosses:
    """Finds out what Kafka sources have lost, and tells it.

    Args:
        job: whose sources they are.
        state: says where the job stands.
        store: has Spark's log of what was read.
        listener: is told.
    """

    job: JobSpec
    state: JobState
    store: CheckpointStore
    listener: FactListener
    #: A monotonic clock.
    now_ms: Callable[[], int] = clock_ms
    _clients: dict[int, TopicClient] = field(init=False, default_factory=dict)
    _next_look_ms: int | None = field(init=False, default=None)

    @cached_property
    def _sources(self) -> Mapping[int, LiveSourceFacts]:
        """The Kafka sources, by their number in Spark's log."""
        live = self.job.live
        if live is None:
            return {}
        numbered = zip(log_numbers(live), live_sources(live), strict=True)
        return {number: source for number, source in numbered if source.name == "kafka"}

    @cached_property
    def _tolerant(self) -> Mapping[int, LiveSourceFacts]:
        return {number: source for number, source in self._sources.items() if is_tolerant(source)}

    @property
    def _histories(self) -> list[ReadPosition]:
        """Batch reads of Kafka among the histories, and where each begins, as long as they are read."""
        history = self.state.sources.get("history")
        if history is None or history.finished:
            return []
        frames = [lane.history for lane in self.job.lanes if lane.history is not None]
        found = [(one, logged_offsets(json.dumps(one.kafka_begins))) for frame in frames for one in sources(frame)]
        return [
            ReadPosition(LiveSourceFacts("kafka", one.options), begins) for one, begins in found if begins is not None
        ]

    def position(self, number: int, batch_id: BatchId) -> Offsets | None:
        """Up to where a source was read by a micro-batch; -1: where it began; None: it is not known."""
        log = self.store.spark_log
        try:
            if batch_id < 0:
                return logged_offsets(log.first_offset(number) or "")
            lines = log.position(batch_id).offset_entry.splitlines()[2:]
        except OSError:
            return None
        return logged_offsets(lines[number]) if number < len(lines) else None

    def _read_range(self, number: int, batch_id: BatchId) -> tuple[Offsets | None, Offsets | None]:
        """From where, and up to where, a micro-batch reads a source; None: it is not known."""
        return self.position(number, BatchId(batch_id - 1)), self.position(number, batch_id)

    def _number_of(self, name: str) -> int | None:
        """The number in Spark's log of a live input, if it is one Kafka source."""
        return next((number for number in self._sources if self._name(number) == name), None)

    def position_of(self, name: str, batch_id: BatchId) -> Offsets | None:
        """The same of a live input; None also if it is no Kafka source."""
        number = self._number_of(name)
        return None if number is None else self.position(number, batch_id)

    def tolerates(self, name: str) -> bool:
        """Whether a live input goes on without what it has lost."""
        return self._number_of(name) in self._tolerant

    @contextmanager
    def watching(self, batch_id: BatchId) -> Iterator[LossWatch]:
        """While an epoch reads a micro-batch: tell afterwards what it has not found.

        Raises:
            DataLossError: a topic is another one than that which the job has read until now.
        """
        anew = self._made_anew(batch_id)
        asked, watch = [self._about(number, batch_id) for number in self._tolerant], LossWatch()
        yield watch
        for (number, _), its in anew.items():
            for lost in its:
                self._on_lost(number, lost)
        for one in asked if watch.reads else ():
            if one is not None:
                self._report(one, watch.reads_part, anew)

    def _made_anew(self, batch_id: BatchId) -> dict[tuple[int, str], list[ForgottenMessages]]:
        """The topics that are others than those which the job has read until a micro-batch; they are known from now on.

        Returns:
            What each lacks, by the number of its source and its name; empty also if it is not yet time to look again.

        Raises:
            DataLossError: there is one whose source does not go on without what it lacks.
        """
        now_ms, found = self.now_ms(), dict[tuple[int, str], list[ForgottenMessages]]()
        if self._next_look_ms is not None and now_ms < self._next_look_ms:
            return found
        self._next_look_ms = now_ms + _LOOK_EVERY_MS
        for number, source in self._sources.items():
            start, end = (offsets or {} for offsets in self._read_range(number, batch_id))
            known = self.state.topic_ids.setdefault(number, {})
            try:
                client = self._client(number)
                now = client.topic_ids({*start, *end})
                others = [
                    topic
                    for topic, messages in now.items()
                    if known.get(topic, messages) != messages and topic in start
                ]
                lost = {topic: forgotten_in(client, topic, ReadPosition(source, start, known)) for topic in others}
            except MixedModeError as error:  # an epoch does not fail for want of an answer
                logger.info("it is unknown whether topics were created again: %s", error)
                continue
            if any(lost.values()) and not is_tolerant(source):
                raise DataLossError(loss_text([one for its in lost.values() for one in its]))
            found |= {(number, topic): its for topic, its in lost.items()}
            known.update(now)
        return found

    def _on_lost(self, number: int, lost: ForgottenMessages) -> None:
        logger.warning("%s: lost; the job continues without them, because failOnDataLoss is false", lost)
        self.listener.on(messages_lost(lost, self._name(number), self.state.epoch))

    def _about(self, number: int, batch_id: BatchId) -> _ReadRange | None:
        """Ask where the topics of a source begin before a micro-batch is read; None: nothing is known of that."""
        start, end = self._read_range(number, batch_id)
        if start is None or end is None:
            return None
        read = [
            (topic, at)
            for topic, partitions in end.items()
            for at, last in partitions.items()
            if last > start.get(topic, {}).get(at, 0)
        ]
        try:
            return _ReadRange(number, start, end, read, self._begins(number, read))
        except MixedModeError as error:  # an epoch does not fail for want of an answer
            logger.info("it is unknown whether messages are lost: %s", error)
            return None

    def _report(self, asked: _ReadRange, reads_part: bool, anew: Collection[tuple[int, str]]) -> None:
        try:
            before, after = asked.before(), self._begins(asked.number, asked.read)()
        except MixedModeError as error:
            logger.info("it is unknown whether messages are lost: %s", error)
            before, after = {}, {}
        for topic in sorted({*asked.start, *asked.end}):
            first, then = ({at: one for (of, at), one in known.items() if of == topic} for known in (before, after))
            for lost in between(topic, asked.start.get(topic, {}), asked.end.get(topic, {}), first, then):
                if reads_part and lost.fate == "gone":
                    lost = replace(lost, fate="perhaps")  # what an earlier run has done of it had them
                if lost.fate != "made-anew" or (asked.number, topic) not in anew:  # which was told
                    self._on_lost(asked.number, lost)

    def _begins(self, number: int, places: Sequence[Place]) -> Callable[[], Mapping[Place, int]]:
        if not places:
            return dict
        return self._client(number).begins(places)

    def _client(self, number: int) -> TopicClient:
        if number not in self._clients:
            self._clients[number] = TopicClient(self.job.spark, self._sources[number].options)
        return self._clients[number]

    def _name(self, number: int) -> str:
        """The live input that a source belongs to."""
        names = [one.name for one in self.job.live_inputs]
        return names[number] if len(names) > 1 and number < len(names) else names[0]

    def explained(self, error: BaseException) -> BaseException:
        """The error, or one that says which messages are gone, if that is what it came of."""
        messages = "\n".join(str(link) for link in links(error))
        if not any(word in messages for word in _OF_KAFKA):
            return error
        ids = self.state.topic_ids
        known = [
            ReadPosition(source, offsets, ids.get(number, {}))
            for number, source in self._sources.items()
            if (offsets := self.position(number, self.state.batch_id)) is not None
        ]
        known += self._histories
        lost = [one for one in forgotten_messages(self.job.spark, known) if not one.is_tolerated]
        return DataLossError(loss_text(lost)) if lost else error

    def close(self) -> None:
        """Ask nothing any more."""
        take_all(*(client.close for client in self._clients.values()))


@dataclass
class LossWatch:
    """What is known of an epoch that reads a micro-batch."""

    #: Whether it has to read anything, and whether an earlier run has done a part of it.
    reads: bool = True
    reads_part: bool = False

    def had_read(self, finished: int, shards: int) -> None:
        """So many of its shards an earlier run had finished, with all of their rows."""
        self.reads, self.reads_part = finished < shards, finished > 0


@dataclass(frozen=True)
class _ReadRange:
    """A micro-batch of one source that is being read."""

    number: int
    start: Offsets
    end: Offsets
    #: Partitions that it reads of.
    read: Sequence[Place]
    #: Where those began when it was begun.
    before: Callable[[], Mapping[Place, int]]


def loss_text(lost: Sequence[ForgottenMessages]) -> str:
    """Which messages are gone, and what to do."""
    return (
        f"messages that the job has not read yet are gone from the source: {'; '.join(map(str, lost))}. Set"
        " failOnDataLoss = false on the source to go on without them (each range is then told as a data-lost event);"
        " or have them sent again, and begin anew with a new checkpointLocation"
    )
