"""Sends one lane in a process of its own: ``python lane_process.py <brokers> <topic> <lane's name> <token> <rows>``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
from mixedmode.runtime.connectors.sinks.kafka.client import Client
from mixedmode.runtime.connectors.sinks.kafka.client_options import client_options
from mixedmode.runtime.connectors.sinks.kafka.messages import MessageColumns
from mixedmode.runtime.connectors.sinks.kafka.sender import Sender, SendPiece

PIECE = 10


def lane(brokers: str, topic: str, name: str, token: str, rows: int, branch: int = 0) -> Sender:
    """A sender of rows that are numbers, in transactions of twenty."""
    config = client_options({"kafka.bootstrap.servers": brokers})
    columns = MessageColumns(topic, {"value": 0})
    return Sender(lambda: Client(config, name, columns), branch, token, rows, 2 * PIECE)


def numbers(token: str, rows: int) -> Iterator[SendPiece]:
    """The lane's rows, which are those of the transaction."""
    for start in range(0, rows, PIECE):
        positions = range(start, min(start + PIECE, rows))
        yield SendPiece(pa.RecordBatch.from_pydict({"value": [f"{token}{at}" for at in positions]}), positions)


def main(brokers: str, topic: str, name: str, token: str, rows: int) -> None:
    print(lane(brokers, topic, name, token, rows).send(lambda _: numbers(token, rows)))


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]))
