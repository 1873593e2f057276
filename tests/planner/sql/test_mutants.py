"""Translations with one fault each: the comparison of plans refuses them, whatever step the fault is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mixedmode import PlanError
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.sql import aggregation, rows, translation, windows
from mixedmode.runtime.catalyst.spark_expressions import class_name, parsed
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

Mutant = Callable[[pytest.MonkeyPatch], None]
_CALL, _WITH_OTHER, _AGGREGATED = rows.StatementRows.call, rows.StatementRows.with_other, rows.StatementRows.aggregated


def dropped(method: str) -> Mutant:
    """A call of a method is left out."""

    def call(self: Any, name: str, *args: Any, known: Any = None) -> Any:
        if name != method:
            return _CALL(self, name, *args, known=known)
        return self if known is None else rows.StatementRows(self.frame, self.stock, known)

    return lambda patch: patch.setattr(rows.StatementRows, "call", call)


def other_arguments(method: str, change: Callable[..., tuple[Any, ...]]) -> Mutant:
    """A method is called with other arguments."""

    def call(self: Any, name: str, *args: Any, known: Any = None) -> Any:
        return _CALL(self, name, *(change(*args) if name == method else args), known=known)

    return lambda patch: patch.setattr(rows.StatementRows, "call", call)


def swapped_sides(patch: pytest.MonkeyPatch) -> None:
    """Of two relations the second one comes first."""

    def swapped(self: Any, method: str, other: Any, *args: Any, known: Any) -> Any:
        return _WITH_OTHER(other, method, self, *args, known=known)

    patch.setattr(rows.StatementRows, "with_other", swapped)


def dropped_side(patch: pytest.MonkeyPatch) -> None:
    """Of two relations there is only the first one."""

    def alone(self: Any, method: str, other: Any, *args: Any, known: Any) -> Any:
        return rows.StatementRows(self.frame, self.stock, known)

    patch.setattr(rows.StatementRows, "with_other", alone)


def aggregated_by(change: Callable[[Any, Any], tuple[Any, Any]]) -> Mutant:
    """Other keys or other results."""

    def made(self: Any, keys: Any, results: Any, sets: Any = None) -> Any:
        return _AGGREGATED(self, *change(keys, results), sets)

    return lambda patch: patch.setattr(rows.StatementRows, "aggregated", made)


def other_sets(patch: pytest.MonkeyPatch) -> None:
    """Of several grouping sets the last one is missing."""
    patch.setattr(
        rows.StatementRows,
        "aggregated",
        lambda self, keys, results, sets=None: _AGGREGATED(self, keys, results, sets[:-1]),
    )


def other_join(kind: str, instead: str) -> Mutant:
    """A join of another type."""
    return lambda patch: patch.setitem(translation._JOINS, kind, instead)


def other_literal(patch: pytest.MonkeyPatch) -> None:
    """Each constant of an expression is another one."""
    stock = rows.over

    def over(spark: Any, node: Any, other: Any) -> Any:
        def changed(one: Any) -> Any:
            return parsed(spark, "7") if class_name(one) == "Literal" else other(one)

        return stock(spark, node, changed)

    patch.setattr(rows, "over", over)


def other_operator(patch: pytest.MonkeyPatch) -> None:
    """Of an operation only the first operand."""
    stock = aggregation.over
    patch.setattr(aggregation, "over", lambda spark, node, other: stock(spark, node.children().apply(0), other))


def other_limit(patch: pytest.MonkeyPatch) -> None:
    stock = translation.constant
    patch.setattr(translation, "constant", lambda expression: stock(expression) + 1)


def other_aliases(patch: pytest.MonkeyPatch) -> None:
    """A column has the name of another one."""
    stock = rows.StatementRows.named

    def named(self: Any, ids: Any, names: Any) -> Any:
        return stock(self, ids, [*names][::-1])

    patch.setattr(rows.StatementRows, "named", named)


def dropped_distinct(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(translation._Translation, "_aggregate", lambda self, node, taken: self.rows(node.child(), taken))


def dropped_outer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(translation, "outer_generator", lambda spark, generator: generator)


def other_spans(patch: pytest.MonkeyPatch) -> None:
    """Duration, slide and offset of a window are twice as long."""
    stock = windows._last_long
    patch.setattr(windows, "_last_long", lambda one: 2 * (stock(one) or 0))


def other_slide(patch: pytest.MonkeyPatch) -> None:
    stock = windows._time_window

    def window(*args: Any) -> Any:
        made = stock(*args)
        text = made.text.replace("'300000000 microseconds'", "'200000000 microseconds'")
        return windows.replace(made, text=text)

    patch.setattr(windows, "_time_window", window)


def other_gap(patch: pytest.MonkeyPatch) -> None:
    stock = windows._session

    def session(*args: Any) -> Any:
        return windows.replace(stock(*args), text=f"session_window({windows._TIME}, '1 day')")

    patch.setattr(windows, "_session", session)


def other_column_outside(patch: pytest.MonkeyPatch) -> None:
    """A subquery reads another column of the rows outside of it."""
    stock = rows.correlated
    patch.setattr(rows, "correlated", lambda spark, subquery, other: stock(spark, subquery, lambda one: "v"))


def other_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(translation, "ordering", lambda spark, order, expression: F.col("n").asc())


def other_table(patch: pytest.MonkeyPatch) -> None:
    """The table of a join is another one."""
    stock = translation.frame_of
    patch.setattr(translation, "frame_of", lambda spark, plan: stock(spark, plan).where("k = 'b'"))


def other_view(patch: pytest.MonkeyPatch) -> None:
    """A view's columns come in another order."""
    stock = translation.leaf_called

    def called(spark: Any, leaf: Any, names: list[str]) -> Any:
        first, second, *others = names
        return stock(spark, leaf, [second, first, *others])

    patch.setattr(translation, "leaf_called", called)


def other_grouping_id(patch: pytest.MonkeyPatch) -> None:
    """The grouping id is that of one key."""
    stock = aggregation.parsed
    patch.setattr(aggregation, "parsed", lambda spark, text: stock(spark, "grouping(k)"))


_WITHIN = "b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES"
_JOIN = f"SELECT a.k AS k, a.v AS x, b.v AS y FROM v a {{}} JOIN w b ON a.k = b.k AND {_WITHIN}"
_WINDOW = "SELECT window(ts, '10 minutes'{}) AS w, k, count(*) FROM v GROUP BY 1, 2"
_ORDERED = "SELECT k, count(*) AS n FROM v GROUP BY k ORDER BY n DESC LIMIT 3"

MUTANTS: dict[str, tuple[Mutant, str]] = {
    "filter dropped": (dropped("filter"), "SELECT k FROM v WHERE v > 1"),
    "filter in a subquery dropped": (dropped("filter"), "SELECT k FROM (SELECT * FROM v WHERE v > 1)"),
    "HAVING dropped": (dropped("filter"), "SELECT k, count(*) AS n FROM v GROUP BY k HAVING n > 1"),
    "constant in a filter": (other_literal, "SELECT k FROM v WHERE v > 1"),
    "constant in a column": (other_literal, "SELECT v + 1 AS more FROM v"),
    "constant in HAVING": (other_literal, "SELECT k, count(*) AS n FROM v GROUP BY k HAVING n > 1"),
    "constant in a join": (other_literal, _JOIN.format("")),
    "alias": (other_aliases, "SELECT a + 1, b FROM (SELECT v AS a, v + 1 AS b FROM v)"),
    "column dropped": (other_arguments("select", lambda *all: (all[0],)), "SELECT upper(k) AS u, v + 1 AS m FROM v"),
    "columns swapped": (other_arguments("select", lambda *all: all[::-1]), "SELECT v + 1 AS a, v + 2 AS b FROM v"),
    "column twice": (
        other_arguments("select", lambda one, two, three: (one, three, two)),
        "SELECT k, k, v + 1 AS m FROM v",
    ),
    "value of UNPIVOT": (
        other_arguments("unpivot", lambda ids, values, *names: (ids, values[:1], *names)),
        "SELECT * FROM (SELECT k, v, x FROM v) UNPIVOT (n FOR m IN (v, x))",
    ),
    "grouping id": (other_grouping_id, "SELECT k, v, grouping_id() AS g FROM v GROUP BY CUBE (k, v)"),
    "columns of a view": (other_view, "SELECT v, k FROM v"),
    "join sides swapped": (swapped_sides, _JOIN.format("")),
    "union's sides swapped": (swapped_sides, "SELECT k, v FROM v UNION ALL SELECT k, v + 1 FROM w"),
    "union's side dropped": (dropped_side, "SELECT k, v FROM v UNION ALL SELECT k, v FROM w"),
    "left instead of inner": (other_join("INNER", "left"), _JOIN.format("")),
    "inner instead of left": (other_join("LEFT OUTER", "inner"), _JOIN.format("LEFT")),
    "left instead of right": (other_join("RIGHT OUTER", "left"), _JOIN.format("RIGHT")),
    "left instead of full": (other_join("FULL OUTER", "left"), _JOIN.format("FULL")),
    "anti instead of semi": (
        other_join("LEFT SEMI", "leftanti"),
        "SELECT v.* FROM v LEFT SEMI JOIN dim ON v.k = dim.k",
    ),
    "inner instead of left, a table": (
        other_join("LEFT OUTER", "inner"),
        "SELECT v.k, name FROM v LEFT JOIN dim ON v.k = dim.k",
    ),
    "another table": (other_table, "SELECT v.k, name FROM v JOIN dim ON v.k = dim.k"),
    "DISTINCT dropped": (dropped_distinct, "SELECT DISTINCT k, v FROM v"),
    "column outside of a subquery": (
        other_column_outside,
        "SELECT k FROM v WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k = v.k)",
    ),
    "key dropped": (
        aggregated_by(lambda keys, results: (keys[:1], results)),
        "SELECT count(*) AS n FROM v GROUP BY k, v",
    ),
    "result dropped": (
        aggregated_by(lambda keys, results: (keys, results[:1])),
        "SELECT k, count(*) AS n, sum(v) AS s FROM v GROUP BY k",
    ),
    "another result": (
        aggregated_by(lambda keys, results: (keys, [F.max("v").alias("s")])),
        "SELECT k, sum(v) AS s FROM v GROUP BY k",
    ),
    "grouping set": (other_sets, "SELECT k, v, count(*) AS n FROM v GROUP BY ROLLUP (k, v)"),
    "operation over a result": (other_operator, "SELECT k, sum(v) + 1 AS s FROM v GROUP BY k"),
    "window's spans": (other_spans, _WINDOW.format("")),
    "sliding window's spans": (other_spans, _WINDOW.format(", '5 minutes'")),
    "slide": (other_slide, _WINDOW.format(", '5 minutes'")),
    "offset": (other_slide, _WINDOW.format(", '10 minutes', '5 minutes'")),
    "gap": (other_gap, "SELECT session_window(ts, '5 minutes') AS s, k, count(*) FROM v GROUP BY 1, 2"),
    "order": (other_order, _ORDERED),
    "order dropped": (dropped("orderBy"), _ORDERED),
    "limit": (other_limit, _ORDERED),
    "limit dropped": (dropped("limit"), "SELECT k FROM v LIMIT 5"),
    "outer generator": (dropped_outer, "SELECT k, t FROM v LATERAL VIEW OUTER explode(map_keys(tags)) AS t"),
    "partitions dropped": (dropped("coalesce"), "SELECT /*+ COALESCE(2) */ k FROM v"),
    "other partitions": (
        other_arguments("repartition", lambda number, *all: (number + 1, *all)),
        "SELECT /*+ REPARTITION(2, k) */ k FROM v",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_translation_is_refused(view: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The same statement is taken by the right one."""
    mutant, text = MUTANTS[name]
    assert isinstance(view.sql(text), MixedFrame)
    mutant(monkeypatch)
    with pytest.raises(PlanError, match=r"the statement is refused at "):
        view.sql(text)


def test_every_step_has_a_mutant() -> None:
    """A node that is translated asks for a mutant, but a hint, which changes no rows: Spark does not compare hints."""
    steps = {
        "Aggregate": "GROUP BY",
        "Expand": "UNPIVOT",
        "Filter": "WHERE",
        "Generate": "LATERAL VIEW",
        "GlobalLimit": "LIMIT",
        "Join": "JOIN",
        "Project": "SELECT",
        "Repartition": "COALESCE",
        "RepartitionByExpression": "REPARTITION",
        "Sort": "ORDER BY",
        "Union": "UNION ALL",
    }
    assert {*steps, "ResolvedHint"} == set(translation.NODES)
    for clause in steps.values():
        assert any(clause in text for _, text in MUTANTS.values())


def test_a_statement_whose_plan_has_a_part_more_is_refused(view: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the translation overlooks is accepted, such as a node that it takes for another one."""
    monkeypatch.setattr(translation._Translation, "_sort", lambda self, node, taken: self.rows(node.child(), taken))
    with pytest.raises(PlanError, match="in another way than the calls"):
        view.sql("SELECT k, count(*) AS n FROM v GROUP BY k ORDER BY n")
