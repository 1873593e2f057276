"""Finds the frames of the user's own code in a traceback, for error messages.

Frames of this library and of PySpark stand above it, by the dozen, and sometimes below it.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyspark

from .spark_errors import what_happened

_PACKAGE = str(Path(__file__).resolve().parents[2])
#: Not the package's whole folder: in a checkout examples and tests lie there, too, which are users.
_ENGINE = (
    *(f"{_PACKAGE}{os.sep}{folder}{os.sep}" for folder in ("planner", "runtime", "state", "sorter", "testing")),
    f"{os.path.dirname(os.path.abspath(pyspark.__file__))}{os.sep}",
)
#: Code that is neither ours nor, most probably, what the reader has written.
_LIBRARIES = tuple(f"{sysconfig.get_paths()[name]}{os.sep}" for name in ("stdlib", "platlib", "purelib"))


def is_ours(filename: str) -> bool:
    """True for files of this library and of PySpark."""
    return filename.startswith(_ENGINE)


def what_was_raised(error: BaseException) -> str:
    """Type and message as Python prints them; lines of the message but the first are set off by a bar."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    if "\n\tat " in text:  # Spark's, with Java's stack in its message
        text = f"{type(error).__name__}: {what_happened(error)}"
    return text.replace("\n", "\n  | ")  # a blank line would end the error on its way through Spark


@dataclass(frozen=True)
class UserFrames:
    """The calls of user code that an exception came through."""

    frames: tuple[traceback.FrameSummary, ...]

    @classmethod
    def since(cls, start: TracebackType | None) -> UserFrames:
        """Those of a traceback, without what is not the user's."""
        return cls(tuple(frame for frame in traceback.extract_tb(start) if not is_ours(frame.filename)))

    @classmethod
    def defining(cls, function: Any) -> UserFrames:
        """Where a function begins, as if it had been called there; nothing for what is not written in Python."""
        code = getattr(function, "__code__", None)
        return cls(
            () if code is None else (traceback.FrameSummary(code.co_filename, code.co_firstlineno, code.co_name),)
        )

    def description(self, error: BaseException, context: str) -> str:
        """An exception of user code for its author: the place in that code, what was raised, where the job was, and
        the calls that led there if there are several."""
        lines = [*self.place_text, what_was_raised(error), f"in {context}"]
        if len(self.frames) > 1:
            lines += ["by way of", *(f"  {_located(frame)}" for frame in self.frames)]
        return "\n".join(lines)

    def located(self, error: BaseException, context: str = "") -> str:
        """An error of ours that user code has caused: what it says, with the place and where the job was."""
        where = [f"in {context}"] if context else []
        return "\n".join([str(error), *(f"at {line}" for line in self.place_text), *where])

    @property
    def place_of_user(self) -> traceback.FrameSummary | None:
        """The innermost call that is not in a library; None: there is none."""
        own = (frame for frame in reversed(self.frames) if not frame.filename.startswith(_LIBRARIES))
        return next(own, None)

    @property
    def place_text(self) -> list[str]:
        """Where it happened, as a line of text, or none."""
        frame = self.place_of_user or (self.frames[0] if self.frames else None)
        if frame is None:
            return []
        return [f"{_located(frame)}: {frame.line}" if frame.line else _located(frame)]


def _located(frame: traceback.FrameSummary) -> str:
    return f'File "{frame.filename}", line {frame.lineno}, in {frame.name}'
