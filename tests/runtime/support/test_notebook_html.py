"""What notebooks show: text stays text, and nothing is loaded."""

from __future__ import annotations

from mixedmode.runtime.support.notebook_html import bar_html, details_html, facts_html, is_shown, table_html

EVIL = "<script>alert('x')</script>&"
ESCAPED = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;"


def test_names_and_values_are_text() -> None:
    """Whatever a heading, a name, a column or a value is called, it is shown as it is and is no HTML."""
    for html in (
        facts_html(EVIL, [(EVIL, EVIL)]),
        table_html((EVIL,), [(EVIL,)]),
        facts_html("", [("", details_html(EVIL, EVIL))]),
    ):
        assert EVIL not in html and html.count(ESCAPED) >= 2
    assert facts_html(EVIL, [(EVIL, EVIL)]).count(ESCAPED) == 3


def test_markup_of_our_own_is_kept() -> None:
    """A bar in a table is a bar; a fraction beyond its ends is one of them."""
    assert '<progress value="0.5000" max="1"></progress> 50%' in facts_html("", [("backlog", bar_html(0.5))])
    assert 'value="1.0000"' in bar_html(7.0)


def test_it_is_right_in_light_and_dark() -> None:
    """Colours are the notebook's own, and nothing comes from elsewhere."""
    html = facts_html("title", [("name", details_html("more", "text"))]) + table_html(("a",), [(1,)])
    assert "color:inherit" in html and "#" not in html and "http" not in html and "src=" not in html


def test_values_of_secrets_are_not_shown() -> None:
    """Options whose names speak of secrets are told by name only."""
    assert not any(map(is_shown, ("kafka.sasl.jaas.config", "fs.s3a.secret.key", "fs.s3a.access.key", "authToken")))
    assert is_shown("path") and is_shown("checkpointLocation")
