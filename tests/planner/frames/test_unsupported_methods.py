"""What is not there says what to do instead; without a session."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import PlanError
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.frames.grouped import MixedGroupedData
from mixedmode.planner.frames.name_suggestions import no_attribute
from mixedmode.planner.frames.unsupported_methods import _OF_ALL_ROWS, _STATELESS, hint_for
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.planner.inputs.inputs import Inputs
from pyspark.sql import DataFrame


@pytest.fixture
def writer() -> MixedStreamWriter:
    return MixedStreamWriter(Inputs(()))


def test_the_hint_for_a_missing_method_is_one_that_works() -> None:
    """transform() is for what no stream keeps state for; all other methods have another way."""
    assert "transform(lambda frame: frame.lateralJoin(…))" in hint_for("lateralJoin")
    for name in {name for name in dir(DataFrame) if not name.startswith("_")} - set(_STATELESS):
        assert "transform(lambda" not in hint_for(name)
    assert "needs all rows at once" in hint_for("subtract")
    assert "nothing runs before writeStream.start(); use show of" in hint_for("show")


def test_no_hint_is_for_what_is_there() -> None:
    """Each is a method of some version of DataFrame, and none is one of ours."""
    names = [*_STATELESS, *_OF_ALL_ROWS]
    assert len(names) == len(set(names))
    assert [name for name in names if hasattr(MixedFrame, name)] == []
    assert sum(hasattr(DataFrame, name) for name in names) > len(names) - 5


def test_the_writer_names_the_output_modes_that_it_can_have(writer: MixedStreamWriter) -> None:
    """All three that Spark has."""
    with pytest.raises(PlanError, match=r"outputMode is 'apend'; use append, update or complete\n"):
        writer.outputMode("apend")


def test_the_stage_is_named_before_write_stream(writer: MixedStreamWriter) -> None:
    """uid() of the writer says so."""
    with pytest.raises(PlanError, match=r"uid\('x'\) names the keyed stage.*call it before writeStream"):
        writer.uid("x")


@pytest.mark.parametrize("path", [5, b"out", "", " "])
def test_what_is_no_path_is_named(writer: MixedStreamWriter, path: Any) -> None:
    """start() and optionsFile() take strings and os.PathLike."""
    with pytest.raises(ValueError, match=rf"path of start\(\) must be a path, as str or os.PathLike, got {path!r}"):
        writer.start(path)
    with pytest.raises(ValueError, match=rf"path of optionsFile\(\) must be a path, .* got {path!r}"):
        writer.optionsFile(path)


def test_a_misspelled_name_says_which_was_perhaps_meant(writer: MixedStreamWriter) -> None:
    """Of methods and of columns, in any case; what is like nothing is only not there, and hasattr() knows it."""
    described: Any = writer
    for name, meant in (("outputmode", "outputMode"), ("foreachbatch", "foreachBatch"), ("tiger", "trigger")):
        with pytest.raises(
            AttributeError, match=rf"MixedStreamWriter has no attribute '{name}'; did you mean {meant}\?"
        ):
            getattr(described, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'xyzzy'$"):
        described.xyzzy  # noqa: B018
    assert not hasattr(described, "outputmode")
    assert not hasattr(described, "_start")
    assert str(no_attribute(object.__new__(MixedFrame), "ammount", ["amount"])).endswith("did you mean amount?")
    assert str(no_attribute(object.__new__(MixedGroupedData), "appyInPandas")).endswith("did you mean applyInPandas?")
