"""Brokers that nobody can reach are named before any client looks for them."""

from __future__ import annotations

import socket
import time

import pytest
from mixedmode.errors import PlanError
from mixedmode.runtime.spark_io.brokers import check_reachable


def test_one_broker_that_listens_is_enough() -> None:
    """Whoever does not listen beside it is no matter; a protocol may stand before the address."""
    with socket.socket() as listening, socket.socket() as bound:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        bound.bind(("127.0.0.1", 0))
        here, nobody = listening.getsockname()[1], bound.getsockname()[1]
        check_reachable({"Kafka.Bootstrap.Servers": f"127.0.0.1:{nobody}, PLAINTEXT://127.0.0.1:{here}"})
        started = time.monotonic()
        with pytest.raises(PlanError, match=rf"kafka\.bootstrap\.servers = .*127\.0\.0\.1:{nobody} \(.*refused"):
            check_reachable({"kafka.bootstrap.servers": f"127.0.0.1:{nobody}"})
        assert time.monotonic() - started < 5


@pytest.mark.parametrize("written", ["", "no-port", "host:port,other:9092"])
def test_what_is_no_address_is_left_to_the_client(written: str) -> None:
    """It says more of it than a connection that was never tried."""
    check_reachable({"kafka.bootstrap.servers": written})
    check_reachable({})
