"""Who is ended by SIGTERM, and who hears of it, without Spark and with real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from mixedmode.runtime.driver.run import sigterm
from mixedmode.runtime.driver.run.sigterm import Sigterm

SPARK = cast(Any, None)


class Hook:
    """Stands for the JVM's."""

    made: list[Hook]

    def __init__(self, spark: Any, function: Callable[[], object]) -> None:
        self.function, self.removed = function, False
        self.made.append(self)

    def remove(self) -> None:
        self.removed = True


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sigterm]:
    """One of its own for this test; what pytest has for the signal comes back."""
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Hook.made = []
    monkeypatch.setattr(sigterm, "ShutdownHook", Hook)
    monkeypatch.setattr(sigterm.atexit, "register", lambda function: None)
    yield Sigterm()
    signal.signal(signal.SIGTERM, before)


class Queries:
    """Queries that say when they have been ended."""

    def __init__(self, count: int) -> None:
        self.ended = [threading.Event() for _ in range(count)]

    def wait(self) -> None:
        assert all(one.wait(60) for one in self.ended)


def test_all_queries_end(signals: Sigterm) -> None:
    """Each query is ended, on threads that the end of the process waits for, and the program goes on."""
    queries, threads = Queries(2), []
    for one in queries.ended:
        signals.watch(lambda one=one: threads.append(threading.current_thread()) or one.set(), SPARK)  # type: ignore
    os.kill(os.getpid(), signal.SIGTERM)
    queries.wait()
    assert len(set(threads)) == 2 and not any(thread.daemon for thread in threads)


def test_handler_of_the_program_is_called_too(signals: Sigterm) -> None:
    """The program's own handler hears of the signal after us, also of one that concerns no query."""
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    queries = Queries(2)
    signals.watch(queries.ended[0].set, SPARK)
    signals.forget(queries.ended[0].set)
    os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGTERM]
    signals.watch(queries.ended[1].set, SPARK)
    os.kill(os.getpid(), signal.SIGTERM)
    assert queries.ended[1].wait(60) and not queries.ended[0].is_set()
    assert heard == [signal.SIGTERM] * 2


def test_program_that_ignores_the_signal_is_left_alone(signals: Sigterm) -> None:
    """Where the program ignores SIGTERM we do not handle it, nor does the JVM wait for us."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signals.watch(lambda: None, SPARK)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert not Hook.made


def test_other_threads_cannot_handle_signals(signals: Sigterm) -> None:
    """A query that is started elsewhere than in the main thread is ended if one has been started there."""
    queries = Queries(2)

    def start() -> None:
        signals.watch(queries.ended[0].set, SPARK)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    signals.watch(queries.ended[1].set, SPARK)
    os.kill(os.getpid(), signal.SIGTERM)
    queries.wait()


def test_jvm_waits_for_the_queries(signals: Sigterm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM that gets the signal, before us, after us or alone, ends after the queries; each is ended once."""
    monkeypatch.setattr(sigterm, "_MAIN_THREAD_S", 0.0)
    goes, calls = threading.Event(), []

    def end() -> None:
        calls.append("begun")
        goes.wait(60)
        calls.append("ended")

    signals.watch(end, SPARK)
    (hook,) = Hook.made
    jvm = threading.Thread(target=lambda: (hook.function(), calls.append("JVM")))
    jvm.start()
    os.kill(os.getpid(), signal.SIGTERM)  # the first one that this process gets
    goes.set()
    jvm.join(60)
    assert calls == ["begun", "ended", "JVM"]
    signals.forget(end)
    assert hook.removed


def test_signal_that_the_jvm_got_first_is_no_second_one(signals: Sigterm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM that gets the signal may have ended all queries before the main thread handles it: nobody is killed."""
    killed: list[int] = []
    monkeypatch.setattr(sigterm, "_MAIN_THREAD_S", 600.0)
    monkeypatch.setattr(sigterm.os, "kill", lambda process, number: killed.append(number))
    ended = threading.Event()
    signals.watch(ended.set, SPARK)
    (hook,) = Hook.made
    threading.Thread(target=hook.function, daemon=True).start()  # waits for this thread
    assert ended.wait(60)
    signals.forget(ended.set)
    signal.raise_signal(signal.SIGTERM)
    assert not killed
    signal.raise_signal(signal.SIGTERM)
    assert killed == [signal.SIGTERM], "a second one does"


def test_query_of_a_program_that_begins_anew(signals: Sigterm) -> None:
    """A program that starts a query after its queries were ended has that one ended by the next signal."""
    for _ in range(2):
        queries = Queries(1)
        signals.watch(queries.ended[0].set, SPARK)
        os.kill(os.getpid(), signal.SIGTERM)
        queries.wait()
        for thread in signals._ending or ():
            thread.join()
        signals.forget(queries.ended[0].set)


PROGRAM = """
import os, signal, sys, threading, time
from mixedmode.runtime.driver.run import sigterm
sigterm.ShutdownHook = lambda spark, function: None
never, begun = threading.Event(), threading.Event()
end = lambda: (print("ending", flush=True), begun.set(), never.wait())
case = sys.argv[1]
if case == "within":
    def told(number, frame):
        ours(number, frame)
        begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)
    signal.signal(signal.SIGTERM, told)
sigterm.SIGTERM.watch(end, None)
ours = signal.getsignal(signal.SIGTERM)
if case == "forked":
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        os.write(told, b"x")
        time.sleep(600)
    os.read(ready, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)
if case == "none":
    sigterm.SIGTERM.forget(end)
os.kill(os.getpid(), signal.SIGTERM)
if case == "twice":
    begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize(
    ("case", "code", "said"),
    [
        ("twice", -signal.SIGTERM, "ending"),
        ("within", -signal.SIGTERM, "ending"),
        ("none", -signal.SIGTERM, ""),
        ("forked", 0, str(-signal.SIGTERM)),
    ],
)
def test_what_ends_the_process_at_once(case: str, code: int, said: str) -> None:
    """A second signal, one when no query runs, and one to a process that was forked off do what they ever did.

    The second one also while the program's handler of the first one still runs.
    """
    done = subprocess.run([sys.executable, "-c", PROGRAM, case], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.strip()) == (code, said), done.stderr
