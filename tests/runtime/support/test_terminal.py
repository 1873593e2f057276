"""Plans on a terminal, and anywhere else."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode.runtime.support.terminal import print_plan, styled

PLAN = """== mixedmode plan ==
  sink     files
  warning  something
           is wrong

Phase 1 of 1: backlog
  why      rows [bold]wait[/bold]"""


def test_colours_change_no_word() -> None:
    """What is told apart by colour is the same text; a warning is one to its last line."""
    text = styled(PLAN)
    assert text.plain == PLAN
    styles = {text.plain[span.start : span.end].strip(): span.style for span in text.spans}
    assert (styles["== mixedmode plan =="], styles["sink"], styles["is wrong"]) == ("bold", "cyan", "yellow")


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe gets the text as it is, a terminal colours, unless NO_COLOR says no."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    print_plan(PLAN)
    assert capsys.readouterr().out == PLAN + "\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    print_plan(PLAN)
    coloured = capsys.readouterr().out
    assert "\x1b[" in coloured and "rows [bold]wait[/bold]" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    print_plan(PLAN)
    assert capsys.readouterr().out == PLAN + "\n"


def test_a_notebook_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell gets the text as HTML, with its headings and names told apart."""
    shown: list[Any] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda segments, text: shown.append((list(segments), text)))
    print_plan(PLAN)
    ((segments, _),) = shown
    assert "".join(segment.text for segment in segments).rstrip("\n") == PLAN
    assert {segment.text.strip(): str(segment.style) for segment in segments}["sink"] == "cyan"
