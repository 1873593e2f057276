"""The status of a query, as a notebook shows it."""

from __future__ import annotations

from mixedmode.runtime.handle.monitoring import QueryStatus


def test_a_status_in_a_cell_is_a_table_with_a_bar() -> None:
    """Each entry is a line, and a backlog has a bar; the status itself is a dictionary as ever."""
    backlog = {"fraction": 0.25, "rows": 5}
    status = QueryStatus({"message": "<backlog>", "shards": {"keyed-0": 4}, "backlog": backlog})
    html = status._repr_html_()

    assert status == {"message": "<backlog>", "shards": {"keyed-0": 4}, "backlog": backlog}
    assert "&lt;backlog&gt;" in html and "keyed-0: 4" in html
    assert '<progress value="0.2500"' in html and "rows: 5" in html


def test_a_backlog_without_a_fraction_has_no_bar() -> None:
    """As long as nobody knows how far a backlog is, there is none."""
    assert "<progress" not in QueryStatus({"backlog": {"fraction": None, "rows": 5}})._repr_html_()
