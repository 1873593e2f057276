"""The rows that the public jobs would see, a few dozen of each: whole numbers, times in order, none on a boundary."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

Row = dict[str, Any]

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
#: A time at which all windows and sessions of the rows are closed.
END_S = int((datetime(2031, 1, 1, tzinfo=timezone.utc) - START).total_seconds())
#: What Spark's Kafka source gives.
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
SOCKET = "value string, timestamp timestamp"


@dataclass(frozen=True)
class Source:
    """Columns, rows in order of event time, and perhaps a row at the end of event time."""

    schema: str
    rows: list[Row]
    end: Row | None = None


def iso(seconds: float) -> str:
    """A time as JSON files and messages have it."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def spaced(seconds: float) -> str:
    """A time as ``yyyy-MM-dd HH:mm:ss``."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def epoch(seconds: float) -> int:
    return int(START.timestamp() + seconds)


def _series(schema: str, row: Callable[[int, int], Row], count: int = 24, step_s: int = 37) -> Source:
    """Rows by number and seconds since START, and one at the end."""
    return Source(schema, [row(n, 7 + n * step_s) for n in range(count)], row(1, END_S))


def _topic(
    payload: Callable[[int, int], Row | str], *, key: Callable[[int, int], str] | None = None, **more: int
) -> Source:
    """A Kafka topic whose values are JSON, or texts."""

    def row(n: int, second: int) -> Row:
        given = payload(n, second)
        return {
            "key": None if key is None else _binary(key(n, second)),
            "value": _binary(given if isinstance(given, str) else json.dumps(given)),
            "topic": "t",
            "partition": n % 2,
            "offset": n // 2,
            "timestamp": iso(second),
            "timestampType": 0,
        }

    return _series(KAFKA, row, **more)


def _lines(payload: Callable[[int, int], Row | str], **more: int) -> Source:
    """What a socket with ``includeTimestamp`` gives."""

    def row(n: int, second: int) -> Row:
        given = payload(n, second)
        return {"value": given if isinstance(given, str) else json.dumps(given), "timestamp": iso(second)}

    return _series(SOCKET, row, **more)


def _again(source: Source, every: int) -> Source:
    """Every so many-th row comes once more, as it is."""
    doubled = [row for n, row in enumerate(source.rows) for _ in range(2 if n % every == 0 else 1)]
    return Source(source.schema, doubled, source.end)


def _binary(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


WORDS = ("owl dog cat", "dog dog", "cat owl", "owl", "fish cat cat")

SOURCES: Mapping[str, Source] = {
    "lines": _lines(lambda n, s: WORDS[n % 5]),
    "kafka lines": _topic(lambda n, s: WORDS[n % 5]),
    "numbers": _lines(lambda n, s: str(n * 3 % 11)),
    "rate": _series("timestamp timestamp, value bigint", lambda n, s: {"timestamp": iso(s), "value": n}, step_s=2),
    "values": _again(_series("value int", lambda n, s: {"value": s}, step_s=2), every=5),
    "pairs": Source("_1 string, _2 int", [{"_1": "abc"[n % 3], "_2": n % 4} for n in range(20)]),
    "invoices": _topic(
        lambda n, s: {
            "InvoiceNumber": f"i{n}",
            "CreatedTime": spaced(s),
            "StoreID": f"STR{n % 3}",
            "TotalAmount": 10 * n,
            "TotalValue": 5 * n,
            "CustomerType": ("PRIME", "NONPRIME")[n % 3 == 0],
            "CustomerCardNo": f"c{n % 4}",
        }
    ),
    "sensors": _topic(
        lambda n, s: {"CreatedTime": spaced(s), "Reading": n * 7 % 30}, key=lambda n, s: f"SET{n % 3}", step_s=97
    ),
    "activity": _series(
        "Creation_Time bigint, Device string, User string, gt string, x double",
        lambda n, s: {
            "Creation_Time": epoch(s) * 1_000_000_000,
            "Device": f"nexus{n % 2}",
            "User": "abc"[n % 3],
            "gt": ("walk", "sit")[n % 2],
            "x": float(n),
        },
        step_s=121,
    ),
    "rides as text": _topic(lambda n, s: f"{n % 3}, {spaced(s)}, {spaced(s + 600)}, {n}, {n * 2}.0"),
    "taxis": _lines(
        lambda n, s: {
            "trip_id": f"t{n}",
            "driver_id": n % 4,
            "distance_km": float(n),
            "fare_amount": float(3 * n),
            "timestamp": spaced(s),
        }
    ),
    "devices": _topic(
        lambda n, s: {
            "device_id": f"d{n % 3}" if n % 7 else "",
            "event_time": iso(s).replace("Z", ".000000"),
            "temperature": float(20 + n % 5) if n % 5 else -999.0,
            "country": ("FR", "TN", "T@")[n % 3],
        }
    ),
    "crypto": _topic(
        lambda n, s: {
            "s": ("BTC", "ETH")[n % 2],
            "t": n,
            "p": str(100 + n % 8),
            "q": str(1 + n % 3),
            "T": epoch(s) * 1000,
        }
    ),
    "trades": _topic(
        lambda n, s: {
            "trade_id": f"t{n}",
            "ticker": ("AAPL", "IBM")[n % 2],
            "price": float(64 + n % 8),
            "quantity": 1 << n % 3,
            "side": ("BUY", "SELL")[n % 3 == 0],
            "bid_price": float(63 + n % 8),
            "ask_price": float(65 + n % 8),
            "timestamp": spaced(s),
        }
    ),
    "keyed trades": _topic(lambda n, s: f"{n % 4}.0,{1 + n % 2}.0", key=lambda n, s: f"{spaced(s)},BTC,USD,ex{n % 2}"),
    "coins": _topic(lambda n, s: {"ts": iso(s), "symbol": ("btc", "eth")[n % 2], "price": float(n)}),
    "market": _topic(
        lambda n, s: {
            "order_quantity": n,
            "trade_type": "B",
            "symbol": "xy"[n % 2],
            "timestamp": iso(s),
            "bid_price": n,
        },
        step_s=3,
    ),
    "prices": _topic(lambda n, s: {"timestamp": float(epoch(s)), "simbolo": "abc"[n % 3], "precio": float(n % 8)}),
    "amounts": _topic(lambda n, s: {"create_date": spaced(s), "amount": n}),
    "purchases": _series(
        "id string, time timestamp, item string, quantity int",
        lambda n, s: {"id": f"p{n}", "time": iso(s), "item": ("tv", "pen", "mug")[n % 3], "quantity": n},
        step_s=7211,
    ),
    "planes": _lines(
        lambda n, s: {
            "ac": [
                {
                    "flight": f"f{n}",
                    "lat": 41.0,
                    "lon": 1.0 + n % 4,
                    "alt_baro": 1000.0 * n,
                    "category": "A" + "123"[n % 3],
                },
                {"flight": f"g{n}", "lat": 30.0, "lon": 1.0, "alt_baro": 500.0, "category": None},
            ],
            "now": float(epoch(s) * 1000),
        }
    ),
    "fitness": _topic(
        lambda n, s: {
            "device_id": f"d{n % 2}",
            "profile_name": "xyz"[n % 3],
            "steps": str(n * 10),
            "heartbeat": str(60 + n),
        }
    ),
    "phones": _topic(
        lambda n, s: {"id": f"p{n}", "brand": "ab"[n % 2], "ram": "8", "rom": "64", "price": str(100 + n)}
    ),
    "sales": _series(
        "`Invoice ID` string, Branch string, City string, `Product line` string, `Unit price` double, Date string,"
        " Time string, Rating double",
        lambda n, s: {
            "Invoice ID": f"i{n}",
            "Branch": "AB"[n % 2],
            "City": ("Yangon", "Mandalay")[n % 2],
            "Product line": ("Food", "Sports")[n % 2],
            "Unit price": float(8 * (n % 5)),
            "Date": (START + timedelta(seconds=s)).strftime("%m/%d/%Y"),
            "Time": (START + timedelta(seconds=s)).strftime("%H:%M"),
            "Rating": float(n % 10),
        },
        step_s=14411,
    ),
    "cars": _series(
        "car string, price double, year int",
        lambda n, s: {"car": ("Ford", "BMW")[n % 2], "price": float(n % 5 * 100), "year": 2010 + n % 8},
    ),
    "tweets": _topic(lambda n, s: {"text": ("no", "#spark is", "a #kafka #spark", "#flink")[n % 4]}),
    "tweets as files": _series(
        "Hashtags string, Likes int",
        lambda n, s: {"Hashtags": ("spark", "kafka,spark", "flink,spark")[n % 3], "Likes": n},
    ),
    "events of products": _series(
        "payload struct<data: struct<codigo_produto: int, codigo_empresa: int>>",
        lambda n, s: {"payload": {"data": {"codigo_produto": n % 3, "codigo_empresa": (341, 350, 1)[n % 4 % 3]}}},
    ),
    "votes": _topic(
        lambda n, s: {"id": f"v{n}", "voted_to": f"c{n % 3}", "gender": "mf"[n % 2], "vote_timestamp": iso(s)}
    ),
    "visits": _again(
        _topic(lambda n, s: {"visit_id": n // 3, "event_time": iso(s), "page": f"page{n % 4}"}, step_s=61), every=3
    ),
    "clicks": _topic(
        lambda n, s: {
            "user_id": f"u{n % 2}",
            "product_price": float(n),
            "event_type": ("purchase", "view")[n % 6 == 0],
            "timestamp": iso(s),
        }
    ),
    "rides": _again(
        _series(
            "ride_id string, timestamp timestamp, fare double",
            lambda n, s: {"ride_id": f"r{n}", "timestamp": iso(s) if n % 6 else None, "fare": float(n)},
        ),
        every=4,
    ),
    "guids": _again(
        _series("guid string, eventTime timestamp", lambda n, s: {"guid": f"g{n // 2}", "eventTime": iso(s)}), every=3
    ),
    "areas": _series(
        "device_id string, temperature decimal(10,0), ts timestamp",
        lambda n, s: {"device_id": f"d{n % 2}", "temperature": n % 9, "ts": iso(s // 4 * 4 + 1)},
        step_s=1,
    ),
    "transactions": _series(
        "customer_id string, event_time timestamp",
        lambda n, s: {"customer_id": f"c{n % 3}", "event_time": iso(s)},
        step_s=601,
    ),
    "locations": _series(
        "user string, time bigint, location string", lambda n, s: {"user": f"u{n % 3}", "time": s, "location": f"l{n}"}
    ),
    "heartbeats": _series("id string, timestamp timestamp", lambda n, s: {"id": f"h{n % 3}", "timestamp": iso(s)}),
    "temperatures": _series(
        "id string, temperature int", lambda n, s: {"id": str(n % 2), "temperature": 90 + n if n % 5 else None}
    ),
    "timed": _series("id string, eventTime timestamp", lambda n, s: {"id": f"k{n % 3}", "eventTime": iso(s)}),
    "flights": _series(
        "flight string, state string",
        lambda n, s: {
            "flight": ("Delta1247", "United892")[n % 2],
            "state": ("boarding", "flying", "landed")[n // 2 % 3],
        },
        count=12,
    ),
    "orders": _series(
        "order_id string, event_type string, timestamp timestamp",
        lambda n, s: {
            "order_id": f"o{n % 3}",
            "event_type": ("ORDER_PLACED", "PROCESSING_STARTED", "ITEM_SHIPPED", "ITEM_DELIVERED")[n // 3 % 4],
            "timestamp": iso(s),
        },
        count=12,
    ),
    "shop": _series(
        "session_id string, user_id string, event_type string, revenue double, event_timestamp timestamp",
        lambda n, s: {
            "session_id": f"s{n % 4}",
            "user_id": f"u{n % 4}",
            "event_type": ("view", "search", "purchase")[n // 4 % 3],
            "revenue": float(n),
            "event_timestamp": iso(s),
        },
    ),
    "impressions": _topic(lambda n, s: {"ImpressionID": f"a{n}", "CreatedTime": spaced(s), "Campaigner": f"c{n % 2}"}),
    "ad clicks": _topic(lambda n, s: {"ImpressionID": f"a{n * 2}", "CreatedTime": spaced(s + 60)}),
}

TABLES: Mapping[str, Source] = {
    "candidates": Source(
        "candidate_id string, candidate_name string, party string",
        [{"candidate_id": f"c{n}", "candidate_name": f"name {n}", "party": "pq"[n]} for n in range(2)],
    ),
    "temperatures before": Source("id string, initVal int", [{"id": "0", "initVal": 789}, {"id": "3", "initVal": 987}]),
}
