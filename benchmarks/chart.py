"""Draws ``docs/backlog.svg``, the bars of the start page, from the figures that ``benchmarks/README.md`` publishes.

python benchmarks/chart.py

It is an SVG of our own: its colours follow whether the reader's screen is light or dark, and it has a ground of its own
where a page does not say.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

_HERE = Path(__file__).parent
FIGURES = _HERE / "README.md"
PICTURE = _HERE.parent / "docs" / "backlog.svg"

#: The measurement whose ways are drawn, by the beginning of its title.
MEASUREMENT = "Backlog, aggregate"
#: The bars from top to bottom: the way's name in the table, the bar's name, whether it is the one to look at.
BARS = (
    ("stock, ten micro-batches", "Structured Streaming", False),
    ("streaming, ten micro-batches", "mixedmode, streaming", False),
    ("mixed", "mixedmode, mixed", True),
    ("plain batch", "Spark batch, no state kept", False),
)

_WIDTH, _LEFT, _RIGHT = 760, 250, 70
_TOP, _STEP, _BAR = 64, 40, 24
_STYLE = """
.ground{fill:#fff;stroke:#d0d7de}.text{fill:#1f2328}.soft{fill:#59636e}.bar{fill:#8c959f}.ours{fill:#0969da}
@media (prefers-color-scheme:dark){
.ground{fill:#0d1117;stroke:#3d444d}.text{fill:#f0f6fc}.soft{fill:#9198a1}.bar{fill:#656c76}.ours{fill:#4493f8}}
text{font:15px system-ui,sans-serif}.title{font-weight:600}.soft{font-size:13px}
"""


def seconds_of(text: str, measurement: str) -> tuple[str, dict[str, float]]:
    """The title of a published measurement, and the median seconds of each of its ways.

    Raises:
        ValueError: The text has no such measurement.
    """
    lines = iter(text.splitlines())
    title = next((line.strip("*") for line in lines if line.startswith(f"**{measurement}")), None)
    if title is None:
        raise ValueError(f"no measurement begins with {measurement!r}")
    found: dict[str, float] = {}
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[1][:1].isdigit():
            found[cells[0]] = float(cells[1])
        elif found:
            break
    return title, found


def svg(text: str) -> str:
    """The picture of the figures in ``text``."""
    title, seconds = seconds_of(text, MEASUREMENT)
    longest = max(seconds[way] for way, _, _ in BARS)
    height = _TOP + _STEP * len(BARS) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        ' role="img">',
        f"<title>{escape(title)}: seconds until the backlog is done</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="text title" x="20" y="30">Keyed sums: {escape(title.partition(": ")[2])}</text>',
        '<text class="soft" x="20" y="50">seconds on two cores, streams in ten micro-batches; shorter is better</text>',
    ]
    for place, (way, name, ours) in enumerate(BARS):
        y = _TOP + place * _STEP
        width = (_WIDTH - _LEFT - _RIGHT) * seconds[way] / longest
        kind = "ours" if ours else "bar"
        weight = " title" if ours else ""
        parts += [
            f'<text class="text{weight}" x="20" y="{y + 18}">{escape(name)}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="3"/>',
            f'<text class="text{weight}" x="{_LEFT + width + 8:.1f}" y="{y + 18}">{seconds[way]:.1f} s</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Draw it."""
    PICTURE.write_text(svg(FIGURES.read_text()))


if __name__ == "__main__":
    main()
