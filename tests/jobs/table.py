"""The page of the public jobs, made from the measured verdicts: ``python -m jobs.table`` in ``tests`` writes it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .catalogue import GROUPS, JOBS
from .files import FILES, OF_HISTORY
from .job import Job
from .kept import verdicts
from .results import DIGITS
from .run import OURS
from .verdicts import AS_ONE_FILE, DEPENDS, DIFFERS, MORE_LINES, MORE_PARTITIONS, PARTITIONS, REFUSED, SAME, Verdict

README = Path(__file__).resolve().parents[2] / "README.md"
PAGE = README.parent / "docs" / "public-jobs.md"
_FIGURE = re.compile(r"\d+ of \d+(?= of them give the same\s+results)")
_UNKNOWN = Verdict("not measured", "run make test-jobs")
#: The verdicts in the order of the summary, and what they mean.
_MEANINGS = {
    SAME: "The job gives the results of stock Spark, and only the `read` line changes.",
    MORE_LINES: "The job gives the results of stock Spark, but other lines have to change, too; the table lists them.",
    REFUSED: "`mixedmode` raises an error at or before `start()`. The table shows its message.",
    DEPENDS: "Stock Spark itself gives other results with other micro-batches. This counts as not the same."
    " {as_one_file} of these jobs give on `mixedmode` what stock Spark gives with micro-batches of one file.",
    PARTITIONS: "Stock Spark itself keeps other rows with another `spark.sql.shuffle.partitions`. `mixedmode` gives"
    " as many rows, and others only in place of these. This counts as not the same.",
    DIFFERS: "The results differ, or the query fails. The table shows the first rows.",
}
_REASON_LIMIT = 300
#: Of the public jobs, to be the same by one line.
_TARGET = 0.95

_ABOVE = """
# Public jobs, run on stock Spark and on mixedmode

**{same}** stateful PySpark Structured Streaming queries from public code give the same results on
`mixedmode` as on stock Spark when only one line changes: `spark.readStream…` becomes
`mixedmode.read(history=…, live=…)`.
Of the jobs of a third list, which follow shapes of courses and notebooks and not one page each, the same holds for
**{same_third}**.

{target}

| verdict | public jobs | third list | meaning |
|---|---|---|---|
{summary}

## How it is measured

1. Each job is a function in `tests/jobs/public/`. It does the same operations in the same order as the public query,
   with the same kinds of columns, windows, watermarks, output modes and sinks. No text is copied.
2. Stock Spark and `mixedmode` run **the same function**. Only the call that reads an input differs.
3. A seeded generator makes the rows of each input, in event-time order, and writes them into {files} files. Stock Spark
   reads one file per micro-batch (`maxFilesPerTrigger=1`) with `trigger(availableNow=True)`.
4. For `mixedmode` the first {history} files are the history. The other files arrive when the job is live, and the live
   source reads one file per micro-batch. A job that its author runs with `availableNow` or `once` runs twice: once over
   the history, once over the rest.
5. All options of `mixedmode` have their defaults, except {options}.
   These options change how soon results come, not which.
6. The results are compared as the user of the sink sees them: in append mode all rows, in update mode the last value of
   each key, in complete mode the last table. A window that stock Spark has not closed at the end of the input must be
   open in `mixedmode`, too. Floats are compared to {digits} digits. Columns of the current time are left out.
7. The verdict is computed from the results. Nobody types it. Stock Spark runs with three files per micro-batch, too. If
   the results of `mixedmode` differ, stock Spark runs once more with all files in one micro-batch, and with
   micro-batches of a few rows. A job "depends on cuts" if these runs differ: in the second case each row that only one
   side has must be one that stock Spark has with one of its cuts and lacks with another. If that is not so, stock Spark
   runs with {partitions} shuffle partitions. A job "depends on partitions" if stock Spark then has other rows in place
   of each that differs, and `mixedmode` gives as many rows.

Only sources, sinks and paths may be replaced; the table lists each replacement. If a sink is "collected", a
`foreachBatch` function collects its rows. Before that, `mixedmode` must accept the query with the sink that its author
wrote. Every other difference from the public query counts as "more lines".

`make test-jobs` runs all jobs and updates this page. It reads stock Spark's results from `tests/jobs/stock/`, where
they are stored under a hash of the job's source, its rows and Spark's version. `make test-jobs REFRESH=1` computes
them again. If a job was the same before and is not any more, the suite fails.

## How the jobs were chosen

{lists}
"""
#: The lists of jobs, by the word in ``Job.listed``.
LISTS = {
    "first": "The queries were taken as searches gave them: repositories with streaming in their name, examples and"
    " test suites of Spark, books, courses and pages of vendors. They were written down before `mixedmode` ran them.",
    "second": "Listed and committed before the first of them was run, in `tests/jobs/new_jobs.json`; none has been"
    " dropped. `tests/jobs/new_jobs.md` says how they were chosen: repositories in the order of searches for names, the"
    " code of books and courses, and what searches for operators found.",
    "third": "Written from memory after shapes that courses, vendors' notebooks, books and answers to questions show"
    " again and again; no single page is their source. Listed and committed before the first of them was run, in"
    " `tests/jobs/new_jobs.json`; none has been dropped.",
    "sql": "Statements in SQL over views of streams, listed and committed before the first of them was run, in"
    " `tests/jobs/sql_jobs.json`; none has been dropped. `tests/jobs/sql_jobs.md` says how they were chosen: notebooks,"
    " repositories, and the examples of Spark's documentation and suites.",
}
#: The jobs that were found in public.
PUBLIC = [job for job in JOBS if job.listed != "third"]


def page() -> str:
    """The whole page."""
    found = verdicts()
    counts, counts_third = (
        Counter(found.get(job.name, _UNKNOWN).kind for job in JOBS if (job in PUBLIC) is is_public)
        for is_public in (True, False)
    )
    head = _ABOVE.format(
        same=_share(PUBLIC),
        same_third=_share([job for job in JOBS if job not in PUBLIC]),
        target=_target(counts),
        summary="\n".join(
            f"| {kind} | {counts[kind]} | {counts_third[kind]} | {meaning} |"
            for kind, meaning in _meanings(counts + counts_third).items()
        ),
        files=FILES,
        history=OF_HISTORY,
        digits=DIGITS,
        partitions=" and with ".join(map(str, MORE_PARTITIONS)),
        options=", ".join(f"`{name}` = {value}" for name, value in OURS.items()),
        lists="\n".join(f"- **{listed}** ({_listed(listed)} jobs): {text}" for listed, text in LISTS.items()),
    )
    lines = [head.strip()]
    for title, jobs in GROUPS.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| job | what it does | mode, sink | replaced | verdict |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(job, found.get(job.name, _UNKNOWN)) for job in jobs]
    return "\n".join(lines) + "\n"


def _target(counts: Counter[str]) -> str:
    """By how much the target is missed, and which of the missing jobs could be the same at all."""
    needed, same = math.ceil(_TARGET * len(PUBLIC)), counts[SAME]
    target = f"The target is {round(100 * _TARGET)} %: {needed} of the {len(PUBLIC)} public jobs."
    if same >= needed:
        return target
    rest, two_results = len(PUBLIC) - same, counts[DEPENDS] + counts[PARTITIONS]
    which = f"all {rest}" if rest == two_results else f"{two_results} of the {rest}"
    most = len(PUBLIC) - two_results
    return (
        f"{target} {needed - same} are missing. In {which} other jobs stock Spark itself has two\nresults:"
        f" {counts[DEPENDS]} with other micro-batches, {counts[PARTITIONS]} with another number of shuffle partitions."
        " Whatever `mixedmode` gives there,\nit differs from one of the two, and the job counts as not the same. So the"
        f" most that this list allows is {most} of {len(PUBLIC)}\n({round(100 * most / len(PUBLIC))} %)."
    )


def figure() -> str:
    """How many public jobs give the same results by one line."""
    return f"{_same(PUBLIC)} of {len(PUBLIC)}"


def _share(jobs: Sequence[Job]) -> str:
    same = _same(jobs)
    return f"{same} of {len(jobs)} ({round(100 * same / len(jobs))} %)"


def _same(jobs: Sequence[Job]) -> int:
    found = verdicts()
    return sum(found.get(job.name, _UNKNOWN).kind == SAME for job in jobs)


def figures_of(readme: str) -> list[str]:
    """The figures that a README gives."""
    return _FIGURE.findall(readme)


def _meanings(counts: Counter[str]) -> dict[str, str]:
    as_one_file = sum(one.reason.startswith(AS_ONE_FILE) for one in verdicts().values())
    meanings = {kind: meaning.format(as_one_file=as_one_file) for kind, meaning in _MEANINGS.items()}
    if not counts[_UNKNOWN.kind]:
        return meanings
    return {**meanings, _UNKNOWN.kind: "The job is new. It counts as not the same until `make test-jobs` has run it."}


def _listed(name: str) -> int:
    return sum(job.listed == name for job in JOBS)


def _row(job: Job, verdict: Verdict) -> str:
    modes = "; ".join(f"{output.mode}, {output.sink}" for output in job.outputs)
    reason = " ".join(verdict.reason.split())
    short = reason if len(reason) <= _REASON_LIMIT else f"{reason[:_REASON_LIMIT]}…"
    said = f"**{verdict.kind}**" + (f": {_escaped(short)}" if short else "")
    cells = [_link(job), _cell(job.facts), modes, _cell("; ".join(job.replaced)), said.replace("|", "\\|")]
    return f"| {' | '.join(cells)} |"


def _link(job: Job) -> str:
    if job.listed == "third":
        return _cell(job.address)
    found = re.match(r"(\S+?)(?=[:\s]|$)(.*)", job.address)
    assert found is not None
    address, rest = found.groups()
    commit = f" ({job.commit[:10]})" if job.commit else ""
    return f"[{address.removeprefix('github.com/')}](https://{address}){_cell(rest)}{commit}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", text)


def write() -> str:
    """Write the page and the README's figure."""
    PAGE.write_text(page())
    README.write_text(_FIGURE.sub(figure(), README.read_text()))
    return f"{PAGE.name}, {README.name}: {figure()}"


if __name__ == "__main__":
    print(write())
