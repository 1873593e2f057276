"""Limits how long an ending query waits for its output to be sent: as long as brokers answer.

What is being sent is part of a complete checkpoint, so whoever gives it up loses nothing: the next run sends it first.
Tries go on for minutes, in Spark tasks and in calls of the client that nothing interrupts; so the sending is done by a
thread that can be left behind, and whose tries come to an end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark import InheritableThread

if TYPE_CHECKING:
    from ..base import Flag

#: How often it is looked whether the query is to stop; what has been sent is seen at once.
_LOOK_S = 0.25
#: After so many questions without an answer, one after the other, brokers are taken to be gone.
_UNANSWERED = 2


class SendAbandoned(Exception):
    """The query is to stop, and nobody answers."""


class Patience:
    """That of a run with its brokers.

    Args:
        ending: says whether the query is to end; None: it never is.
        silence: asks the brokers, for some seconds; returns why they do not answer, or None.
    """

    def __init__(self, ending: Flag | None, silence: Callable[[], str | None]) -> None:
        self._ending: Flag = ending or threading.Event()
        self._silence = silence
        self._given_up = threading.Event()

    def pause(self, seconds: float) -> None:
        """Wait between two tries.

        Raises:
            GivenUp: there is no use in another one.
        """
        if self._given_up.wait(seconds):
            raise SendAbandoned("the query was stopped")

    def until_done(self, act: Callable[[], None], cancel: Callable[[], object]) -> None:
        """Do something, in another thread; raises what it raises.

        Args:
            act: what is to be done; it waits by :meth:`pause`.
            cancel: ends what of it can be ended.

        Raises:
            GivenUp: the query is to stop, and the brokers do not answer; it says why.
        """
        done, failures = threading.Event(), list[BaseException]()

        def work() -> None:
            try:
                act()
            except BaseException as error:  # the waiting thread's
                failures.append(error)
            finally:
                done.set()

        thread = InheritableThread(target=work, name="mixedmode-sending", daemon=True)
        thread.start()
        unanswered = 0
        while not done.wait(_LOOK_S):
            if not self._ending.is_set():
                continue
            why = self._silence()
            unanswered = 0 if why is None else unanswered + 1
            if unanswered == _UNANSWERED and not done.is_set():
                self._given_up.set()
                cancel()
                raise SendAbandoned(why)
        if failures:
            raise failures[0]
