"""The page of the options, made of the registry."""

from __future__ import annotations

from mixedmode.planner.options.option import Option, format_value
from mixedmode.planner.options.registry import OPTIONS

_ABOVE = """
# Options

Set an option in one of three places. If several set it, the first of this list wins:

1. `.option("execution.runtime-mode", "batch")` of the writer
2. a TOML file: `.optionsFile(path)` of the writer
3. `spark.conf`, as `spark.mixedmode.<option>`

An unknown name raises an error with the most similar names. A value that is not allowed raises an error with the
allowed ones.
"""


def page() -> str:
    """All options, one table for each first word of their names."""
    lines = [_ABOVE.strip()]
    for group in dict.fromkeys(option.name.partition(".")[0] for option in OPTIONS):
        lines += ["", f"## {group}", "", "| option | default | meaning |", "|---|---|---|"]
        lines += [row(option) for option in OPTIONS if option.name.startswith(f"{group}.")]
    return "\n".join(lines) + "\n"


def row(option: Option) -> str:
    """The option's line of the table."""
    names = "<br>or ".join(f"`{name}`" for name in option.names)
    meaning = f"{option.doc[0].upper()}{option.doc[1:]}.<br>*Allowed:* {option.allowed}."
    cells = (names, format_value(option, option.default), meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
