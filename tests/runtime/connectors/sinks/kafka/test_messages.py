"""What is no message for Kafka is refused before there is a row."""

from __future__ import annotations

import pytest
from mixedmode.errors import MixedModeError
from mixedmode.runtime.connectors.sinks.kafka.messages import check_messages
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

BROKERS = {"kafka.bootstrap.servers": "b:1"}
HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
VALUE = StructType().add("value", StringType())


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (VALUE, {"topic": "t"}),
        (StructType().add("VALUE", BinaryType()).add("Key", StringType()), {"TOPIC": "t"}),
        (StructType().add("value", StringType()).add("topic", StringType()), {}),
        (
            StructType().add("value", StringType()).add("partition", IntegerType()).add("headers", HEADERS),
            {"topic": "t"},
        ),
    ],
)
def test_messages(schema: StructType, options: dict[str, str]) -> None:
    """A value, and of what Spark sends beside it as much as there is, in any case."""
    check_messages(schema, {**BROKERS, **options}, str.lower)


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        (VALUE, {"topic": "t"}, "kafka.bootstrap.servers"),
        (VALUE, BROKERS, "needs a topic"),
        (StructType().add("v", StringType()), {**BROKERS, "topic": "t"}, "needs a column value.*has v"),
        (StructType().add("value", LongType()), {**BROKERS, "topic": "t"}, "value is of type bigint.*string or binary"),
        (
            StructType().add("value", StringType()).add("headers", ArrayType(StringType())),
            {**BROKERS, "topic": "t"},
            "headers is of type array<string>",
        ),
    ],
)
def test_no_messages(schema: StructType, options: dict[str, str], words: str) -> None:
    """Each lack is named, with what is allowed."""
    with pytest.raises(MixedModeError, match=words):
        check_messages(schema, options, str.lower)


def test_columns_that_no_message_has_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Spark leaves them out without a word."""
    check_messages(StructType().add("value", StringType()).add("n", LongType()), {**BROKERS, "topic": "t"}, str.lower)
    assert "leaves out n;" in caplog.text
