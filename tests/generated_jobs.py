"""Aggregate jobs as people write them, by the roll of dice: keys, filters, computed columns and aggregates.

The weights are a guess at ordinary jobs: most count, add up and average by one to three columns, some of which are
dates and buckets; one in five has an aggregate that is none of count, sum, average and extremes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

SCHEMA = (
    "id bigint, user string, country string, city string, kind string, n int, amount bigint, price decimal(9,2),"
    " discount double, url string, ok boolean, ts timestamp, day date"
)

_KEYS = [
    *("id", "user", "country", "city", "kind", "day") * 3,
    *("to_date(ts)", "date_trunc('hour', ts)", "year(day)", "month(day)", "hour(ts)", "date_format(ts, 'yyyy-MM')"),
    *("upper(country)", "coalesce(city, 'unknown')", "substring(url, 1, 8)", "lower(trim(city))"),
    *("CASE WHEN amount > 1000 THEN 'large' WHEN amount > 100 THEN 'medium' ELSE 'small' END", "n % 10"),
    *("CAST(amount / 100 AS INT)", "floor(discount)", "if(ok, 'yes', 'no')", "concat(country, '-', kind)"),
    *("regexp_extract(url, '^https?://([^/]+)', 1)", "split(url, '/')[0]", "dayofweek(day)", "nvl(kind, 'other')"),
]
_FILTERS = [
    *("kind IN ('click', 'view')", "kind = 'buy'", "amount > 0", "n BETWEEN 10 AND 900", "city IS NOT NULL", "ok") * 2,
    *("country != 'DE'", "ts >= '2023-11-14'", "day >= date'2023-11-14'", "price > 1.50", "discount < 0.5"),
    *("url LIKE '%/shop/%'", "startswith(url, 'https')", "length(user) > 3", "kind = 'buy' OR amount > 500"),
    *("NOT ok AND n > 5", "year(ts) = 2023", "amount % 2 = 0", "coalesce(discount, 0) > 0", "lower(kind) = 'view'"),
    *("url RLIKE 'item[0-9]+'", "to_date(ts) < date'2024-01-01'", "upper(country) IN ('DE', 'FR')"),
]
_COMPUTED = [
    *("amount * 2", "amount - n", "price * n", "amount * discount", "price - 1", "abs(amount)", "-amount"),
    *("CASE WHEN ok THEN amount ELSE 0 END", "if(kind = 'buy', price, 0)", "coalesce(discount, 0)", "length(url)"),
    *("amount / 100.0", "amount / 7", "price * 0.19", "greatest(amount, n)", "CAST(price AS DOUBLE)", "hour(ts)"),
    *("unix_timestamp(ts)", "datediff(day, date'2023-01-01')", "CAST(n AS BIGINT)", "round(discount, 2)"),
    *("CASE kind WHEN 'buy' THEN 1 WHEN 'refund' THEN -1 ELSE 0 END", "nullif(amount, 0)", "sqrt(abs(n))"),
    *("round(price)", "log(n + 1)", "CAST(discount * 100 AS INT)"),
]
_NUMBERS = ["amount", "n", "price", "discount"]
_OTHERS = ["kind", "city", "ts", "day", *_NUMBERS]
_RARE = [
    *("count(DISTINCT user)", "count(DISTINCT kind)", "approx_count_distinct(user)", "stddev(amount)"),
    *("variance(discount)", "first(city)", "last(kind)", "max_by(city, ts)", "min_by(kind, amount)"),
    *("collect_set(kind)", "collect_list(n)", "bool_or(ok)", "every(ok)", "percentile(amount, 0.5)", "corr(n, amount)"),
    *("count(kind, city)", "any_value(country)", "mode(kind)", "sum(DISTINCT n)", "skewness(amount)"),
]


@dataclass(frozen=True)
class GeneratedJob:
    """A job, in SQL.

    Args:
        filters: conditions one after the other.
        window: a length, if rows are grouped by windows of their time.
        keys: what rows are grouped by besides.
        aggregates: what is computed of groups.
    """

    filters: tuple[str, ...]
    window: str | None
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]

    def of(self, frame: Any) -> Any:
        """The job over a frame of ours or of Spark's."""
        for condition in self.filters:
            frame = frame.where(condition)
        keys = [F.expr(key).alias(f"k{place}") for place, key in enumerate(self.keys)]
        if self.window is not None:
            frame = frame.withWatermark("ts", "10 minutes")
            keys = [F.window("ts", self.window), *keys]
        return frame.groupBy(*keys).agg(*[F.expr(sql).alias(f"a{place}") for place, sql in enumerate(self.aggregates)])

    def __str__(self) -> str:
        where = " AND ".join(self.filters) or "all"
        by = ", ".join([*([f"window {self.window}"] if self.window else []), *self.keys])
        return f"{', '.join(self.aggregates)} BY {by} WHERE {where}"


def generated_jobs(seed: int, count: int) -> list[GeneratedJob]:
    """So many jobs; another seed gives others."""
    chance = random.Random(seed)
    return [_job(chance) for _ in range(count)]


def _job(chance: random.Random) -> GeneratedJob:
    window = chance.choice(["1 hour", "1 day", "15 minutes"]) if chance.random() < 0.2 else None
    keys = chance.sample(list(dict.fromkeys(_KEYS)), 1) if chance.random() < 0.3 else _some(chance, _KEYS, (1, 1, 2, 3))
    aggregates = [_aggregate(chance) for _ in range(chance.choice((1, 2, 3, 4)))]
    if chance.random() < 0.2:
        aggregates.append(chance.choice(_RARE))
    filters = _some(chance, _FILTERS, (0, 0, 1, 1, 2))
    return GeneratedJob(tuple(filters), window, tuple(keys), tuple(dict.fromkeys(aggregates)))


def _some(chance: random.Random, known: list[str], counts: tuple[int, ...]) -> list[str]:
    found: list[str] = []
    for _ in range(chance.choice(counts)):
        found.append(chance.choice([one for one in known if one not in found]))
    return found


def _aggregate(chance: random.Random) -> str:
    value = chance.choice(_COMPUTED) if chance.random() < 0.35 else chance.choice(_NUMBERS)
    return chance.choice(
        [
            *("count(*)", f"sum({value})", f"avg({value})") * 2,
            *(f"min({chance.choice(_OTHERS)})", f"max({chance.choice(_OTHERS)})"),
            *(f"count({chance.choice(_OTHERS)})", f"count_if({chance.choice(_FILTERS)})"),
            f"sum({value}) FILTER (WHERE {chance.choice(_FILTERS)})",
        ]
    )
