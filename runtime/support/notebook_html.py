"""Renders small pieces of HTML for a notebook's cells, right in light and in dark.

Whatever a job is called or holds is text, and stays text.  Colours are the notebook's own; nothing is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

#: Parts of the names of options whose values are for nobody's eyes, as Spark's ``spark.redaction.regex`` has them.
_SECRETS = re.compile(
    "secret|passw|passphrase|pwd|token|(access|account|api|private|shared)[._-]?key|credential|jaas|signature|[.]sas",
    re.IGNORECASE,
)
_TABLE = "border-collapse:collapse;font-size:0.9em"
_CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0;border:none;background:none;color:inherit"
_WRAPPED = f"{_CELL};white-space:pre-wrap"
_NAME = f"{_CELL};opacity:0.65;white-space:nowrap;font-weight:normal"


def facts_html(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A heading, and names with what they stand for.

    Args:
        title: the heading.
        facts: names and values; a value may be HTML made here (:class:`Markup`).
    """
    rows = "".join(
        f'<tr style="background:none"><th style="{_NAME}">{escape(name)}</th>'
        f'<td style="{_WRAPPED}">{_html(value)}</td></tr>'
        for name, value in facts
    )
    return f'<div><b>{escape(title)}</b><table style="{_TABLE}">{rows}</table></div>'


def table_html(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table.

    Args:
        header: names of its columns.
        rows: a value for each.
    """
    head = "".join(f'<th style="{_NAME}">{escape(name)}</th>' for name in header)
    body = "".join(
        '<tr style="background:none">' + "".join(f'<td style="{_WRAPPED}">{_html(one)}</td>' for one in row) + "</tr>"
        for row in rows
    )
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


class Markup(str):
    """HTML that was made here."""


def details_html(summary: str, text: str) -> Markup:
    """A long text behind its summary, which opens it.

    Args:
        summary: one line.
        text: the text, with its line breaks.
    """
    return Markup(
        f'<details><summary style="cursor:pointer">{escape(summary)}</summary>'
        f'<pre style="background:none;color:inherit;font-size:0.9em">{escape(text)}</pre></details>'
    )


def bar_html(fraction: float) -> Markup:
    """How much of something is done.

    Args:
        fraction: from 0 to 1.
    """
    return Markup(f'<progress value="{min(max(fraction, 0.0), 1.0):.4f}" max="1"></progress> {fraction:.0%}')


def is_shown(option: str) -> bool:
    """True if an option's value may be printed."""
    return _SECRETS.search(option) is None


def _html(value: object) -> str:
    return str(value) if isinstance(value, Markup) else escape(str(value))
