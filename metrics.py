"""``mixedmode.metrics``: the metrics of all runs of this process, for Prometheus and for OpenTelemetry."""

from .runtime.metrics.exporters import MetricsExport, opentelemetry, prometheus

__all__ = ["MetricsExport", "opentelemetry", "prometheus"]
