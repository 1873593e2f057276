"""The inputs of the first list of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from .job import Input
from .making import START, again, epoch, fixed, iso, series, socket, spaced, topic

WORDS = ("owl dog cat", "dog dog", "cat owl", "owl", "fish cat cat")

SOURCES: Mapping[str, Input] = {
    "lines": socket(lambda n, s, random: WORDS[n % 5]),
    "kafka lines": topic(lambda n, s, random: WORDS[n % 5]),
    "numbers": socket(lambda n, s, random: str(n * 3 % 11)),
    "rate": series("timestamp timestamp, value bigint", lambda n, s, random: {"timestamp": iso(s), "value": n}, step=2),
    "values": again(series("value int", lambda n, s, random: {"value": s}, step=2, count=250), every=5, within=0),
    "pairs": fixed("_1 string, _2 int", [{"_1": "abc"[n % 3], "_2": n % 11} for n in range(120)]),
    "invoices": topic(
        lambda n, s, random: {
            "InvoiceNumber": f"i{n}",
            "CreatedTime": spaced(s),
            "StoreID": f"STR{n % 3}",
            "TotalAmount": 10 * n,
            "TotalValue": 5 * n,
            "CustomerType": ("PRIME", "NONPRIME")[n % 3 == 0],
            "CustomerCardNo": f"c{n % 4}",
        }
    ),
    "sensors": topic(
        lambda n, s, random: {"CreatedTime": spaced(s), "Reading": n * 7 % 30},
        key=lambda n, s, random: f"SET{n % 3}",
        step=97,
    ),
    "activity": series(
        "Creation_Time bigint, Device string, User string, gt string, x double",
        lambda n, s, random: {
            "Creation_Time": epoch(s) * 1_000_000_000,
            "Device": f"nexus{n % 2}",
            "User": "abc"[n % 3],
            "gt": ("walk", "sit")[n % 2],
            "x": float(n),
        },
        step=121,
    ),
    "rides as text": topic(lambda n, s, random: f"{n % 3}, {spaced(s)}, {spaced(s + 600)}, {n}, {n * 2}.0"),
    "taxis": socket(
        lambda n, s, random: {
            "trip_id": f"t{n}",
            "driver_id": n % 4,
            "distance_km": float(n),
            "fare_amount": float(3 * n),
            "timestamp": spaced(s),
        }
    ),
    "devices": topic(
        lambda n, s, random: {
            "device_id": f"d{n % 3}" if n % 7 else "",
            "event_time": iso(s).replace("Z", ".000000"),
            "temperature": float(20 + n % 5) if n % 5 else -999.0,
            "country": ("FR", "TN", "T@")[n % 3],
        }
    ),
    "crypto": topic(
        lambda n, s, random: {
            "s": ("BTC", "ETH")[n % 2],
            "t": n,
            "p": str(100 + n % 8),
            "q": str(1 + n % 3),
            "T": epoch(s) * 1000,
        }
    ),
    "trades": topic(
        lambda n, s, random: {
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
    "keyed trades": topic(
        lambda n, s, random: f"{n % 4}.0,{1 + n % 2}.0", key=lambda n, s, random: f"{spaced(s)},BTC,USD,ex{n % 2}"
    ),
    "coins": topic(lambda n, s, random: {"ts": iso(s), "symbol": ("btc", "eth")[n % 2], "price": float(n)}),
    "market": topic(
        lambda n, s, random: {
            "order_quantity": n,
            "trade_type": "B",
            "symbol": "xy"[n % 2],
            "timestamp": iso(s),
            "bid_price": n,
        },
        step=3,
    ),
    "prices": topic(
        lambda n, s, random: {"timestamp": float(epoch(s)), "simbolo": "abc"[n % 3], "precio": float(n % 8)}
    ),
    "amounts": topic(lambda n, s, random: {"create_date": spaced(s), "amount": n}),
    "purchases": series(
        "id string, time timestamp, item string, quantity int",
        lambda n, s, random: {"id": f"p{n}", "time": iso(s), "item": ("tv", "pen", "mug")[n % 3], "quantity": n},
        step=7211,
    ),
    "planes": socket(
        lambda n, s, random: {
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
    "fitness": topic(
        lambda n, s, random: {
            "device_id": f"d{n % 2}",
            "profile_name": "xyz"[n % 3],
            "steps": str(n * 10),
            "heartbeat": str(60 + n),
        }
    ),
    "phones": topic(
        lambda n, s, random: {"id": f"p{n}", "brand": "ab"[n % 2], "ram": "8", "rom": "64", "price": str(100 + n)}
    ),
    "sales": series(
        "`Invoice ID` string, Branch string, City string, `Product line` string, `Unit price` double, Date string,"
        " Time string, Rating double",
        lambda n, s, random: {
            "Invoice ID": f"i{n}",
            "Branch": "AB"[n % 2],
            "City": ("Yangon", "Mandalay")[n % 2],
            "Product line": ("Food", "Sports")[n % 2],
            "Unit price": float(8 * (n % 5)),
            "Date": (START + timedelta(seconds=s)).strftime("%m/%d/%Y"),
            "Time": (START + timedelta(seconds=s)).strftime("%H:%M"),
            "Rating": float(n % 10),
        },
        step=14411,
    ),
    "cars": series(
        "car string, price double, year int",
        lambda n, s, random: {"car": ("Ford", "BMW")[n % 2], "price": float(n % 5 * 100), "year": 2010 + n % 8},
    ),
    "tweets": topic(lambda n, s, random: {"text": ("no", "#spark is", "a #kafka #spark", "#flink")[n % 4]}),
    "tweets as files": series(
        "Hashtags string, Likes int",
        lambda n, s, random: {"Hashtags": ("spark", "kafka,spark", "flink,spark")[n % 3], "Likes": n},
    ),
    "events of products": series(
        "payload struct<data: struct<codigo_produto: int, codigo_empresa: int>>",
        lambda n, s, random: {
            "payload": {"data": {"codigo_produto": n % 3, "codigo_empresa": (341, 350, 1)[n % 4 % 3]}}
        },
    ),
    "votes": topic(
        lambda n, s, random: {"id": f"v{n}", "voted_to": f"c{n % 3}", "gender": "mf"[n % 2], "vote_timestamp": iso(s)}
    ),
    "visits": again(
        topic(lambda n, s, random: {"visit_id": n // 3, "event_time": iso(s), "page": f"page{n % 4}"}, step=61), every=3
    ),
    "clicks": topic(
        lambda n, s, random: {
            "user_id": f"u{n % 2}",
            "product_price": float(n),
            "event_type": ("purchase", "view")[n % 6 == 0],
            "timestamp": iso(s),
        }
    ),
    "rides": again(
        series(
            "ride_id string, timestamp timestamp, fare double",
            lambda n, s, random: {"ride_id": f"r{n}", "timestamp": iso(s) if n % 6 else None, "fare": float(n)},
        ),
        every=4,
    ),
    "guids": again(
        series("guid string, eventTime timestamp", lambda n, s, random: {"guid": f"g{n}", "eventTime": iso(s)}),
        every=3,
    ),
    "areas": series(
        "device_id string, temperature decimal(10,0), ts timestamp",
        lambda n, s, random: {"device_id": f"d{n % 2}", "temperature": n % 9, "ts": iso(s // 4 * 4 + 1)},
        step=1,
    ),
    "transactions": series(
        "customer_id string, event_time timestamp",
        lambda n, s, random: {"customer_id": f"c{n % 3}", "event_time": iso(s)},
        step=601,
    ),
    "locations": series(
        "user string, time bigint, location string",
        lambda n, s, random: {"user": f"u{n % 3}", "time": s, "location": f"l{n}"},
    ),
    "heartbeats": series(
        "id string, timestamp timestamp", lambda n, s, random: {"id": f"h{n // 30 * 2 + n % 2}", "timestamp": iso(s)}
    ),
    "temperatures": series(
        "id string, temperature int", lambda n, s, random: {"id": str(n % 2), "temperature": 90 + n if n % 5 else None}
    ),
    "timed": series("id string, eventTime timestamp", lambda n, s, random: {"id": f"k{n % 3}", "eventTime": iso(s)}),
    "flights": series(
        "flight string, state string",
        lambda n, s, random: {
            "flight": ("Delta1247", "United892")[n % 2],
            "state": ("boarding", "flying", "landed")[n // 2 % 3],
        },
        count=120,
    ),
    "orders": series(
        "order_id string, event_type string, timestamp timestamp",
        lambda n, s, random: {
            "order_id": f"o{n % 3}",
            "event_type": ("ORDER_PLACED", "PROCESSING_STARTED", "ITEM_SHIPPED", "ITEM_DELIVERED")[n // 3 % 4],
            "timestamp": iso(s),
        },
        count=120,
    ),
    "shop": series(
        "session_id string, user_id string, event_type string, revenue double, event_timestamp timestamp",
        lambda n, s, random: {
            "session_id": f"s{n % 4}",
            "user_id": f"u{n % 4}",
            "event_type": ("view", "search", "purchase")[n // 4 % 3],
            "revenue": float(n),
            "event_timestamp": iso(s),
        },
    ),
    "impressions": topic(
        lambda n, s, random: {"ImpressionID": f"a{n}", "CreatedTime": spaced(s), "Campaigner": f"c{n % 2}"}
    ),
    "ad clicks": topic(lambda n, s, random: {"ImpressionID": f"a{n * 2}", "CreatedTime": spaced(s + 60)}),
}

TABLES: Mapping[str, Input] = {
    "candidates": fixed(
        "candidate_id string, candidate_name string, party string",
        [{"candidate_id": f"c{n}", "candidate_name": f"name {n}", "party": "pq"[n]} for n in range(2)],
    ),
    "temperatures before": fixed("id string, initVal int", [{"id": "0", "initVal": 789}, {"id": "3", "initVal": 987}]),
}


def inputs(*names: str) -> dict[str, Input]:
    """Some of the inputs, by name."""
    return {name: SOURCES[name] for name in names}
