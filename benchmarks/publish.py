"""Writes measured figures into ``benchmarks/README.md``, between markers, and draws ``growth.svg``.

What the results folder holds takes the place of what was published of the same measurement; all others stay.

python benchmarks/publish.py figures     # the targets and the tables of all ways, and the bars of the start page
python benchmarks/publish.py growth      # the tables and the picture of growth
"""

from __future__ import annotations

import sys
from pathlib import Path

import chart
import growth
from report import PROMISED_PRESET, markdown, targets_table, ways_table
from results import PUBLISHED, Measurement, load_all, results_folder, save

_HERE = Path(__file__).parent
README = _HERE / "README.md"
PICTURE = _HERE / "growth.svg"
#: Measurements that have tables of their own.
_APART = ("growth-", "peers-")


def between(text: str, name: str, lines: list[str]) -> str:
    """``text`` with what is between the markers of ``name`` replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"there is no {begin} … {end}")
    body = "\n".join(lines).strip("\n")
    return f"{head}{begin}\n\n{body}\n\n{end}{tail}"


def figures(measurements: list[Measurement]) -> list[str]:
    """The targets that something was measured for, then each measurement."""
    mine = [one for one in measurements if not one.name.startswith(_APART)]
    lines = [*markdown(targets_table(mine, unmeasured=False)), ""]
    for one in mine:
        lines += [f"**{one.title}**", "", provenance([one]), "", *markdown(ways_table(one)), ""]
        lines += [*(f"- {' '.join(note.split())}" for note in one.notes), ""]
    return lines


def growth_lines(measurements: list[Measurement]) -> list[str]:
    """The picture and a table for each job."""
    mine = [one for one in measurements if one.name.startswith("growth-")]
    growth.plot(mine, PICTURE)
    return [provenance(mine), "", f"![growth of a backlog's time]({PICTURE.name})", "", *growth.lines(mine)]


def provenance(measurements: list[Measurement]) -> str:
    """Where and when, and whether the machine did other things meanwhile."""
    if not measurements:
        raise ValueError("there is no measurement; run the benchmarks first")
    machines, presets = [one.machine for one in measurements], sorted({one.preset for one in measurements})
    last = max(machines, key=lambda machine: machine["at"])
    busy = sum(not machine["idle"] for machine in machines)
    idle = "an otherwise idle machine"
    if busy:
        idle = f"a machine that was busy with other things when {busy} of {len(machines)} measurements began"
    return (
        f"Sizes `{'`, `'.join(presets)}`, {last['cores']} cores of {idle}, Spark {last['spark']},"
        f" Python {last['python']}, {last['at'][:10]}."
    )


def main() -> None:
    """Publish what the results folder holds, beside what was published before."""
    what = sys.argv[1] if len(sys.argv) == 2 else ""
    makers = {"figures": figures, "growth": growth_lines}
    if what not in makers:
        raise SystemExit(f"usage: python {sys.argv[0]} {'|'.join(makers)}")
    measured = load_all()
    if any(one.preset != PROMISED_PRESET for one in measured):
        raise SystemExit(f"{results_folder()} holds measurements of other sizes than {PROMISED_PRESET!r}")
    for one in measured:
        save(one, PUBLISHED)
    README.write_text(between(README.read_text(), what, makers[what](load_all(PUBLISHED))))
    chart.main()


if __name__ == "__main__":
    main()
