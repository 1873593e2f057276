"""Conversions of whole rows, compiled for the Python types that they are met with.

A row that a careful conversion has found to fit tells by the types of its values how the next ones with the same types
are converted: what travels as it is stays as it is, the rest goes through one function each, and a whole row through
one piece of code made for it, without a loop.  Whatever that code does not take (a value out of range, another type)
is for the careful conversion again, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .code_generation import made_function
from .conversions import MisfitError

#: What a compiled conversion may raise; none of it reaches a user.
REFUSALS = (TypeError, ValueError, OverflowError, AttributeError, MisfitError)
#: Rows of so many kinds are met at most; with nulls here and there a wide one could have millions.
_MAX_PLANS = 1_000


@dataclass(frozen=True)
class TypeCodec:
    """Converts the values of one type to what MessagePack holds, and back."""

    #: The type that MessagePack decodes to.
    type: Any
    #: Converts any value that fits, and raises :class:`MisfitError` for others.
    to_packed: Callable[[Any], Any]
    #: None: what MessagePack decodes to is the value.
    from_packed: Callable[[Any], Any] | None = None
    #: Python type whose instances travel as they are; None: always convert.
    plain: type | None = None
    #: The least and the greatest of them; None: all fit.
    bounds: tuple[int, int] | None = None
    #: Python types whose instances (subclasses' too) :attr:`fast` converts, and never to None; it may refuse some.
    exact: tuple[type, ...] = ()
    #: Like ``to_packed``, but what it refuses, or MessagePack does not take from it, is for ``to_packed`` to look at
    #: again; None: ``to_packed``.
    fast: Callable[[Any], Any] | None = None


class RowPlans:
    """Converts rows of one schema.

    Args:
        codecs: one for each field.
        finish: makes the result of the converted values, a tuple.
        slowly: converts any row, with care; it calls :meth:`learn`.
    """

    def __init__(self, codecs: Sequence[TypeCodec], finish: Callable[[Any], Any], slowly: Callable[[Any], Any]) -> None:
        self._codecs = codecs
        self._finish = finish
        self._plans: dict[tuple[type, ...], Callable[..., Any]] = {}
        #: Converts a row: a tuple or list goes fast if one like it has been learnt.
        self.convert: Callable[[Any], Any] = self._compiled(slowly)

    def _compiled(self, slowly: Callable[[Any], Any]) -> Callable[[Any], Any]:
        names = [f"v{i}" for i in range(len(self._codecs))]
        if not names:
            return slowly
        source = f"""
def convert(values):
    if values.__class__ is tuple or isinstance(values, (tuple, list)):
        try:
            {", ".join(names)}, = values
            plan = plans_get(({", ".join(f"type({name})" for name in names)},))
            if plan is not None:
                return plan({", ".join(names)})
        except refusals:
            pass
    return slowly(values)
"""
        made: dict[str, Any] = {"plans_get": self._plans.get, "refusals": REFUSALS, "slowly": slowly}
        convert: Callable[[Any], Any] = made_function("convert", source, made)
        return convert

    def learn(self, values: Sequence[Any]) -> None:
        """Compile what rows of these types take, unless one of them has to be looked at each time."""
        types = tuple(map(type, values))
        if not types or types in self._plans or len(self._plans) >= _MAX_PLANS:
            return
        scope: dict[str, Any] = {"finish": self._finish, "misfit": _misfit}
        parts = []
        for i, (codec, value) in enumerate(zip(self._codecs, values, strict=True)):
            name = f"v{i}"
            if value is None:
                parts.append("None")
            elif codec.plain is type(value):
                parts.append(name if codec.bounds is None else _bounded(name, *codec.bounds))
            elif isinstance(value, codec.exact):
                scope[f"c{i}"] = codec.fast or codec.to_packed
                parts.append(f"c{i}({name})")
            else:
                return
        arguments = ", ".join(f"v{i}" for i in range(len(parts)))
        source = f"def plan({arguments}):\n    return finish(({', '.join(parts)},))\n"
        self._plans[types] = made_function("plan", source, scope)


def _bounded(name: str, low: int, high: int) -> str:
    return f"({name} if {low} <= {name} <= {high} else misfit())"


def _misfit() -> Any:
    raise MisfitError("a number in range")


def compiled_reader(
    codecs: Sequence[TypeCodec], made: type[tuple[Any, ...]] | None = None
) -> Callable[[Any], Any] | None:
    """Makes the values of a decoded row; None: they are what was decoded.

    Args:
        codecs: one for each field.
        made: the class of what is returned; None: a tuple.
    """
    if made is None and all(codec.from_packed is None for codec in codecs):
        return None
    scope: dict[str, Any] = {"made": made, "new": tuple.__new__}
    parts = []
    for i, codec in enumerate(codecs):
        if codec.from_packed is None:
            parts.append(f"v{i}")
        else:
            scope[f"c{i}"] = codec.from_packed
            parts.append(f"(None if v{i} is None else c{i}(v{i}))")
    names = "".join(f"v{i}, " for i in range(len(parts)))
    values = f"({''.join(f'{part}, ' for part in parts)})"
    unpacked = f"    {names}= row\n" if parts else ""
    source = f"def read(row):\n{unpacked}    return {values if made is None else f'new(made, {values})'}\n"
    read: Callable[[Any], Any] = made_function("read", source, scope)
    return read
