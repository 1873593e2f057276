"""Checks the Spark application for Real-Time Mode: its version, and settings that only its start can give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ....errors import SetupError

#: The first version whose pipelined shuffles and Python operators were tried.
LEAST_SPARK = (4, 3)
#: Settings that must be off, with what they would do.
_OFF = {
    "spark.dynamicAllocation.enabled": "executors would come and go under tasks that never end",
    "spark.speculation": "Spark would start a second copy of each task that never ends",
}
#: Settings without which a row waits on its way; they can be given when the application starts, and never later.
_GIVEN = {"spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5"}


def check_application(version: str, setting: Callable[[str], str | None]) -> None:
    """Raise SetupError if the application cannot run a query in Real-Time Mode as it should be.

    Args:
        version: of Spark.
        setting: the value of a setting of the application; None: it is not set.

    Raises:
        SetupError: all that has to change, with the line for ``spark-submit``.
    """
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < LEAST_SPARK:
        least = ".".join(map(str, LEAST_SPARK))
        raise SetupError(
            f"trigger(realTime=…) needs Spark {least} or newer, this is {version}; use a newer Spark, or"
            " trigger(processingTime=…)",
            code="MIXEDMODE_REAL_TIME_SETTINGS",
        )
    on = [name for name in _OFF if str(setting(name) or "false").strip().lower() == "true"]
    missing = [name for name in _GIVEN if not setting(name)]
    if not on and not missing:
        return
    wanted = {**dict.fromkeys(on, "false"), **{name: _GIVEN[name] for name in missing}}
    line = " ".join(f"--conf {name}={value}" for name, value in wanted.items())
    raise SetupError(
        f"trigger(realTime=…) needs other settings of the application: {'; '.join(_reasons(on, missing))}. Only the"
        f" application's start can set them: spark-submit {line} …",
        code="MIXEDMODE_REAL_TIME_SETTINGS",
    )


def _reasons(on: list[str], missing: list[str]) -> Iterator[str]:
    for name in on:
        yield f"{name} is true ({_OFF[name]})"
    for name in missing:
        yield f"{name} is not set (each row would wait up to 50 ms in the shuffle)"
