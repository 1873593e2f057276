"""``query.status`` as users get it: a dictionary that a notebook shows as a table."""

from __future__ import annotations

from typing import Any

from ..support.notebook_html import bar_html, facts_html


class QueryStatus(dict[str, Any]):
    """A dictionary of what a query is doing; in a notebook a table, with a bar for the progress of a backlog."""

    def _repr_html_(self) -> str:
        facts: list[tuple[str, object]] = []
        for name, value in self.items():
            if name == "backlog" and value.get("fraction") is not None:
                facts.append((name, bar_html(value["fraction"])))
            if not isinstance(value, dict):
                facts.append((name, value))
            else:
                facts.append((name, ", ".join(f"{key}: {entry}" for key, entry in value.items())))
        return facts_html("status", facts)
