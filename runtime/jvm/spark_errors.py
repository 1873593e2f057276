"""Shortens Spark's errors to what people need to read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from ...errors import MixedModeError, UserCodeError
from ..support.redaction import redacted

#: What is raised for a class or method that this version of Spark does not have (a package is not callable).
NOT_THERE = (Py4JError, TypeError)
#: What stands before a message: the Java class of the error, its name in Spark.
_ERROR_CLASS = re.compile(r"^([\w.$]+(Exception|Error): )?(\[[A-Z0-9_.]+\] )?")

#: An exception in the text of another one: behind what it came in, with its Java class, up to its first frame.
_RAISED = re.compile(
    r"^(?:: |Caused by: |.*?Lost task [^:]*(?:\([^)]*\))?: )?((?:[a-z_][\w$]*\.)+[A-Z][\w.$]*): (.*?)"
    r"(?=\n\s+at |\nCaused by: |\n\s*\.\.\. \d+ more|\n\nDriver stacktrace|\n\n?JVM stacktrace|\n\s*\n|\Z)",
    re.M | re.S,
)
#: What was raised, behind a traceback of Python's: of a worker, most often.
_IN_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(\S.*)")
#: A condition of Spark's in front of a message.
_CONDITION = re.compile(r"^\[([A-Z0-9_.]+)\] ")
#: What Spark puts before what has ended a stream, and behind it: its ids, and where it stood.
_STREAM_FAILED = re.compile(
    r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: (.*?)(?: SQLSTATE: XXKST)?"
    r"(?:\n=== Streaming Query ===.*)?$",
    re.S,
)
#: Exceptions that say only that there is another one.
_WRAPPERS = (
    "Job aborted",
    "Writing job aborted",
    "Task failed while writing rows",
    "An exception was raised by",
    "Boxed",
)
_WRAPPING_CONDITIONS = (
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "TASK_WRITE_FAILED",
    "WRITING_JOB_ABORTED",
)
#: What cures an exception that does not say so, by its name in Java.
_CURES = {
    "TopicAuthorizationException": "the job's user needs READ and DESCRIBE on the topic",
    "GroupAuthorizationException": "the job's user needs READ on the consumer group",
}
_LONGEST, _MOST_LINES = 600, 10
#: How a place in user code begins, and a line but the first of what was raised there.
PLACE, CONTINUED = 'File "', "  |"


def what_happened(error: BaseException) -> str:
    """What an error is about, in few lines: of ours all, of Spark's the cause without the Java stack.

    Of several exceptions that Spark has wrapped in one another the first counts that has a condition of Spark's, since
    it names file, column and types; what that came of follows if it says more.  Connectors put URLs into their
    messages, which are logged and stored: credentials in them are hidden.
    """
    return str(error) if isinstance(error, MixedModeError) else redacted(_what_happened(error))


def _what_happened(error: BaseException) -> str:
    text = str(error)
    if in_python := _IN_PYTHON.findall(text):  # of a chain the last one counts
        return _shortened(in_python[-1])
    found = list(_raised(text)) if "\tat " in text or "Exception" in text else []
    if not found:
        lines = [line.rstrip() for line in _STREAM_FAILED.sub(r"\1", text).splitlines() if line.strip()]
        return "\n".join(lines[:_MOST_LINES]).strip() or type(error).__name__
    kind, first = next((one for one in found if _CONDITION.match(one[1])), found[0])
    root_kind, root = found[-1]
    condition = _CONDITION.match(first)
    said = _shortened(first if condition is None else first[condition.end() :])
    if condition is None:
        said = f"{kind.rpartition('.')[2]}: {said}"
    cause = _shortened(root)
    # A condition of a kind of its own says all; what it came of are names of Java's for the same.
    says_all = condition is not None and "." in condition[1] and not condition[1].endswith(".NO_HINT")
    if cause not in said and not says_all:
        said = f"{said}: {root_kind.rpartition('.')[2]}: {cause}"
    if cure := _CURES.get(root_kind.rpartition(".")[2]):
        said = f"{said}; {cure}"
    return said if condition is None else f"{said} [{condition[1]}]"


def cause_first(error: BaseException) -> str:
    """The same, where what was raised in user code stands in front of its place: it is the first line of a query's
    error, and the only one of a log's."""
    lines = what_happened(error).split("\n")
    if isinstance(error, UserCodeError) and lines[0].startswith(PLACE) and len(lines) > 1:
        end = next((at for at, line in enumerate(lines[2:], 2) if not line.startswith(CONTINUED)), len(lines))
        lines = [*lines[1:end], lines[0], *lines[end:]]
    return "\n".join(lines)


def _raised(text: str) -> Iterator[tuple[str, str]]:
    for kind, message in _RAISED.findall(text):
        condition = _CONDITION.match(message)
        says_nothing = message.startswith(_WRAPPERS) or not message.strip()
        if condition is not None:
            says_nothing = condition[1].startswith(_WRAPPING_CONDITIONS)
        elif "Lost task" in message:
            yield from _raised(message.partition("Lost task")[2].partition(": ")[2])
        if not says_nothing:
            yield kind, message


def _shortened(message: str) -> str:
    """One line, without Spark's state, its advice in general terms, and plans."""
    first_part = message.split(" SQLSTATE:", 1)[0].split(" Please ", 1)[0].split("\n==", 1)[0]
    line = " ".join(first_part.split()).rstrip(". ;")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def error_text(error: Exception) -> str:
    """Spark's message without the plan that it prints below, and without its advice in general terms."""
    line = str(error).lstrip().split("\n", 1)[0].split(" SQLSTATE:", 1)[0].split(" Please ensure ", 1)[0]
    return redacted(line.rstrip("; "))


def spark_says(error: Exception) -> str:
    """What Spark says, without the Java stack, the error's class and its state."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    cause = next((line.partition(": ")[2] for line in lines if line.startswith(": ")), lines[0] if lines else "")
    text = _ERROR_CLASS.sub("", cause.split(" SQLSTATE:", 1)[0].split(" Please ", 1)[0])
    return redacted(text.strip().rstrip(".")) or type(error).__name__
