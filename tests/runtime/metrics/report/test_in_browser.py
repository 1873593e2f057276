"""The run report in a headless Chromium: light and dark, wide and narrow, nothing asked of any network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import made_up_location
from mixedmode.planner.cli.report import write_report

_PROGRAMS = [shutil.which(name) for name in ("chromium", "chromedriver")]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        None in _PROGRAMS, reason="there is no Chromium here, or no ChromeDriver (Debian: chromium, chromium-driver)"
    ),
]

#: What each piece of text is drawn on, and its contrast to that (WCAG 2), but for labels in a coloured span.
_CONTRASTS = """
const texts = "h1, h2, h3, p, dt, dd, small, th, td, li, summary, pre, caption, span.badge, footer, svg text:not(.in)";
const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
const over = (top, below) => {
  const alpha = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map(i => top[i] * alpha + below[i] * (1 - alpha));
};
const light = color => {
  const [r, g, b] = color.map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = element => {
  const above = [];
  for (let one = element; one; one = one.parentElement) above.push(parse(getComputedStyle(one).backgroundColor));
  return above.reverse().reduce((below, top) => top.length ? over(top, below) : below, [255, 255, 255]);
};
const found = [];
for (const element of document.querySelectorAll(texts)) {
  const style = getComputedStyle(element), inDrawing = element.closest("svg") !== null;
  const color = parse(inDrawing ? style.fill : style.color).slice(0, 3), below = ground(element);
  const [one, other] = [light(color), light(below)].sort((a, b) => b - a);
  found.push([(one + 0.05) / (other + 0.05), element.tagName + ": " + element.textContent.trim().slice(0, 40)]);
}
return [found.length, found.filter(([contrast]) => contrast < 4.5)];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program, driver = _PROGRAMS
    assert program is not None and driver is not None
    options = webdriver.ChromeOptions()
    options.binary_location = program
    folder = tmp_path_factory.mktemp("browser")
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "window-size=1200,1000",
        f"user-data-dir={folder}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(str(made_up_location(folder / "job")), folder / "run.html", None)
    return folder / "run.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_looks_as_it_should(browser: Any, page: Path, scheme: str) -> None:
    """No error in the console, no request but for the page, charts that have a size, text that can be read."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get_log("performance")
    browser.get(page.as_uri())

    assert browser.get_log("browser") == []
    assert "spending <script>" in browser.title
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert set(asked) <= {page.as_uri(), "data:,"}

    sizes = browser.execute_script(
        "return [...document.querySelectorAll('svg.chart')].map(one => one.getBoundingClientRect())"
        ".map(box => [box.width, box.height])"
    )
    assert len(sizes) == 6 and all(width > 900 and height > 90 for width, height in sizes)
    lines = browser.execute_script(
        "return [...document.querySelectorAll('svg .line')].map(one => [one.getTotalLength(),"
        " getComputedStyle(one).stroke])"
    )
    assert len(lines) == 5 * 4 and all(length > 10 and stroke not in ("", "none") for length, stroke in lines)
    is_dark = "sum => sum < 200" if scheme == "dark" else "sum => sum > 600"
    ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => +a + +b)"
    assert browser.execute_script(f"return ({is_dark})({ground})")
    texts, illegible = browser.execute_script(_CONTRASTS)
    assert texts > 200 and illegible == []


@pytest.mark.slow
def test_the_page_fits_a_narrow_window(browser: Any, page: Path) -> None:
    """On a phone charts and tables are scrolled by themselves: the page is not wider than the window."""
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
