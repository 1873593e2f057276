"""The rows: so many per second, with keys drawn by chance; a value is ``number|microseconds``.

The stamp is taken when a row is sent.  How far the producer ever was behind its time is printed at the end, so that a
late producer can be told from a slow pipeline.

    python producer.py BOOTSTRAP TOPIC RATE SECONDS KEYS
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path


def start(bootstrap: str, topic: str, rate: float, seconds: float, keys: int) -> subprocess.Popen[str]:
    """A process of its own that sends rows."""
    command = [sys.executable, str(Path(__file__).resolve()), bootstrap, topic, str(rate), str(seconds), str(keys)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _send(bootstrap: str, topic: str, rate: float, seconds: float, keys: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "queue.buffering.max.messages": 1_000_000})
    producer.list_topics(topic, 30)
    draw, number, begin, latest = random.Random(7), 0, time.time(), 0.0
    while (due := begin + number / rate) - begin < seconds:
        now = time.time()
        if due > now:
            time.sleep(due - now)
        latest = max(latest, time.time() - due)
        key = f"k{draw.randrange(keys):06d}"
        producer.produce(topic, key=key, value=f"{number}|{time.time_ns() // 1000}")
        producer.poll(0)
        number += 1
    producer.flush(60)
    print(f"sent {number}, latest {latest * 1e3:.0f} ms behind its time", flush=True)


if __name__ == "__main__":
    _send(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
