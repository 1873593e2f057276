"""The page of the options, made of the registry."""

from __future__ import annotations

from mixedmode.planner.options.registry import OPTIONS, Option, format_value

_ABOVE = """
# Options

From `.option()`, from a TOML file (`.optionsFile(path)`), or from `spark.conf` as `spark.mixedmode.<option>`; the
nearer one wins. An unknown name is an error that says what was probably meant, and so is a value that is not allowed.
"""


def page() -> str:
    """All options, one table for each first word of their names."""
    lines = [_ABOVE.strip()]
    for group in dict.fromkeys(option.name.partition(".")[0] for option in OPTIONS):
        lines += ["", f"## {group}", "", "| option | default | allowed | what it is |", "|---|---|---|---|"]
        lines += [row(option) for option in OPTIONS if option.name.startswith(f"{group}.")]
    return "\n".join(lines) + "\n"


def row(option: Option) -> str:
    """The option's line of the table."""
    names = " or ".join(f"`{name}`" for name in option.names)
    cells = (names, format_value(option, option.default), option.allowed, option.doc)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
