"""The option by which users choose how often a message may be there, and the client that the choice rests on."""

from __future__ import annotations

from importlib.util import find_spec

from .....errors import OptionError

#: Named as Flink's.
OPTION = "execution.sink.delivery-guarantee"


def check_client() -> None:
    """Raise OptionError if the client is not installed that sends exactly once."""
    if find_spec("confluent_kafka") is None:
        raise OptionError(
            'format "kafka" sends exactly once with the package confluent-kafka, which is not installed: pip install'
            f" 'mixedmode[kafka]' (on the executors, too), or set {OPTION} = at-least-once, which sends with Spark's"
            " own client",
            code="MIXEDMODE_CONNECTOR_MISSING",
        )


def check_real_time_client() -> None:
    """Raise OptionError if the client is not installed by which shards send in Real-Time Mode."""
    if find_spec("confluent_kafka") is None:
        raise OptionError(
            "trigger(realTime=…) sends with the package confluent-kafka, which is not installed: pip install"
            " 'mixedmode[kafka]' (on the executors, too), or use trigger(processingTime=…)",
            code="MIXEDMODE_CONNECTOR_MISSING",
        )
