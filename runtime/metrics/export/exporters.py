"""``mixedmode.metrics``: the metrics of all runs of this process, for Prometheus and for OpenTelemetry."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ....errors import AddressUnavailableError, OptionError, SetupError
from ..events.run_listener import add_listener, remove_listener
from .metric_table import METRICS, Metric
from .metric_values import MetricValues

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from prometheus_client.registry import CollectorRegistry


class MetricsExport:
    """Metrics that are exported until :meth:`close`; also a context manager.

    Args:
        values: the listener that keeps them.
        port: the port that serves them; None: none does.
        ends: what to do at the end.
    """

    def __init__(self, values: MetricValues, port: int | None, *ends: Callable[[], object]) -> None:
        self._values, self._ends = values, ends
        self.port = port

    def close(self) -> None:
        """Ends the export."""
        remove_listener(self._values)
        for end in self._ends:
            end()
        self._ends = ()

    def __enter__(self) -> MetricsExport:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def prometheus(
    port: int | None = 9464, host: str = "127.0.0.1", registry: CollectorRegistry | None = None
) -> MetricsExport:
    """Exports the metrics of all runs of this process to Prometheus, at ``http://host:port/metrics``.

        mixedmode.metrics.prometheus(port=9464)

    Call it before the first ``start()``: earlier events are not counted.

    Args:
        port: the port; 0: any free port (``.port`` of the result); None: no port, only the ``registry``.
        host: the address to listen on; by default only this machine can connect.
        registry: a registry of ``prometheus_client`` that gets the metrics, with all others in it; None: a new one.

    Raises:
        OptionError: ``port`` or ``host`` is not one.
        AddressUnavailableError: an ``OSError``; another process has the port, or this machine does not have the host.
        SetupError: ``prometheus-client`` is not installed.
    """
    _check_address(port, host)
    try:
        import prometheus_client
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
        from prometheus_client.registry import Collector
    except ImportError as error:
        raise SetupError(_missing("mixedmode.metrics.prometheus()", "prometheus-client")) from error
    values, into = MetricValues(), registry or prometheus_client.CollectorRegistry()

    class Runs(Collector):
        """Makes families of the values whenever Prometheus asks."""

        def describe(self) -> Iterable[Any]:
            return []  # that there is none of a name yet does not make it free

        def collect(self) -> Iterator[Any]:
            for metric, by_labels in values.values():
                family: Any = (
                    CounterMetricFamily(metric.name.removesuffix("_total"), metric.doc, labels=metric.all_labels)
                    if metric.kind == "counter"
                    else GaugeMetricFamily(metric.name, metric.doc, labels=metric.all_labels)
                )
                for labels, value in by_labels.items():
                    family.add_metric(labels, value)
                yield family

    collector = Runs()
    server: Any = None
    if port is not None:
        try:
            server, _ = prometheus_client.start_http_server(port, host, into)
        except (OSError, ValueError) as error:  # the second one: a host that is no name
            reason = getattr(error, "strerror", None) or error
            raised = AddressUnavailableError(
                f"metrics.prometheus() cannot listen on host {host!r}, port {port}: {reason};"
                " allowed: an address of this machine, and a port that is free there (0: any)"
            )
            raised.errno = getattr(error, "errno", None)  # callers look for EADDRINUSE
            raise raised from error
    into.register(collector)
    add_listener(values)
    ends = [lambda: into.unregister(collector)]
    if server is not None:
        ends += [server.shutdown, server.server_close]
    return MetricsExport(values, None if server is None else server.server_port, *ends)


def opentelemetry(meter_provider: MeterProvider | None = None) -> MetricsExport:
    """Exports the metrics of all runs of this process to OpenTelemetry, as instruments of the meter ``mixedmode``.

        mixedmode.metrics.opentelemetry()

    Names are those of Prometheus without the endings for unit and kind: ``mixedmode.input_rows``.

    Args:
        meter_provider: the provider; None: that of the process.

    Raises:
        SetupError: ``opentelemetry-api`` is not installed.
    """
    try:
        from opentelemetry.metrics import Observation, get_meter
    except ImportError as error:
        raise SetupError(_missing("mixedmode.metrics.opentelemetry()", "opentelemetry-api")) from error
    values, is_open = MetricValues(), [True]

    def observed(metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            found = dict(values.values())[metric] if is_open else {}
            return [
                Observation(value, dict(zip(metric.all_labels, labels, strict=True))) for labels, value in found.items()
            ]

        return observe

    meter = get_meter("mixedmode", importlib.metadata.version("mixedmode"), meter_provider)
    for metric in METRICS:
        make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
        make(metric.otel_name, [observed(metric)], metric.unit, metric.doc)
    add_listener(values)
    return MetricsExport(values, None, is_open.clear)


def _check_address(port: object, host: object) -> None:
    is_port = isinstance(port, int) and not isinstance(port, bool) and 0 <= port <= 65535
    if port is not None and not is_port:
        raise OptionError(
            f"port of metrics.prometheus() is {port!r}; allowed: a whole number from 1 to 65535, 0 (any free port) or"
            " None (no port)"
        )
    if not isinstance(host, str):
        raise OptionError(f"host of metrics.prometheus() is {host!r}; allowed: a name or an address of this machine")


def _missing(function: str, package: str) -> str:
    return f"{function} needs the package {package}, which is not installed: pip install 'mixedmode[metrics]'"
