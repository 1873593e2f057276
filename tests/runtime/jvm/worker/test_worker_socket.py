"""Acknowledging at once: on for connections, and nothing else is touched."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from mixedmode.runtime.jvm.worker.worker_tasks import acknowledge_at_once

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has the option")


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        one = stack.enter_context(socket.create_connection(listener.getsockname()))
        other = stack.enter_context(listener.accept()[0])
        yield one, other


def acknowledges_at_once(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


def test_connections_acknowledge_at_once(connected: tuple[socket.socket, socket.socket]) -> None:
    """A connection that puts acknowledgements off does so no more, and still works."""
    one, other = connected
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    assert not acknowledges_at_once(one)
    acknowledge_at_once()
    assert acknowledges_at_once(one)
    other.sendall(b"rows")
    assert one.recv(4) == b"rows"


#: In a process of its own, where no other thread opens or closes anything meanwhile.
_DESCRIPTORS = """
import os, socket
from mixedmode.runtime.jvm.worker.worker_tasks import acknowledge_at_once

listener = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(listener.getsockname())
local, remote = socket.socketpair()
before = set(os.listdir("/proc/self/fd"))
acknowledge_at_once()
assert set(os.listdir("/proc/self/fd")) == before
local.sendall(b"x")
assert remote.recv(1) == b"x"
"""


def test_no_descriptor_is_closed_or_left_open() -> None:
    """All descriptors that were open are, and no other ones."""
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _DESCRIPTORS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
