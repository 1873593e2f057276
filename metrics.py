"""``mixedmode.metrics``: the metrics of all runs of this process, for Prometheus and for OpenTelemetry.

    mixedmode.metrics.prometheus(port=9464)

Called before the first ``start()``, it offers them at ``http://127.0.0.1:9464/metrics``.
"""

from .runtime.metrics.export.exporters import MetricsExport, opentelemetry, prometheus

__all__ = ["MetricsExport", "opentelemetry", "prometheus"]
