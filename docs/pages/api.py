"""The page of the API, made of the docstrings of the public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import mixedmode
from mixedmode import MixedModeError

_ABOVE = """
# API

What `import mixedmode` gives. Behind `mixedmode.read(…)` a frame has the methods of a `DataFrame`, a writer those of a
`DataStreamWriter`, with the same arguments; only what is different is told here.
"""
_ERRORS = """
## Errors

Each is a `MixedModeError` with a `code`; [troubleshooting](troubleshooting.md) has cause and cure of every code.

```python
try:
    query = writer.start()
except mixedmode.PlanError as error:
    print(error.code, error)
```
"""
_ROLE = re.compile(r":(?:meth|class|attr|func|mod):`~?\.*(?:[\w.]*\.)?(\w+)`")
_SECTION = re.compile(r"^(Args|Raises|Returns|Yields):$")


def page() -> str:
    """All public names, errors last."""
    lines = [_ABOVE.strip()]
    names = sorted(mixedmode.__all__, key=lambda name: (name[0].isupper(), name.lower()))
    errors = [name for name in names if is_error(getattr(mixedmode, name))]
    for name in names:
        if name not in errors:
            lines += ["", *_of(name, getattr(mixedmode, name))]
    lines += ["", _ERRORS.strip(), "", "| class | code | what it says |", "|---|---|---|"]
    for name in errors:
        one = getattr(mixedmode, name)
        told = " ".join(text(one).split())
        lines.append(f"| `{name}` | `{one.code}` | {told} |")
    return "\n".join(lines) + "\n"


def is_error(thing: Any) -> bool:
    """Whether a public name is one of an error."""
    return isinstance(thing, type) and issubclass(thing, MixedModeError)


def text(thing: Any) -> str:
    """What a name says of itself."""
    return inspect.getdoc(thing) or ""


def members(thing: Any) -> Iterator[tuple[str, Any]]:
    """The public functions of a module or methods and properties of a class, of its own."""
    if isinstance(thing, ModuleType):
        yield from ((name, getattr(thing, name)) for name in getattr(thing, "__all__", ()))
    elif isinstance(thing, type):
        for one in reversed([kind for kind in thing.__mro__ if kind.__module__.startswith("mixedmode")]):
            for name, member in vars(one).items():
                if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                    yield name, member


def _of(name: str, thing: Any) -> list[str]:
    lines = [f"## {name} {{ #{name} }}", "", *_signature(f"mixedmode.{name}", thing), *markdown(text(thing))]
    for inner, member in dict(members(thing)).items():
        if text(member):
            lines += ["", f"### {name}.{inner} {{ #{name}.{inner} }}", ""]
            lines += [*_signature(inner, member), *markdown(text(member))]
    return lines


def _signature(name: str, thing: Any) -> list[str]:
    if not (inspect.isfunction(thing) or isinstance(thing, type)) or is_error(thing):
        return []
    function = thing if inspect.isfunction(thing) else vars(thing).get("__init__")
    if not inspect.isfunction(function):
        return []
    shown = [
        (f"{one.name} = {one.default!r}" if one.default is not one.empty else str(one).partition(":")[0])
        for one in inspect.signature(function).parameters.values()
        if one.name != "self"
    ]
    return ["```python", f"{name}({', '.join(shown)})", "```", ""]


def markdown(docstring: str) -> list[str]:
    """A docstring as Markdown: roles without their names, sections as lists, indented code as it is."""
    lines, section = [], False
    for line in docstring.splitlines():
        line = _ROLE.sub(r"`\1`", line)
        if found := _SECTION.match(line):
            section = True
            lines += [f"**{found[1]}**", ""]
        elif section and re.match(r"    \S", line):
            what, colon, rest = line.strip().partition(":")
            lines.append(f"- `{what}`:{rest}" if colon else f"- {what}")
        elif section and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            section = section and not line
            lines.append("" if line == "::" else line[:-1] if line.endswith("::") else line)
    return lines
