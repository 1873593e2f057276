"""``mixedmode.kafka``: a topic as the live side of a job, right behind a history, or alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ....errors import PlanError
from ....runtime.catalyst.columns import is_case_sensitive
from ....runtime.spark_io.connector_packages import check_connector
from ....runtime.spark_io.spark_kafka import check_topic, topic_range
from ....runtime.spark_io.spark_sources import fixed_ends
from ...inputs.environment import refuse_connect
from ...inputs.event_time import check_event_time
from ...inputs.inputs import HISTORY
from ...inputs.kafka_positions import (
    EARLIEST,
    HeldPositions,
    flaws_of_cut,
    held_positions,
    offsets_option,
    position_columns,
    rows_before,
)
from ...inputs.schemas import find_column, missing_column, quoted_columns
from ...inputs.seam import Seam
from ..frame import MixedFrame
from .reading import read as read_frames
from .seamed import Parse, as_they_are, parsed, source_options, with_seam

__all__ = ["read", "snapshot"]

#: Options that say which messages are read; :func:`read` and :func:`snapshot` say that themselves.
_OURS = (
    *("subscribe", "subscribepattern", "assign", "kafka.bootstrap.servers"),
    *("startingoffsets", "endingoffsets", "startingtimestamp", "endingtimestamp"),
    *("startingoffsetsbytimestamp", "endingoffsetsbytimestamp"),
)
_WHY_OURS = (
    "says which messages are read, which history, cut and topic do; leave it out, or read the topic by spark.readStream"
    " and give it to mixedmode.read()"
)


_PAIRS = {"positions": "('partition', 'offset')", "cut": "('ts', '2024-12-01')"}
_TEXTS = {"bootstrap": "the brokers, 'host:port' with commas between", "topic": "the name of one topic"}
_HINT = "Fill the history up, or begin all the same with kafka.read(…, tolerate_gaps=True)"


def read(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    parse: Parse | None = None,
    history: DataFrame | None = None,
    positions: tuple[str, str] = ("partition", "offset"),
    cut: tuple[str, str | datetime] | None = None,
    tolerate_gaps: bool = False,
    options: Mapping[str, Any] | None = None,
) -> MixedFrame:
    """Describes a job over a Kafka topic: after the history that was kept of it, or alone.

        from mixedmode import kafka

        flights = kafka.read(
            spark, "broker:9092", "flights",
            parse=lambda messages: messages.select(F.from_json(F.col("value").cast("string"), schema).alias("m"))
            .select("m.*"),
            history=spark.read.parquet("lake/flights"),
        )

    The history ends and the topic begins in one of three ways:

    - **By positions**, unless ``cut`` is given.  Two columns of the history say which message each row was.  The topic
    is
      read from right after the greatest offset of each partition; a partition that the history does not have is read
    from
      its earliest offset.  Each call runs one Spark job that reads these columns.  Rows that the lake gets afterwards
    are
      left out, because they come from the topic.  A history that is itself a batch of this topic (a :func:`snapshot`)
      needs no such columns.  A restarted job continues from the positions of its checkpoint.
    - **By time**, with ``cut=("ts", "2024-12-01")``.  Rows before that moment come from the history, rows from it on
    from
      the topic, by a column that both have.  The topic is read from its earliest offset.  A row without a value in that
      column is on neither side.  The moment must stay the same over restarts.
    - **Alone**, without a history: everything that the topic holds when the job starts is its backlog.

    ``start()`` raises an error if positions show that messages are lost (the topic has deleted some that the history
    does not have), doubled, or of unknown position.  For a cut by time it does so if the topic has deleted messages and
    the remaining ones begin after the cut.

    Args:
        spark: a session with Spark's Kafka connector.
        bootstrap: the brokers, ``host:port`` separated by commas.
        topic: the name of the topic.
        parse: makes rows of messages, as ``spark.readStream.format("kafka")`` returns them (``key``, ``value``,
            ``topic``, ``partition``, ``offset``, ``timestamp``, ``timestampType``); None: the messages are the rows.
        history: a batch DataFrame with the columns of those rows, or a :func:`snapshot` of the topic.
        positions: the columns of the history with partition and offset of a message.  If the parsed messages do not
            have
            them, the job does not have them, either.
        cut: a column with times, and the moment at which the topic takes over (a text is in the session's time zone).
        tolerate_gaps: log a warning instead of an error if positions show that messages are, or may be, lost or
            doubled.
        options: further options of Spark's connector: ``kafka.*``, ``maxOffsetsPerTrigger``, ``failOnDataLoss``…

    Raises:
        PlanError: no broker can be reached, the topic does not exist or does not tell its offsets; the history is not
            of
            this topic, or the columns differ.
        OptionError: an option says which messages are read.
        SetupError: the session has no Kafka connector.
    """
    source, rows_of = _source(bootstrap, topic, options), _parser(parse)
    check_connector(spark, "kafka")
    for name, pair in (("positions", positions), ("cut", cut)):
        if pair is not None and (not isinstance(pair, (tuple, list)) or len(pair) != 2):
            raise PlanError(f"{name} = {pair!r} must be a pair, such as {_PAIRS[name]}")
    if history is not None:
        refuse_connect(history)
        if not isinstance(history, DataFrame) or history.isStreaming:
            what = "a stream" if isinstance(history, DataFrame) else f"a {type(history).__name__}"
            raise PlanError(f"history is {what}; it must be a batch DataFrame, such as spark.read.parquet(…)")

    def live_from(offsets: str) -> DataFrame:
        stream = spark.readStream.format("kafka").options(**source, subscribe=topic, startingOffsets=offsets)
        return parsed(rows_of, stream.load())

    if history is None:
        if cut is not None:
            raise PlanError(f"cut = {cut!r} says where a history ends, and there is none; give history")
        check_topic(spark, topic, source)
        text = f"none: topic {topic} alone, from its earliest offset"
        return with_seam(read_frames(live=live_from("earliest")), Seam(text))
    if cut is not None:
        column, moment = cut
        cut_ms = _moment_ms(spark, moment)
        bounded, live = (_part_by_time(frame, column, moment) for frame in (history, live_from("earliest")))
        text = (
            f"by time: rows with {column} < {moment} are of the history, the others of topic {topic}, read from its"
            " earliest offset; that both sides are whole up to there, and from there on, is the author's statement"
        )
        flaws = flaws_of_cut(topic_range(spark, topic, source), cut_ms)
        return with_seam(read_frames(bounded[0], live[1]), Seam(text, tuple(flaws), tolerate_gaps, _HINT))
    known, ends = topic_range(spark, topic, source), fixed_ends(history, topic)
    if ends is None:
        names = position_columns(history, positions, case_sensitive=is_case_sensitive(spark))
        held = held_positions(history, names)
        why = f"right behind the greatest {names[1]} that the history has of each {names[0]}"
    else:
        names, held, why = None, HeldPositions.up_to(ends), "where the history, a batch of the same topic, ends"
    held.check_of(topic, known)
    begins = held.next_offsets(known)
    live_rows, bounded_rows = live_from(offsets_option(topic, begins)), history
    if names is not None:
        bounded_rows = rows_before(history, names, begins)
        bounded_rows = bounded_rows.drop(*[name for name in names if name not in live_rows.columns])
    shown = ", ".join(f"{number}: {'earliest' if at == EARLIEST else at}" for number, at in sorted(begins.items()))
    text = f"by positions: topic {topic} is read from {why} (by partition {{{shown}}})"
    expected = {number: known.begins[number] if at == EARLIEST else at for number, at in begins.items()}
    not_held = frozenset((topic, number) for number, at in begins.items() if at == EARLIEST)
    seam = Seam(text, tuple(held.flaws(known)), tolerate_gaps, _HINT, {topic: expected}, not_held)
    return with_seam(read_frames(bounded_rows, live_rows), seam)


def snapshot(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    parse: Parse | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Returns the present content of a topic as a batch DataFrame that is the same each time it is read.

        history = kafka.snapshot(spark, "broker:9092", "flights")

    Spark asks a topic for its end whenever a frame is read, and a job reads its history more than once.  This call asks
    for the ends once.

    Args:
        spark: a session with Spark's Kafka connector.
        bootstrap: the brokers.
        topic: the name of the topic.
        parse: makes rows of messages; None: the messages are the rows.
        options: further options of Spark's connector.

    Raises:
        PlanError: the topic does not tell its offsets.
        OptionError: an option says which messages are read.
        SetupError: the session has no Kafka connector.
    """
    source, rows_of = _source(bootstrap, topic, options), _parser(parse)
    check_connector(spark, "kafka")
    known = topic_range(spark, topic, source)
    reader = spark.read.format("kafka").options(**source, subscribe=topic)
    begins, ends = (offsets_option(topic, offsets) for offsets in (known.begins, known.ends))
    return parsed(rows_of, reader.options(startingOffsets=begins, endingOffsets=ends).load())


def _source(bootstrap: Any, topic: Any, options: Mapping[str, Any] | None) -> dict[str, str]:
    """The connector's options but for those that say what is read."""
    for name, value in (("bootstrap", bootstrap), ("topic", topic)):
        if not isinstance(value, str) or not value.strip():
            raise PlanError(f"{name} = {value!r} must be a text: {_TEXTS[name]}")
    return {"kafka.bootstrap.servers": bootstrap, **source_options(options, _OURS, _WHY_OURS)}


def _parser(parse: Any) -> Parse:
    if parse is None:
        return as_they_are
    if not callable(parse):
        raise PlanError(f"parse = {parse!r} must be a function that makes rows of a DataFrame of messages")
    function: Parse = parse
    return function


def _part_by_time(frame: DataFrame, name: str, moment: Any) -> tuple[DataFrame, DataFrame]:
    """The rows before a moment, and those from it on."""
    column = find_column(name, frame.schema, case_sensitive=is_case_sensitive(frame.sparkSession))
    side = "the topic's rows" if frame.isStreaming else f"the {HISTORY}"
    if column is None:
        raise missing_column(f"cut is by a column that {side} lack: column", name, frame.schema)
    kind = frame.schema[column].dataType
    check_event_time(column, kind)
    time, bound = quoted_columns([column])[0], _moment(frame.sparkSession, moment).cast(kind)
    return frame.where(time < bound), frame.where(time >= bound)


def _moment(spark: SparkSession, moment: Any) -> Column:
    if isinstance(moment, datetime):
        return F.lit(moment)
    text = str(moment).replace("'", "")
    try:
        literal = F.expr(f"TIMESTAMP '{text}'")
        if text[:1].isdigit():  # Spark knows words, too, such as 'today', which at the next start is another day
            spark.range(1).select(literal)
            return literal
    except AnalysisException:
        pass
    raise PlanError(
        f"cut at {moment!r} is no point in time; use a datetime, or a text such as '2024-12-01' or"
        " '2024-12-01 06:30:00'"
    )


def _moment_ms(spark: SparkSession, moment: Any) -> int:
    row = spark.range(1).select(F.unix_millis(_moment(spark, moment).cast("timestamp"))).first()
    assert row is not None
    return int(row[0])
