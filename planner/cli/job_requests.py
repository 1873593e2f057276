"""Sends requests to the job that runs on a location: ``mixedmode savepoint``, ``stop``, ``pause``, ``resume``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.driver.requests.remote_client import ask
from ...runtime.driver.requests.remote_requests import Action
from .console import failures, misused, print_facts, print_json, say
from .location_checks import check_location

#: What becomes of a job of which something is asked.
_FATE: dict[Action, str] = {"savepoint": "goes on", "stop": "stopped", "pause": "paused", "resume": "goes on"}


def telling(as_json: bool) -> Callable[[str], None]:
    """What says how far a request is, to people."""

    def on_status(status: str) -> None:
        if not as_json:
            say("the job has taken up the request" if status == "running" else "waiting for the job …")

    return on_status


def ask_job(
    location: str, action: Action, path: str | None, *, drain: bool = False, timeout_s: float, as_json: bool
) -> None:
    """Ask, wait, and print what has come of it.

    Args:
        location: the job's checkpointLocation.
        action: what it is to do.
        path: where its savepoint goes; None: none is asked for.
        drain: whether it first fires all that waits for the end of input.
        timeout_s: how long to wait.
        as_json: print one JSON document.
    """
    check_location(location)
    if path is not None and not path.strip():
        raise misused("the savepoint's path is empty")
    if drain and path is None:
        raise misused("--drain ends the job for good with a savepoint of its last state: say where to by --savepoint")

    with failures(as_json):
        made = ask(location, action, path, drain=drain, timeout_s=timeout_s, on_status=telling(as_json))
    if not as_json:
        print_facts([*([] if made is None else [("savepoint", made)]), ("job", _FATE[action])])
    elif action in ("pause", "resume"):
        print_json({"paused": action == "pause"})
    else:
        facts: dict[str, Any] = {"savepoint": made, "stopped": action == "stop", "drained": drain}
        print_json(facts)
