"""Dictionaries and lists that have been handed out and stay what they were: nobody can change them any more."""

from __future__ import annotations

from typing import Any, NoReturn


class FrozenDict(dict[str, Any]):
    """A dictionary that refuses to be changed, and all that is in it; ``dict(frozen)`` is one that may be."""

    def __init__(self, *entries: Any, **more: Any) -> None:
        super().__init__({name: frozen(value) for name, value in dict(*entries, **more).items()})

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be changed; dict(…) makes a copy that can")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses to be changed, and all that is in it; ``list(frozen)`` is one that may be."""

    def __init__(self, values: Any = ()) -> None:
        super().__init__(map(frozen, values))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this list cannot be changed; list(…) makes a copy that can")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


def frozen(value: Any) -> Any:
    """The value with all dictionaries and lists in it frozen: copies, so that whoever made it may go on with it."""
    if isinstance(value, (FrozenDict, FrozenList)):
        return value
    if isinstance(value, dict):
        return FrozenDict(value)
    return FrozenList(value) if isinstance(value, list) else value
