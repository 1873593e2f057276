"""A local S3 for tests: moto on the loopback, and in front of it what real stores do now and then.

``python s3_server.py`` is the server's process; it prints its address, and ends with its standard input, which is when
whoever started it does, however that ends.

What a bucket's name begins with says how it behaves:

- ``flaky-<seed>``: one request in twenty fails, in one of the ways of :data:`FAILURES`.
- ``lost``: the answer to the first end of a large upload is.
- ``guarded``: only requests with :data:`ACCESS_KEY` are let in.
- ``naive``: conditions of writes are not looked at; ``old``: they are refused.
- ``single-<status>``: what would remove several objects is refused so.
- ``halting``: from a write below a folder ``spark`` on, which :meth:`S3Server.halt` chooses, none is done or answered.
- ``kept-<code>``: what would remove several objects says of the first one, the first time, that it has failed so.
"""

from __future__ import annotations

import io
import json
import random
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

ACCESS_KEY, SECRET_KEY = "test-access-key", "test-secret"
#: One in so many requests to a flaky bucket fails.
RATE = 20
#: How a request fails: before anything is done, or done and not told; with an answer, with none, or with half of one.
FAILURES = ("refused", "done-but-refused", "cut", "done-but-cut", "half")
_COUNTS = "/_failures"
_REQUESTS = "/_requests"
_HALT = "/_halt/"
#: What differs between names of one kind of file: the number of a micro-batch, and what is made at random.
_NUMBERS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")


class S3Server:
    """The server in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert self.address, "the S3 server did not start"

    @property
    def hadoop(self) -> dict[str, str]:
        """Settings by which Spark, and with it everybody, reaches it."""
        return {
            "fs.s3a.endpoint": f"http://{self.address}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.retry.interval": "50ms",
            "fs.s3a.retry.throttle.interval": "50ms",
        }

    def make(self, bucket: str) -> str:
        """Make a bucket; returns its name."""
        request = urllib.request.Request(f"http://{self.address}/{bucket}", method="PUT", headers=_SIGNED)
        with urllib.request.urlopen(request, timeout=60):
            return bucket

    def failures(self, bucket: str) -> dict[str, int]:
        """How many requests to a bucket have failed, by the way they did."""
        return self._told(_COUNTS, bucket)

    def requests(self, bucket: str) -> dict[str, int]:
        """How many requests there were to a bucket, by their method; those for many objects with what they do."""
        return self._told(_REQUESTS, bucket)

    def halt(self, bucket: str, then: str = "wait") -> None:
        """Halt at the next write of the query's log that is of a kind of which none was halted yet: another step of
        writing a file, or the first file in a folder.

        Args:
            bucket: named ``halting…``.
            then: what becomes of that write and those that follow: they ``wait`` for an answer, or have to ``end``;
                those that wait end, too. With ``go on`` nothing halts any more.
        """
        with urllib.request.urlopen(f"http://{self.address}{_HALT}{bucket}/{quote(then)}", timeout=60):
            return

    def halted(self, bucket: str) -> str | None:
        """The kind of the write that has halted; None: it has not come."""
        return halted(self.address, bucket)

    def _told(self, what: str, bucket: str) -> dict[str, int]:
        return _told(self.address, what, bucket)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)


def halted(address: str, bucket: str) -> str | None:
    """The kind of the write at which a bucket of a server has halted."""
    return next(iter(_told(address, _HALT, bucket)), None)


def _told(address: str, what: str, bucket: str) -> dict[str, int]:
    with urllib.request.urlopen(f"http://{address}{what}", timeout=60) as answer:
        found: dict[str, dict[str, int]] = json.load(answer)
        return found.get(bucket, {})


_SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20240101/us-east-1/s3/aws4_request"}
App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Unreliable:
    """Stands before a store.

    Args:
        store: the store.
    """

    def __init__(self, store: App) -> None:
        self._store = store
        self._chances: dict[str, random.Random] = {}
        self._failed: dict[str, Counter[str]] = {}
        self._asked: dict[str, Counter[str]] = {}
        self._choosing = threading.Condition(threading.Lock())
        #: For each bucket: kinds of writes that were halted, what becomes of the next one, and which one has halted.
        self._kinds: dict[str, set[str]] = {}
        self._then: dict[str, str] = {}
        self._halted: dict[str, dict[str, int]] = {}
        #: A condition and the write that depends on it are one step in a real store.
        self._writing = threading.Lock()

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        bucket = request["PATH_INFO"].split("/")[1]
        if request["PATH_INFO"] in (_COUNTS, _REQUESTS):
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(self._failed if request["PATH_INFO"] == _COUNTS else self._asked).encode()]
        if request["PATH_INFO"].startswith(_HALT):
            return self._halt(request["PATH_INFO"].removeprefix(_HALT), start)
        removes_many = request["REQUEST_METHOD"] == "POST" and request["QUERY_STRING"].startswith("delete")
        with self._choosing:
            asked = self._asked.setdefault(bucket, Counter())
            asked["POST delete" if removes_many else request["REQUEST_METHOD"]] += 1
        # An answer before the end of the request would end the connection, which nobody asked for.
        if size := int(request.get("CONTENT_LENGTH") or 0):
            body = request["wsgi.input"].read(size)
            request["wsgi.input"] = io.BytesIO(body)
        if bucket.startswith("guarded") and f"Credential={ACCESS_KEY}/" not in request.get("HTTP_AUTHORIZATION", ""):
            return _error(start, "403 Forbidden", "InvalidAccessKeyId")
        if bucket.startswith("halting") and self._has_to_end(bucket, request):
            return _error(start, "403 Forbidden", "AccessDenied")  # which no client tries again
        if request["REQUEST_METHOD"] == "PUT" and bucket.startswith(("naive", "old")):
            condition = request.pop("HTTP_IF_NONE_MATCH", None)
            if condition and bucket.startswith("old"):
                return _error(start, "501 Not Implemented", "NotImplemented")
        if removes_many and bucket.startswith("single-"):
            status = bucket.removeprefix("single-")
            code = "AccessDenied" if status == "403" else "InvalidArgument"
            return _error(start, f"{status} {HTTPStatus(int(status)).phrase}", code)
        if removes_many and bucket.startswith("kept-") and asked["POST delete"] == 1:
            return _kept(start, bucket.removeprefix("kept-"), request["wsgi.input"].read())
        is_made = request["REQUEST_METHOD"] == "PUT" and request["PATH_INFO"] == f"/{bucket}"
        failure = self._choose(bucket) if bucket.startswith("flaky-") and not is_made else None
        if bucket.startswith("lost") and request["REQUEST_METHOD"] == "POST" and "uploadId" in request["QUERY_STRING"]:
            failure = None if bucket in self._failed else "done-but-cut"
            self._failed.setdefault(bucket, Counter())["done-but-cut"] += 1
        return self._answer_with(failure, request, start)

    def _answer_with(self, failure: str | None, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if failure == "refused":
            return _error(start, "503 Service Unavailable", "SlowDown")
        if failure == "cut":
            _cut(request)
        if failure is None:
            return self._answer(request, start)
        told: list[Any] = []
        body = b"".join(self._answer(request, lambda *said: told.extend(said)))
        if failure == "done-but-refused":
            return _error(start, "500 Internal Server Error", "InternalError")
        if failure == "done-but-cut":
            _cut(request)
        start(*told)
        return _half(body, request)

    def _halt(self, asked: str, start: Callable[..., Any]) -> Iterable[bytes]:
        start("200 OK", [("Content-Type", "application/json")])
        if asked:
            bucket, then = asked.split("/")
            with self._choosing:
                if then != "end":
                    self._halted[bucket] = {}
                self._then[bucket] = then
                self._choosing.notify_all()
        return [json.dumps(self._halted).encode()]

    def _has_to_end(self, bucket: str, request: dict[str, Any]) -> bool:
        method, path = request["REQUEST_METHOD"], request["PATH_INFO"]
        if method not in ("PUT", "POST", "DELETE"):
            return False
        what = "COPY" if "HTTP_X_AMZ_COPY_SOURCE" in request else method
        with self._choosing:
            then, kinds = self._then.get(bucket, "go on"), self._kinds.setdefault(bucket, set())
            if then == "go on":
                return False
            if not self._halted[bucket]:
                name = path.partition("/spark/")[2]
                # What is new is a step of writing a file, or the first file in a folder.
                folder, _, last = name.rpartition("/")
                step = f"{what} {'a temporary file' if last.endswith('.tmp') else 'a file' if last else 'a folder'}"
                kind = {step, folder} if last else {step}
                if "/spark/" not in path or kind <= kinds:
                    return False
                kinds |= kind
                self._halted[bucket] = {f"{what} {_NUMBERS.sub('N', name)}": 1}
            while self._then[bucket] == "wait":
                self._choosing.wait()
            return True

    def _answer(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if request["REQUEST_METHOD"] not in ("PUT", "POST"):
            return self._store(request, start)
        with self._writing:
            return list(self._store(request, start))

    def _choose(self, bucket: str) -> str | None:
        with self._choosing:
            chance = self._chances.setdefault(bucket, random.Random(bucket))
            if chance.randrange(RATE):
                return None
            failure = chance.choice(FAILURES)
            self._failed.setdefault(bucket, Counter())[failure] += 1
            return failure


def _error(start: Callable[..., Any], status: str, code: str) -> list[bytes]:
    body = f"<Error><Code>{code}</Code><Message>Not now.</Message></Error>".encode()
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def _kept(start: Callable[..., Any], code: str, wanted: bytes) -> list[bytes]:
    key = re.findall(rb"<Key>(.*?)</Key>", wanted)[0]
    body = b"<DeleteResult><Error><Key>%s</Key><Code>%s</Code><Message>x</Message></Error></DeleteResult>"
    start("200 OK", [("Content-Type", "application/xml")])
    return [body % (key, code.encode())]


def _cut(request: dict[str, Any]) -> None:
    request["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionError("cut")


def _half(body: bytes, request: dict[str, Any]) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    _cut(request)


def serve() -> None:
    """Serve until the standard input ends."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: object) -> None:
            pass

    app = Unreliable(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    server.daemon_threads = True  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()
