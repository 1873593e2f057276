"""Staged output is found again by what its columns are."""

from __future__ import annotations

import pytest
from mixedmode.errors import CheckpointMismatchError
from mixedmode.runtime.connectors.staged_form import StagedColumn, StagedForm, columns_of, sources_of
from mixedmode.runtime.connectors.transaction import SinkTransaction
from pyspark.sql.types import ArrayType, DecimalType, StructType

WHERE = "the output of checkpoint 3"


def computed(**identities: str) -> tuple[StagedColumn, ...]:
    return tuple(StagedColumn(name=name, type="long", identity=what, text=what) for name, what in identities.items())


def named(ddl: dict[str, str]) -> tuple[StagedColumn, ...]:
    return tuple(StagedColumn(name=name, type=kind) for name, kind in ddl.items())


def test_columns_that_compute_the_same_are_the_same() -> None:
    """Under other names and in other places; of several alike the first is the first, and one may be left out."""
    staged = computed(k="key k", a="sum(v)", b="sum(v)", n="count(1)")
    assert sources_of(computed(k="key k", total="count(1)", x="sum(v)", y="sum(v)"), staged, WHERE) == [0, 3, 1, 2]
    assert sources_of(computed(n="sum(v)", k="key k"), staged, WHERE) == [1, 0]


def test_a_column_that_was_not_staged_is_refused() -> None:
    """It would be null; both are named, and what can be done."""
    staged = computed(k="key k", total="sum(v)")
    with pytest.raises(CheckpointMismatchError) as caught:
        sources_of(computed(k="key k", total="max(v)"), staged, WHERE)
    assert "the output of checkpoint 3 was not shown yet, and its columns are k (key k), total (sum(v)): column" in str(
        caught.value
    )
    assert "column 'total' is total (max(v)) in this job, and was total (sum(v)) then" in str(caught.value)
    with pytest.raises(CheckpointMismatchError, match=r"this job's column n \(count\(1\)\) is none of them"):
        sources_of(computed(k="key k", total="sum(v)", n="count(1)"), staged, WHERE)
    # Equal text is not equal type.
    other = (StagedColumn(name="total", type="double", identity="sum(v)"),)
    with pytest.raises(CheckpointMismatchError):
        sources_of(other, computed(total="sum(v)"), WHERE)


@pytest.mark.parametrize(
    ("today", "sources"),
    [
        ({"k": "string", "n": "long", "t": "date"}, [0, 1, 2]),
        ({"t": "date", "k": "string"}, [2, 0]),  # by name: one is left out, the others have moved
        ({"k": "string", "count": "long", "t": "date"}, [0, 1, 2]),  # renamed in its place
        ({"a": "string", "b": "long", "c": "date"}, [0, 1, 2]),
    ],
)
def test_columns_that_only_have_names(today: dict[str, str], sources: list[int]) -> None:
    """What a processor yields goes by name; what is renamed, and nothing else, by its place."""
    assert sources_of(named(today), named({"k": "string", "n": "long", "t": "date"}), WHERE) == sources


@pytest.mark.parametrize(
    "today",
    [
        {"k": "string", "n": "long", "m": "long", "t": "date"},  # added
        {"k": "string", "n": "double", "t": "date"},  # of another type
        {"k": "string", "m": "long"},  # renamed, and one is gone: it may be anything
        {"t": "string", "m": "long", "k": "date"},
    ],
)
def test_columns_that_only_have_names_and_do_not_fit(today: dict[str, str]) -> None:
    """Nothing is guessed."""
    with pytest.raises(CheckpointMismatchError, match="and its columns are k string, n long, t date"):
        sources_of(named(today), named({"k": "string", "n": "long", "t": "date"}), WHERE)


def test_a_renamed_column_that_takes_anothers_name() -> None:
    """Two longs, of which one now has the other's name: which is which is not guessed."""
    with pytest.raises(CheckpointMismatchError):
        sources_of(named({"b": "long", "c": "long"}), named({"a": "long", "b": "long"}), WHERE)


def test_the_form_is_part_of_the_transaction() -> None:
    """It comes back from JSON as it was, types of any depth included; a transaction without one can be read."""
    inner = StructType().add("start", "timestamp").add("l", ArrayType(DecimalType(5, 2)))
    schema = StructType().add("k", "string").add("w", inner)
    form = StagedForm(columns=columns_of(schema, None), partition_by=("k",), path="/out")
    transaction = SinkTransaction(id=1, form=form)
    assert SinkTransaction.model_validate_json(transaction.model_dump_json()) == transaction
    assert SinkTransaction.model_validate_json('{"id": 1}').form is None
