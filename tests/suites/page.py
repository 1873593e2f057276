"""The page of Spark's own suites, made from all tables beside this file: ``python -m suites.page`` in ``tests``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .catalogue import Listed, tables

PAGE = Path(__file__).parents[2] / "docs" / "spark-suites.md"
#: In the order of the page, and what they mean.
VERDICTS = {
    "same": "`mixedmode` gives what stock Spark gives, as a stream and with the first micro-batches as history."
    " Where Spark's test expects an error, both raise one.",
    "refused": "`mixedmode` raises an error at or before `start()`; stock Spark runs the query.",
    "differs": "The results differ.",
    "not run": "Nobody has compared it yet.",
    "excluded": "The test is not about a query's results, or nothing of it can be written in PySpark.",
}

_ABOVE = """
# Spark's own suites, run on stock Spark and on mixedmode

**{same} of {counted} ({percent} %)** tests of Spark's own streaming suites that are about a query's results give the
same on `mixedmode` as on stock Spark. {excluded} further tests of these suites are excluded.

| verdict | tests | meaning |
|---|---|---|
{summary}

## How it is measured

1. The tests are those of Apache Spark {spark}, run on PySpark 4.3.0. Each is written anew in PySpark: the same
   operations, the same rows in the same micro-batches, the same restarts and session settings. No text is copied.
2. Stock Spark runs the query over the micro-batches. Where Spark runs a micro-batch without rows behind one with rows,
   so do we: by empty files. One test has none, as Spark's optimizer looks into them: there each step is a run of its
   own.
3. `mixedmode` runs the same query twice: as a stream over the same micro-batches, and with the first one or two
   micro-batches as history.
4. The sink's contents at the end are compared: in append mode all rows, in update mode the last row of each key, in
   complete mode the last table.
5. Where Spark's test starts another query over the old checkpoint (another processor, mode, setting or schema), so do
   both sides.
6. Where Spark runs a test several times with other formats or implementations of its state, it is one test here.
7. Tests about files, about tables in memory and about runs that end by themselves are programs of their own beside the
   cases. Stock Spark and `mixedmode` run the same program; the rows of each call, or the files, are compared.
8. If the results of a processor with timers differ, the reason also compares them over the rows in event-time order,
   each event time a micro-batch.

`make test-suites` runs all cases and makes this page. `tests/suites/*.json` lists every test with its verdict.

## Suites
"""


def page(rows: Sequence[Listed], spark: str = "4.2.0") -> str:
    """The page's text."""
    total = Counter(row["verdict"] for row in rows)
    counted = sum(total.values()) - total["excluded"]
    above = _ABOVE.format(
        same=total["same"],
        counted=counted,
        percent=round(100 * total["same"] / counted, 1) if counted else 0,
        excluded=total["excluded"],
        spark=spark,
        summary="\n".join(f"| {name} | {total[name]} | {meaning} |" for name, meaning in VERDICTS.items()),
    )
    lines = [above.strip(), "", f"| suite | {' | '.join(VERDICTS)} |", f"|---|{'---|' * len(VERDICTS)}"]
    for suite in dict.fromkeys(row["suite"] for row in rows):
        found = Counter(row["verdict"] for row in rows if row["suite"] == suite)
        lines.append(f"| {suite} | {' | '.join(str(found[name]) for name in VERDICTS)} |")
    for name, title in (
        ("differs", "Differences"),
        ("refused", "Refused queries"),
        ("not run", "Tests that were not run"),
        ("excluded", "Excluded tests"),
    ):
        listed = [row for row in rows if row["verdict"] == name]
        if listed:
            lines += ["", f"## {title}", "", "| suite | test | reason |", "|---|---|---|"]
            lines += [f"| {row['suite']} | {_cell(row['test'])} | {_cell(row['reason'])} |" for row in listed]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page([row for table in tables().values() for row in table]))
