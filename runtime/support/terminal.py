"""Explain texts with colours, on terminals and in notebooks."""

from __future__ import annotations

import re

from rich.console import Console
from rich.text import Text

#: A line that begins a fact: its name, wide apart from what it says.
_FACT = re.compile(r"^  (?P<name>\S+(?: \S+)*)(?=  +\S|$)")


def print_plan(text: str) -> None:
    """Print a plan: with colours in a notebook, and on a terminal unless ``NO_COLOR`` is set; else the text as it is.

    Args:
        text: headings, and below them lines that begin with the name of a fact.
    """
    console = Console(highlight=False, soft_wrap=True)
    if console.is_jupyter or (console.is_terminal and not console.no_color):
        console.print(styled(text))
    else:
        print(text)


def styled(text: str) -> Text:
    """The text, its headings and names told apart from what they say."""
    found, is_warning = Text(), False
    for line in text.split("\n"):
        fact = _FACT.match(line)
        if fact is not None:
            is_warning = fact["name"] == "warning"
        if not line.startswith(" "):
            is_warning = False
            found.append(line, "bold")
        elif fact is None:
            found.append(line, "yellow" if is_warning else "")
        else:
            found.append(line[: fact.end()], "yellow" if is_warning else "cyan")
            found.append(line[fact.end() :], "yellow" if is_warning else "")
        found.append("\n")
    found.right_crop(1)
    return found
