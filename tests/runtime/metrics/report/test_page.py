"""The run report, from made-up histories: one page that says all that the charts show, whatever names users give."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from event_support import RUN, a_run, began, common, epoch, phase, put
from made_up_runs import ERROR, NAME, made_up_location
from mixedmode.errors import QueryError
from mixedmode.events import Latencies, RealTimeProgressed
from mixedmode.planner.cli.report import write_report

_VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """A page, taken apart: raises if an element is not closed where it should be."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.html = path.read_text(encoding="utf-8")
        self.text = ""
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self._open: list[str] = []
        self.feed(self.html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if self._open[-1:] != ["style"] else ""

    def values(self, wanted: str) -> list[str]:
        return [value or "" for _, name, value in self.attributes if name == wanted]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Of four runs: backlog, switch and stream, a kill, a stop with a savepoint, a pause, a kill, a failure."""
    folder = tmp_path_factory.mktemp("report")
    location = made_up_location(folder / "job")
    assert write_report(str(location), folder / "run.html", None) == 4
    return Page(folder / "run.html")


def test_names_and_errors_are_text(page: Page) -> None:
    """What users and errors say is shown as it is, and never becomes a part of the page."""
    assert NAME in page.text and ERROR in page.text
    assert "script" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]


def test_the_page_needs_nothing_else(page: Page) -> None:
    """No address of anything is in it, and its policy forbids to load any."""
    assert not re.search(r"https?://|@import|url\((?!#)", page.html)
    assert set(page.values("href")) == {"data:,"} and not page.values("src")
    (policy,) = [value for value in page.values("content") if "default-src" in value]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_every_chart_is_told_in_words(page: Page) -> None:
    """Each picture has a title and a description, each chart a table below it; ids are there, and once."""
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    labels = [reference for value in page.values("aria-labelledby") for reference in value.split()]
    assert labels and set(labels) <= set(ids)
    charts = ["Rows per second", "Watermark lag", "Micro-batch duration", "Checkpoint duration", "State size"]
    for title in charts:
        assert f"{title} over time" in page.text and f"{title} as a table" in page.text
    assert page.tags.count("details") == len(charts)
    assert "2026-11-20 21:01:35" in page.text


def test_runs_shards_and_events_are_listed(page: Page) -> None:
    """How each run ended, that of the two killed ones, too; the slowest shard first; the newest event first."""
    assert page.text.count("killed, or not reachable any more, in phase live") == 2
    assert "stopped: with savepoint s3://savepoints/2026-11-20" in page.text
    assert "3 ended badly" in page.text
    shards = page.text.index("Slowest shards")
    assert page.text.index("1.13 min", shards) < page.text.index("52.8 s", shards)
    assert "live isBacklog=false after epoch 1: all that waited is read" in page.text
    assert "rotations (stage, Rotations, by tailnum, on ts, delay 1 h" in page.text
    assert "takes from history (input), live (input)" in page.text


def test_what_is_drawn_is_inside(page: Page) -> None:
    """Every picture is well-formed, and no place in it is outside of it, nor no number."""
    drawings = re.findall(r"<svg class=\"chart\".*?</svg>", page.html, re.DOTALL)
    assert len(drawings) == 6
    for drawing in drawings:
        root = ET.fromstring(drawing.replace("&times;", "x"))
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for element in root.iter():
            xs = [float(element.attrib[name]) for name in ("x", "x1", "x2", "cx") if name in element.attrib]
            ys = [float(element.attrib[name]) for name in ("y", "y1", "y2", "cy") if name in element.attrib]
            for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", element.attrib.get("d", "")):
                xs.append(float(x))
                ys.append(float(y))
            assert all(-1 <= x <= width for x in xs) and all(-1 <= y <= height for y in ys), element.attrib


def test_only_the_last_hours(tmp_path: Path) -> None:
    """A part of the history has the runs of that time, from then on; none of it is an error."""
    location = a_run(tmp_path / "job", RUN, 1_000)
    put(location.part(1), began(1_000), phase("live", 2_000), epoch(1, 3_000))
    with pytest.raises(QueryError, match="nothing ran"):
        write_report(str(tmp_path / "job"), tmp_path / "run.html", 60_000)
    assert write_report(str(tmp_path / "job"), tmp_path / "run.html", None) == 1


def test_runs_that_left_little_are_shown(tmp_path: Path) -> None:
    """A run that has only begun, one without epochs, and one whose beginning is gone make a page as well."""
    for number, events in enumerate(
        ([began(5_000)], [began(5_000), phase("backlog", 5_001)], [epoch(1, 5_000)], [epoch(1, 5_000), epoch(2, 5_000)])
    ):
        folder = tmp_path / str(number)
        put(a_run(folder / "job", RUN, 5_000).part(1), *events)
        write_report(str(folder / "job"), folder / "run.html", None)
        assert "Slowest shards" in Page(folder / "run.html").text


def test_no_history_is_said(tmp_path: Path) -> None:
    """A location of an earlier version has none."""
    (tmp_path / "mixedmode").mkdir()
    with pytest.raises(QueryError, match="has no history"):
        write_report(str(tmp_path), tmp_path / "run.html", None)


def test_latencies_are_drawn_where_there_are_some(tmp_path: Path, page: Page) -> None:
    """Of a job in Real-Time Mode: within its epochs, and of an epoch itself if nothing was told within it."""
    assert "latency" not in page.values("id")
    told = [
        RealTimeProgressed(
            **common(at_ms),
            epoch=1,
            elapsed_s=at_ms / 1000 - 19,
            rows=rows,
            rows_per_second=1.0,
            latencies=Latencies(p50_ms=5, p99_ms=p99_ms, max_ms=100),
        )
        for at_ms, rows, p99_ms in ((20_000, 123, 31), (40_000, 123 + 20 * 456, 47))
    ]
    ends = [
        epoch(number, at_ms, input_rows=input_rows, latencies=Latencies(p50_ms=6, p99_ms=p99_ms, max_ms=100))
        for number, at_ms, input_rows, p99_ms in (
            (1, 61_000, 123 + 20 * 456 + 21 * 789, 83),
            (2, 121_000, 60, 97),
        )
    ]
    put(a_run(tmp_path).part(1), began(), phase("live", 1_000), *told, *ends)
    write_report(str(tmp_path), tmp_path / "page.html", None)
    found = Page(tmp_path / "page.html")
    assert "latency" in found.values("id")
    for shown in ("31 ms", "47 ms", "97 ms", "123/s", "456/s", "789/s", "1/s", "p99 97 ms, of the last epoch"):
        assert shown in found.text, shown
    assert "83 ms" not in found.text, "of the first epoch the seconds are drawn"
