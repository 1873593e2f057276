"""Codes of errors: each is one that the page on troubleshooting knows, and stays with its error on its ways."""

from __future__ import annotations

import ast
import pickle
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import mixedmode
import pytest
from mixedmode import errors
from mixedmode.errors import CheckpointError, CorruptStateError, MixedModeError, OptionError
from mixedmode.planner.options.layers import Layer, resolve_options
from mixedmode.runtime.jvm.jvm_loss import links
from mixedmode.runtime.jvm.worker_errors import translate
from pyspark.errors import PySparkRuntimeError

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("planner", "runtime", "sorter", "state")
PAGE = ROOT / "docs" / "troubleshooting.md"


def trees() -> Iterator[ast.Module]:
    """The package's files."""
    for path in [*ROOT.glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]:
        yield ast.parse(path.read_text())


def given_codes() -> Iterator[str]:
    """Every code that a class has, or a place that raises gives."""
    for node in (node for tree in trees() for node in ast.walk(tree)):
        values: list[ast.expr | None] = [node.value] if isinstance(node, ast.keyword) and node.arg == "code" else []
        if isinstance(node, ast.ClassDef):
            assigned = [one for one in node.body if isinstance(one, (ast.Assign, ast.AnnAssign))]
            values = [one.value for one in assigned if ast.unparse(one).startswith("code")]
        for value in values:
            if isinstance(value, ast.Constant) and str(value.value).startswith("MIXEDMODE_"):
                yield str(value.value)


def all_classes() -> set[type[MixedModeError]]:
    """The error tree, with classes outside ``errors.py``."""
    import mixedmode.runtime.spark_io.spark_kafka  # noqa: F401

    found, more = set(), {MixedModeError}
    while more:
        one = more.pop()
        found.add(one)
        more |= set(one.__subclasses__())
    return {one for one in found if one.__module__.startswith("mixedmode.")}


def test_every_code_has_its_entry_and_every_entry_its_code() -> None:
    """The page has one entry for each code in the package, with cause and cure, and no other."""
    text = PAGE.read_text()
    entries = re.findall(r"^### (MIXEDMODE_\w+)\n\n(.+?)(?=^##|\Z)", text, re.M | re.S)
    names = [name for name, _ in entries]
    assert len(names) == len(set(names))
    assert set(names) == set(given_codes())
    assert [name for name, told in entries if len(told.split()) < 8] == []


def test_every_public_class_has_its_section() -> None:
    """The page has a section for each error class that users may catch, which begins with the class's own code."""
    text = PAGE.read_text()
    public = {one for one in all_classes() if one.__name__ in mixedmode.__all__}
    assert len(public) > 10
    for one in public:
        section = text.partition(f"\n## {one.__name__}\n")[2]
        assert re.search(r"^### (\w+)", section, re.M)[1] == one.code, one.__name__  # type: ignore[index]


def test_every_class_has_a_code_of_its_own() -> None:
    """No two classes of ``errors.py`` have one code, and each says its own."""
    own = [vars(one)["code"] for one in vars(errors).values() if isinstance(one, type)]
    assert len(own) == len(set(own))


def test_a_finer_code_stays_with_its_error() -> None:
    """A finer code is that of the one error, is shown below its message, and is there behind pickle."""
    plain, finer = OptionError("x"), OptionError("y", code="MIXEDMODE_OPTION_UNKNOWN")
    assert (plain.code, finer.code) == ("MIXEDMODE_OPTION_INVALID", "MIXEDMODE_OPTION_UNKNOWN")
    assert str(finer) == "y"
    again = pickle.loads(pickle.dumps(finer))
    assert (type(again), str(again), again.code, again.__notes__) == (
        OptionError,
        "y",
        "MIXEDMODE_OPTION_UNKNOWN",
        ["[MIXEDMODE_OPTION_UNKNOWN]"],
    )


@pytest.mark.parametrize("notes", [True, False], ids=["with notes", "as of Python 3.10"])
def test_a_code_comes_back_from_a_worker(notes: bool) -> None:
    """What a worker raised is itself again in the driver, with its code if the worker's Python shows notes."""
    raised = CorruptStateError("file x\nis gone", code="MIXEDMODE_STATE_CORRUPT_X")
    shown = "".join(traceback.format_exception(raised)).rstrip()
    lines = [line for line in shown.splitlines() if notes or not line.startswith("[")]
    again = translate(RuntimeError("\n".join(["Job aborted", *lines, "", "Driver stacktrace:"])))
    assert (type(again), str(again)) == (CorruptStateError, "file x\nis gone")
    if sys_has_notes() and notes:
        assert again.code == "MIXEDMODE_STATE_CORRUPT_X"  # type: ignore[attr-defined]
    else:
        assert again.code == "MIXEDMODE_STATE_CORRUPT"  # type: ignore[attr-defined]


def sys_has_notes() -> bool:
    """Whether this Python shows notes."""
    return hasattr(Exception, "add_note")


def test_an_option_that_is_unknown_says_so_by_its_code() -> None:
    """A misspelled option and a bad value are told apart by their codes."""
    with pytest.raises(OptionError) as unknown:
        resolve_options(Layer("test", {"execution.runtime-mod": "mixed"}))
    with pytest.raises(OptionError) as bad:
        resolve_options(Layer("test", {"execution.runtime-mode": "mixd"}))
    assert (unknown.value.code, bad.value.code) == ("MIXEDMODE_OPTION_UNKNOWN", "MIXEDMODE_OPTION_INVALID")


def test_a_class_below_has_its_own_code() -> None:
    """A subclass outside ``errors.py`` has its own code, not that of the class above."""
    lost = next(one for one in all_classes() if one.__name__ == "NoSuchTopic")
    assert lost.code == "MIXEDMODE_TOPIC_UNKNOWN"
    assert CheckpointError("x").code == "MIXEDMODE_CHECKPOINT_FAILED"


def test_every_error_of_a_task_comes_back_as_what_it_is() -> None:
    """Whatever of ``errors.py`` a task raised, and whoever waits for the query can catch it by its class."""
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, MixedModeError)]
    assert mixedmode.AggregateOverflowError in kinds
    for kind in kinds:
        if issubclass(kind, errors.StopTimeoutError):
            continue  # of the handle alone
        assert getattr(mixedmode, kind.__name__) is kind and kind.__name__ in mixedmode.__all__
        shown = "".join(traceback.format_exception(kind("column s: sum(v) overflows")))
        failed = errors.query_error("query q failed", translate(RuntimeError(f"Job aborted\n{shown}\n")))
        assert isinstance(failed, kind) and failed.code == kind.code
        assert str(failed.__cause__) == "column s: sum(v) overflows"


def test_a_query_fails_with_an_error_that_is_its_causes_kind_too() -> None:
    """``except UserCodeError`` around ``awaitTermination()`` catches a failing processor, or what showed the output;
    ``except QueryError`` catches all of them, in other processes, too."""
    cause = errors.UserCodeError("a")
    shown = CheckpointError("b", code="MIXEDMODE_OUTPUT_NOT_SHOWN")
    shown.__cause__ = cause
    for behind, kinds in [
        (cause, (errors.UserCodeError,)),
        (shown, (CheckpointError, errors.UserCodeError)),
        (OptionError("c"), (OptionError, ValueError)),
        (OSError("d"), ()),
        (errors.QueryError("e"), ()),
        (errors.StopTimeoutError("f"), ()),
    ]:
        told = errors.query_error("query q failed: x", behind)
        assert isinstance(told, (errors.QueryError, RuntimeError)) and all(isinstance(told, kind) for kind in kinds)
        assert type(told).__name__ == "QueryError" and told.__cause__ is behind
        assert told.code == getattr(behind, "code", errors.QueryError.code)
        again = pickle.loads(pickle.dumps(told))
        assert (type(again), str(again), again.code) == (type(told), "query q failed: x", told.code)


def test_what_python_prints_of_a_failed_query_fits_a_screen() -> None:
    """Spark's errors hold Java's stacks: one is kept as context, and Python prints the errors above it only."""
    spark, short = RuntimeError("An error occurred\n" + "\tat org.apache.spark.X(X.java:1)\n" * 500), OSError("disk")
    live = errors.QueryError("a.parquet is damaged\nin Spark's query of the live input")
    live.__cause__ = spark
    ours = RuntimeError("no route")
    ours.__cause__ = PySparkRuntimeError("=== Streaming Query ===")
    for cause, behind in [(spark, spark), (live, spark), (ours, ours.__cause__), (short, short)]:
        told = errors.query_error("query q failed: a.parquet is damaged", cause)
        printed = "".join(traceback.format_exception(told))
        assert printed.count("\n") < 20 and "failed: a.parquet is damaged" in printed, printed
        assert "===" not in printed and ("disk" in printed) == (cause is short)
        assert behind in set(links(told)), "whoever needs it finds it"
    assert errors.query_error("q", live).__cause__ is live
