"""What is stored in the repository: stock's results of each job by the hash of what makes them, and the verdicts."""

from __future__ import annotations

import ast
import gzip
import hashlib
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import pyspark

from . import files
from .job import Job
from .results import Results
from .run import SESSION
from .verdicts import Stock, Verdict

_HERE = Path(__file__).parent
STOCK = _HERE / "stock"
MEASURED = _HERE / "measured.json"
#: Of the stored form and of the rules of comparison: greater, and everything is computed again.
_VERSION = 1
_PACKAGE = __package__ or ""


def key_of(job: Job) -> str:
    """A hash of all that stock's results depend on: the job's source, its rows, and Spark's version."""
    outputs = [
        [one.mode, one.sink, one.keys, one.ordered, one.ignored, _source(one.holds) if one.holds else ""]
        for one in job.outputs
    ] + ([job.timeouts] if job.timeouts else [])
    inputs = {
        name: [source.schema, source.format, dict(source.options), source.end, files.rows_of(job, name)]
        for name, source in {**job.inputs, **job.tables}.items()
    }
    rest = [_VERSION, pyspark.__version__, files.FILES, SESSION, dict(job.session), outputs, inputs]
    return hashlib.sha256(json.dumps([_source(job.function), rest]).encode()).hexdigest()[:32]


def stored(job: Job) -> Stock | None:
    """Stock's results, if they were stored for the job as it is now."""
    path = _path(job)
    if not path.exists():
        return None
    read = json.loads(gzip.decompress(path.read_bytes()))
    if read["key"] != key_of(job):
        return None
    return Stock([Results(tuple(columns), tuple(rows)) for columns, rows in read["results"]], read["cuts"])


def store(job: Job, stock: Stock) -> None:
    """Store stock's results; the same results make the same file."""
    found = {"key": key_of(job), "cuts": stock.cuts, "results": [[one.columns, one.rows] for one in stock.results]}
    _path(job).parent.mkdir(exist_ok=True)
    _path(job).write_bytes(gzip.compress(json.dumps(found, separators=(",", ":")).encode(), mtime=0))


def verdicts() -> dict[str, Verdict]:
    """The measured verdicts by job."""
    if not MEASURED.exists():
        return {}
    return {name: Verdict(one["verdict"], one.get("reason", "")) for name, one in _read(MEASURED).items()}


def store_verdicts(found: Mapping[str, tuple[Verdict, int]], names: set[str]) -> None:
    """Store verdicts and numbers of compared rows beside those of earlier runs; jobs that are no more are dropped.

    Args:
        found: by the name of the job.
        names: of all jobs.
    """
    every = _read(MEASURED) if MEASURED.exists() else {}
    for name, (verdict, rows) in found.items():
        every[name] = {"verdict": verdict.kind, "rows": rows} | ({"reason": verdict.reason} if verdict.reason else {})
    kept = {name: every[name] for name in sorted(every) if name in names}
    MEASURED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def _path(job: Job) -> Path:
    return STOCK / f"{job.name}.json.gz"


def _source(function: Any) -> str:
    """The source of a function or class, and of all that it uses of this package."""
    found: dict[str, str] = {}
    _collect(function, found)
    return "\n".join(found[name] for name in sorted(found))


def _collect(thing: Any, found: dict[str, str]) -> None:
    name = f"{thing.__module__}.{thing.__qualname__}"
    if name in found or not thing.__module__.startswith(_PACKAGE):
        return
    found[name] = _plain_source(thing)
    for base in thing.__mro__[1:] if inspect.isclass(thing) else ():
        _collect(base, found)
    for function in _functions(thing):
        for used in _names(function.__code__):
            value = function.__globals__.get(used)
            if inspect.isfunction(value) or inspect.isclass(value):
                _collect(value, found)
            elif value is not None and not inspect.ismodule(value) and " at 0x" not in repr(value):
                found[f"{function.__module__}.{used}"] = repr(value)


def _plain_source(thing: Any) -> str:
    """Its source without layout, comments, decorators and docstrings."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.decorator_list = []
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _functions(thing: Any) -> Iterator[Any]:
    if inspect.isclass(thing):
        yield from (value for value in vars(thing).values() if inspect.isfunction(value))
    else:
        yield thing


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
