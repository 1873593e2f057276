"""Metrics follow the events, under names that are documented; Prometheus and OpenTelemetry get the same."""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import yaml
from event_support import began, common, epoch, phase
from mixedmode import events
from mixedmode.errors import AddressUnavailableError, OptionError, SetupError
from mixedmode.runtime.metrics.events.run_listener import LISTENERS
from mixedmode.runtime.metrics.export.metric_table import METRICS, as_markdown
from mixedmode.runtime.metrics.export.metric_values import MetricValues
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

ROOT = Path(__file__).parents[3]
OPERATE = ROOT / "examples" / "operate"
NAME = re.compile(r"\bmixedmode_[a-z_]+[a-z]\b")

STAGE = events.StageProgress(uid="s", input_rows=10, output_rows=4, late_rows=2, state_bytes=500, spilled_bytes=7)
SOURCE = events.SourceProgress(name="live", is_backlog=True, finished=False, watermark_ms=40_000)
EPOCH = epoch(
    1, 60_000, input_rows=10, output_rows=4, duration_ms=1500.0, watermark_ms=50_000, stages=(STAGE,), sources=(SOURCE,)
)
FAILED = events.CheckpointFailed(
    **common(61_000),
    checkpoint_id=2,
    trigger="interval",
    outcome="declined",
    error_class="E",
    error="busy",
    is_tolerated=True,
)
DONE = events.CheckpointCompleted(
    **common(70_000), checkpoint_id=3, trigger="interval", kind="checkpoint", duration_ms=250, new_bytes=9
)
LOST = events.DataLost(
    **common(71_000), source="live", epoch=2, topic="t", partition=0, first_offset=5, last_offset=9, fate="gone"
)
AT = events.PositionsKnown(**common(72_000), positions=(events.SourcePosition(name="live", epoch=1, lag_messages=12),))
PROGRESS = events.BacklogProgressed(
    **common(50_000),
    stage="s",
    shards_done=1,
    shards=4,
    rows_read=0,
    rows=30,
    total_rows=None,
    rows_per_second=1.0,
    spilled_bytes=0,
    fraction=0.25,
    eta_s=None,
    elapsed_s=1.0,
)
REAL_TIME = events.RealTimeProgressed(
    **common(73_000),
    epoch=2,
    elapsed_s=3.0,
    rows=60,
    rows_per_second=20.5,
    latencies=events.Latencies(p50_ms=12, p99_ms=40, max_ms=700),
)
RUN = (began(generation=3), phase("backlog"), phase("live", 1), PROGRESS, EPOCH, FAILED, DONE, LOST, AT, REAL_TIME)


def told(*happened: events.RunEvent, now_s: float = 100.0) -> dict[str, Mapping[tuple[str, ...], float]]:
    """All values after some events."""
    values = MetricValues(lambda: now_s)
    for event in happened:
        values.onEvent(event)
    return {metric.short: found for metric, found in values.values()}


def test_every_metric_follows_what_happens() -> None:
    """Each metric of the table has a value once what it is about has happened: the one that the events say."""
    saved = events.SavepointWritten(**common(80_000), path="sp")
    ended = events.RunEnded(**common(90_000), how="failed")
    found = told(*RUN, replace(PROGRESS, eta_s=3.0), saved)
    for_ever = told(*RUN, saved, ended)
    assert {
        name for name, values in {**found, "runs_ended_total": for_ever["runs_ended_total"]}.items() if not values
    } == set()

    assert found["restarts_total"] == {("job",): 2}
    assert found["phase"] == {("job", "live"): 1}
    assert found["backlog_progress_ratio"] == {("job", "s"): 0.25}
    assert (found["input_rows_total"], found["late_rows_total"]) == ({("job",): 10}, {("job", "s"): 2})
    assert found["epoch_duration_seconds_total"] == {("job", "streaming"): 1.5}
    assert found["state_bytes"] == {("job", "s"): 500}
    assert found["checkpoints_failed_total"] == {
        ("job", "failed"): 0,
        ("job", "declined"): 1,
        ("job", "aborted"): 0,
    }
    assert found["lost_messages_total"] == {("job", "live"): 5}
    assert found["source_lag_messages"] == {("job", "live"): 12}
    assert found["source_is_backlog"] == {("job", "live"): 1}
    assert (found["realtime_rows"], found["realtime_rows_per_second"]) == ({("job",): 60}, {("job",): 20.5})
    assert found["realtime_latency_seconds"] == {("job", "0.5"): 0.012, ("job", "0.99"): 0.04, ("job", "1"): 0.7}
    silent = told(*RUN, replace(REAL_TIME, rows_per_second=0.0, latencies=None))
    assert (silent["realtime_rows"], silent["realtime_latency_seconds"]) == ({("job",): 60}, {})
    assert told(*RUN, phase("finish", 2))["realtime_rows"] == {}, "no epoch runs in Real-Time Mode"


def test_what_alerts_wait_for_begins_with_0() -> None:
    """A count that first appears as 1 has not increased, as Prometheus sees it."""
    found = told(*(event for event in RUN if not isinstance(event, events.DataLost)))
    assert set(found["runs_ended_total"].values()) == set(found["lost_messages_total"].values()) == {0}


def test_what_is_left_of_a_run_that_has_ended() -> None:
    """Counts stay, and that it does not run; what told a state is gone, so that no alert fires for it."""
    found = told(*RUN, events.RunEnded(**common(90_000), how="stopped"))
    ended = {("job", "finished"): 0, ("job", "stopped"): 1, ("job", "failed"): 0}
    assert (found["up"], found["runs_ended_total"]) == ({("job",): 0}, ended)
    assert found["input_rows_total"] == {("job",): 10}
    assert {metric.short for metric in METRICS if metric.while_running and found[metric.short]} == set()
    again = told(*RUN, events.RunEnded(**common(90_000), how="stopped"), began(95_000, generation=4), EPOCH)
    assert (again["up"], again["restarts_total"], again["input_rows_total"]) == (
        {("job",): 1},
        {("job",): 3},
        {("job",): 20},
    )


def test_ages_grow_while_nothing_happens() -> None:
    """Lag and age of the checkpoint are as of the question, not of the last event."""
    for now_s in (100.0, 5_000.0):
        found = told(*RUN, now_s=now_s)
        assert found["watermark_lag_seconds"] == {("job",): now_s - 50}
        assert found["source_watermark_lag_seconds"] == {("job", "live"): now_s - 40}
        assert found["last_checkpoint_age_seconds"] == {("job",): now_s - 70}
    assert told(began(), now_s=30.0)["last_checkpoint_age_seconds"] == {("job",): 30}


def test_names_follow_the_conventions() -> None:
    """Counters and they alone end in ``_total``; no unit but base units; every name is there once, for both worlds."""
    for metric in METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert re.fullmatch(r"mixedmode(_[a-z]+)+", metric.name)
        assert not re.search(r"_(ms|millis|minutes|hours|kb|mb|percent)(_|$)", metric.name)
        assert {"s": "_seconds", "By": "_bytes"}.get(metric.unit, "") in metric.name
    for names in ([metric.name for metric in METRICS], [metric.otel_name for metric in METRICS]):
        assert len(set(names)) == len(METRICS)


def tell(*happened: events.RunEvent) -> None:
    for mailbox in LISTENERS.mailboxes:
        for event in happened:
            mailbox.put(event)
        assert mailbox.wait(60)


def test_prometheus_gets_them_all() -> None:
    """What is served is what Prometheus reads, on the loopback; after close() it is not served, and nobody listens."""
    with mixedmode.metrics.prometheus(port=0) as served:
        tell(*RUN)
        url = f"http://127.0.0.1:{served.port}/metrics"
        text = urllib.request.urlopen(url, timeout=60).read().decode()
    assert 'mixedmode_input_rows_total{query="job"} 10.0' in text
    assert 'mixedmode_checkpoints_failed_total{outcome="declined",query="job"} 1.0' in text
    for metric in METRICS:
        assert f"# TYPE {metric.name} {metric.kind}" in text
    assert LISTENERS.mailboxes == []
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=60)


@pytest.mark.parametrize("port", [-1, 65536, 10**20, "9464", 1.5, True])
def test_prometheus_on_what_is_no_port(port: Any) -> None:
    """The error names the argument, the value and what is allowed, before anything listens."""
    with pytest.raises(OptionError, match=rf"^port of metrics\.prometheus\(\) is {port!r}; allowed: a whole number"):
        mixedmode.metrics.prometheus(port=port)
    with pytest.raises(OptionError, match=r"^host of metrics\.prometheus\(\) is 5; allowed: "):
        mixedmode.metrics.prometheus(port=0, host=5)  # type: ignore[arg-type]
    assert LISTENERS.mailboxes == []


@pytest.mark.parametrize("host", ["nowhere.invalid", "a\0b", "x" * 300, "203.0.113.7"])
def test_prometheus_on_a_host_that_is_not_this_machine(host: str) -> None:
    """The error names host and port; it is an ``OSError``, too."""
    with pytest.raises(AddressUnavailableError, match=r"^metrics\.prometheus\(\) cannot listen on host ") as caught:
        mixedmode.metrics.prometheus(port=9464, host=host)
    assert isinstance(caught.value, OSError) and f"host {host!r}, port 9464: " in str(caught.value)
    assert LISTENERS.mailboxes == []


def test_prometheus_on_a_port_that_is_taken() -> None:
    """Whoever has it goes on."""
    with mixedmode.metrics.prometheus(port=0) as served:
        with pytest.raises(
            AddressUnavailableError, match=rf"port {served.port}: Address already in use; allowed: "
        ) as taken:
            mixedmode.metrics.prometheus(port=served.port)
        assert taken.value.errno == errno.EADDRINUSE
        urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=60)


def test_prometheus_in_a_registry_of_the_user() -> None:
    """A program that serves metrics of its own has them served with those, and no port is opened."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    with mixedmode.metrics.prometheus(port=None, registry=registry) as offered:
        tell(*RUN)
        assert offered.port is None
        assert registry.get_sample_value("mixedmode_restarts_total", {"query": "job"}) == 2
    assert registry.get_sample_value("mixedmode_restarts_total", {"query": "job"}) is None


def test_opentelemetry_gets_the_same() -> None:
    """Every metric that has values is an instrument of the meter, with the same values and labels."""
    reader = InMemoryMetricReader()
    with mixedmode.metrics.opentelemetry(MeterProvider([reader])):
        tell(*RUN)
        found = _points(reader)
    assert found["mixedmode.input_rows"] == [({"query": "job"}, 10)]
    assert found["mixedmode.state"] == [({"query": "job", "stage": "s"}, 500)]
    expected = told(*RUN)
    assert set(found) == {metric.otel_name for metric in METRICS if expected[metric.short]}
    assert LISTENERS.mailboxes == []
    assert _points(reader) == {}


def _points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], float]]]:
    data = reader.get_metrics_data()
    if data is None or not data.resource_metrics:
        return {}
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    return {one.name: [(dict(p.attributes), p.value) for p in one.data.data_points] for one in metrics}


@pytest.mark.parametrize(
    ("package", "call"),
    [("prometheus_client", mixedmode.metrics.prometheus), ("opentelemetry.metrics", mixedmode.metrics.opentelemetry)],
)
def test_a_missing_package_is_named(package: str, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is not installed the error says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SetupError, match=r"is not installed: pip install 'mixedmode\[metrics\]'"):
        call()
    assert LISTENERS.mailboxes == []


def test_the_page_has_the_table() -> None:
    """The page on operating has the table of the metrics, as it is in the code."""
    assert as_markdown() in (ROOT / "docs" / "operate.md").read_text()


def test_alerts_and_dashboard_name_what_there_is() -> None:
    """The example alerts are rules of Prometheus, the dashboard is one of Grafana; both ask for metrics that exist."""
    known = {metric.name for metric in METRICS}
    alerts = OPERATE / "alerts.yml"
    rules = [rule for group in yaml.safe_load(alerts.read_text())["groups"] for rule in group["rules"]]
    for rule in rules:
        assert (
            {"alert", "expr", "labels", "annotations"} <= set(rule) <= {"alert", "expr", "labels", "annotations", "for"}
        )
        assert set(NAME.findall(rule["expr"])) and set(NAME.findall(rule["expr"])) <= known, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
    assert len({rule["alert"] for rule in rules}) == len(rules)
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "rules", str(alerts)], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr

    board = json.loads((OPERATE / "dashboard.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert expressions
    for expression in expressions:
        assert set(NAME.findall(expression)) <= known, expression
    places = [panel["gridPos"] for panel in board["panels"]]
    taken = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken)), "panels overlap"
    assert max(x for x, _ in taken) < 24
