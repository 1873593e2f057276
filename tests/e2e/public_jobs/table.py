"""The page of the public jobs: ``python -m public_jobs.table`` in ``tests/e2e`` writes it, and the README's figure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .catalogue import GROUPS, INSTEAD, figure, missing
from .shape import FUNCTION_SINKS, Shape

README = Path(__file__).resolve().parents[3] / "README.md"
PAGE = README.parent / "docs" / "public-jobs.md"

_ABOVE = """
# Public jobs, and what it takes to move them

**{figure}** stateful PySpark Structured Streaming queries from public code move to `mixedmode` by changing one line:
`spark.readStream…` becomes `mixedmode.read(history=…, live=…)`.

The queries were taken as searches gave them: repositories with streaming in their name, examples and test suites of
Spark itself, books, courses, vendors' pages. Each is written down as its shape, keys, windows, aggregates and what
comes before and after, in `tests/e2e/public_jobs/`; a test plans every shape, and runs one of each kind on rows such as
the job sees, against plain Spark. Sources that are not files (Kafka, sockets) are replaced by files with the same
columns, sinks that are not there ({replaced}) by `foreachBatch`.
"""


def page() -> str:
    """The whole page."""
    replaced = ", ".join(sink for sink in FUNCTION_SINKS if sink != "foreachBatch")
    lines = [_ABOVE.format(figure=figure(), replaced=replaced).strip()]
    for title, shapes in GROUPS.items():
        lines += ["", f"## {title}", "", "| job | what it does | mode, sink | by one line | what else has to change |"]
        lines += ["|---|---|---|---|---|", *map(_row, shapes)]
    return "\n".join(lines) + "\n"


def _row(shape: Shape) -> str:
    lacking = missing(shape)
    changes = "; ".join(INSTEAD[need] for need in lacking)
    cells = (
        _link(shape.reference),
        shape.facts,
        f"{shape.output_mode}, {shape.sink}",
        "no" if lacking else "yes",
        changes,
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _link(reference: str) -> str:
    found = re.match(r"(\S+?)(?=[:\s]|$)(.*)", reference)
    assert found is not None
    address, rest = found.groups()
    return f"[{address.removeprefix('github.com/')}](https://{address}){rest}"


def _main() -> Iterator[str]:
    PAGE.write_text(page())
    README.write_text(re.sub(r"\d+ of \d+(?= move by\s)", figure(), README.read_text()))
    yield f"{PAGE}, {README}: {figure()}"


if __name__ == "__main__":
    print(*_main(), sep="\n")
