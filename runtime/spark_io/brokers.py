"""Checks that the addresses of a Kafka cluster answer: a client would try for a minute and name none of them."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as NotInTime

from ...errors import PlanError

#: The option that names the brokers.
OPTION = "kafka.bootstrap.servers"
#: How long brokers that do not answer are waited for, all at the same time.
LONGEST_S = 5.0
_ADDRESS = re.compile(r"^(?:\w+://)?\[?([^\[\]]+)\]?:(\d+)$")


def check_reachable(options: Mapping[str, str]) -> None:
    """Raise if none of the brokers that a source or sink names takes connections from here.

    One is enough: it knows the others.  Addresses that are not written as ``host:port`` are left to Kafka's client.

    Args:
        options: of Spark's connector, names in any case.

    Raises:
        PlanError: none does; it says why of each.
    """
    named = next((value for name, value in options.items() if name.lower() == OPTION), "")
    found = [_ADDRESS.match(one.strip()) for one in named.split(",") if one.strip()]
    places = [(one[1], int(one[2])) for one in found if one is not None]
    if not places or len(places) < len(found):
        return
    refusals = {f"{host}:{port}": f"no answer within {LONGEST_S:g} s" for host, port in places}
    pool = ThreadPoolExecutor(len(places))
    try:
        asked = {pool.submit(_refusal, host, port): f"{host}:{port}" for host, port in places}
        for future in as_completed(asked, LONGEST_S):
            refusal = future.result()
            if refusal is None:
                return
            refusals[asked[future]] = refusal
    except NotInTime:
        pass
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    reasons = ", ".join(f"{address} ({why})" for address, why in refusals.items())
    raise PlanError(
        f"no broker can be reached at {OPTION} = {named!r}: {reasons}; start the brokers, or correct the addresses",
        code="MIXEDMODE_KAFKA_UNREACHABLE",
    )


def _refusal(host: str, port: int) -> str | None:
    """Why a place takes no connection; None: it does."""
    try:
        socket.create_connection((host, port), LONGEST_S).close()
    except TimeoutError:
        return f"no answer within {LONGEST_S:g} s"
    except (OSError, OverflowError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None
