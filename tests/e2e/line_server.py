"""A server of lines on a local port, as ``nc -lk`` is one: what it sends goes to whoever is connected, and nowhere."""

from __future__ import annotations

import socket
import threading

import support


class LineServer:
    """Accepts connections until it is closed."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        #: Connections so far.
        self.accepted = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            self.accepted += 1

    def wait_for_connections(self, number: int) -> None:
        """Return when so many have been made."""
        support.wait_until(lambda: self.accepted >= number, 120)

    def send(self, *lines: str) -> None:
        """Send lines to the newest connection."""
        self._open[-1].sendall("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        for one in [*self._open, self._listening]:
            one.close()
