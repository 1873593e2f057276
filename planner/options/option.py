"""Describes one option: its name, its field of the settings, how its value is read and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from ...runtime.protocols.rows_per_call import RowsPerCall
from ...runtime.settings import Settings
from .values import format_duration_ms, format_rows_per_call, format_size_bytes, one_of


@dataclass(frozen=True)
class Option:
    """One option: what it is called, where its value goes, how it is read."""

    name: str
    #: Field of :class:`Settings`; its default is the option's default.
    field: str
    parse: Callable[[str], Any]
    #: The allowed values in words, for error messages.
    allowed: str
    doc: str
    #: A second name of the same option.
    alias: str | None = None
    #: What a user writes for None.
    unset: str = "unset"

    @property
    def default(self) -> Any:
        return Settings.model_fields[self.field].default

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,) if self.alias is None else (self.name, self.alias)


def choice(name: str, field: str, doc: str, alias: str | None = None) -> Option:
    """An option whose values are a few words: those of its field's type.

    Args:
        name: of the option.
        field: of the settings.
        doc: what it is for.
        alias: a second name.
    """
    words = tuple(word for kind in _kinds(Settings.model_fields[field].annotation) for word in get_args(kind))
    return Option(name, field, one_of(*words), ", ".join(words), doc, alias)


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """A type's ``Literal``, without the ``None`` beside it."""
    return (annotation,) if get_origin(annotation) is Literal else get_args(annotation)


def format_value(option: Option, value: Any) -> str:
    """A setting as a user would write it."""
    if value is None:
        return option.unset
    if isinstance(value, RowsPerCall):
        return format_rows_per_call(value)
    if option.field.endswith("_ms"):
        return format_duration_ms(value)
    if option.field.endswith("_bytes"):
        return format_size_bytes(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
