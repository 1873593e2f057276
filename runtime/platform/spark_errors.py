"""What Spark says when it refuses something, in words for people."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

#: What is raised for a class or method that this version of Spark does not have (a package is not callable).
NOT_THERE = (Py4JError, TypeError)
#: What stands before a message: the Java class of the error, its name in Spark.
_ERROR_CLASS = re.compile(r"^([\w.$]+(Exception|Error): )?(\[[A-Z0-9_.]+\] )?")


def error_text(error: Exception) -> str:
    """Spark's message without the plan that it prints below, and without its advice in general terms."""
    return str(error).lstrip().split("\n", 1)[0].split(" SQLSTATE:", 1)[0].split(" Please ensure ", 1)[0].rstrip("; ")


def spark_says(error: Exception) -> str:
    """What Spark says, without the Java stack, the error's class and its state."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    cause = next((line.partition(": ")[2] for line in lines if line.startswith(": ")), lines[0] if lines else "")
    text = _ERROR_CLASS.sub("", cause.split(" SQLSTATE:", 1)[0].split(" Please ", 1)[0])
    return text.strip().rstrip(".") or type(error).__name__
