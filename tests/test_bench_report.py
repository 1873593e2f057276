"""The benchmarks' report: verdicts, ratios, resuming and publishing; and the driver that they measure.

No benchmark runs here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixedmode.runtime.driver.checkpoint import housekeeping
from mixedmode.state.store.state_manifest import _LOGS_MAX

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
_SPARK_TYPES = {"int64": "long", "string": "string", "double": "double", "timestamp[us, tz=UTC]": "timestamp"}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The benchmarks' modules by name, with an empty results folder; forgotten afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("MIXEDMODE_BENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MIXEDMODE_BENCH_DATA", str(tmp_path / "data"))
    before = set(sys.modules)
    yield lambda name: __import__(name)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]


def measurement(bench: Any, **changes: Any) -> Any:
    """A measurement of two ways, one four times as fast, on an idle machine."""
    given = {
        "name": "one",
        "title": "One thing",
        "parameters": {"rows": 12},
        "rows": 12,
        "seconds": {"slow": [4.0, 5.0, 4.0], "fast": [1.0]},
        "baselines": ("slow",),
        "findings": {"aggregate-stock": 4.0},
        "preset": "full",
        "machine": {
            "idle": True,
            "busy": 0.0,
            "at": "2026-01-02 03:04",
            "cores": 2,
            "spark": "4.3.0",
            "python": "3.11.7",
        },
        **changes,
    }
    return bench("results").Measurement(**given)


def test_ways_are_compared_by_medians_fastest_first(bench: Any) -> None:
    """Each way has its rows per second and how many times faster than the baseline it is."""
    header, *rows = bench("report").ways_table(measurement(bench))
    assert header == ["way", "median s", "rows/s", "x slow", "rounds"]
    assert rows == [["fast", "1", "12", "4.00", "1"], ["slow", "4", "3", "1.00", "3"]]


def test_ways_are_compared_by_cpu_time_too(bench: Any) -> None:
    """Where CPU-seconds are known, they and their ratio stand beside those of time."""
    cpu_s = {"slow": [6.0, 7.0, 6.0], "fast": [2.0]}
    header, *rows = bench("report").ways_table(measurement(bench, cpu_s=cpu_s))
    assert header == ["way", "median s", "rows/s", "x slow", "CPU-s", "x slow, by CPU", "rounds"]
    assert rows == [["fast", "1", "12", "4.00", "2", "3.00", "1"], ["slow", "4", "3", "1.00", "6", "1.00", "3"]]


@pytest.mark.parametrize(
    ("figure", "preset", "expected"),
    [(10.0, "full", "pass"), (9.99, "full", "miss"), (11.0, "small", "pass (small sizes)")],
)
def test_a_verdict_names_sizes_that_are_not_the_promised_ones(
    bench: Any, figure: float, preset: str, expected: str
) -> None:
    """A figure is held against its limit, and small sizes are called so."""
    found = measurement(bench, findings={"aggregate-stock": figure}, preset=preset)
    table = bench("report").targets_table([found])
    (row,) = [row for row in table if row[3] == expected]
    assert row[1] == "at least 10.00 x"
    assert sum(row[3] == "not measured" for row in table) == len(bench("targets").TARGETS) - 1


def test_upper_limits_are_upper_limits(bench: Any) -> None:
    """A target that says "at most" is missed above its limit."""
    target = bench("targets").BY_ID["latency-processor-large"]
    assert (target.is_met(0.35), target.is_met(0.36)) == (True, False)


def test_a_resumed_run_knows_what_it_has(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements survive on disk; only a resumed run with equal parameters takes them for its own."""
    results = bench("results")
    found = measurement(bench)
    results.save(found)
    assert results.load_all() == [found]
    assert not results.known("one", {"rows": 12})
    monkeypatch.setenv("MIXEDMODE_BENCH_RESUME", "1")
    assert results.known("one", {"rows": 12})
    assert not results.known("one", {"rows": 13})


def test_figures_go_between_their_markers(bench: Any) -> None:
    """Only what is between the markers changes, and publishing twice changes nothing more."""
    publish = bench("publish")
    text = "before\n<!-- figures: begin -->\nwhat was there\n<!-- figures: end -->\nafter\n"
    lines = publish.figures([measurement(bench)])
    once = publish.between(text, "figures", lines)
    assert once.startswith("before\n<!-- figures: begin -->\n")
    assert once.endswith("<!-- figures: end -->\nafter\n")
    assert "what was there" not in once
    assert "| fast | 1 | 12 | 4.00 | 1 |" in once
    assert publish.between(once, "figures", lines) == once
    with pytest.raises(ValueError, match="growth: begin"):
        publish.between(text, "growth", [])


def test_figures_of_a_busy_machine_say_so(bench: Any) -> None:
    """The line above the tables tells when and where, and whether other things ran."""
    quiet = measurement(bench)
    loud = measurement(bench, name="two", machine={**quiet.machine, "idle": False, "busy": 0.9})
    publish = bench("publish")
    assert "an otherwise idle machine" in publish.provenance([quiet])
    assert "busy with other things when 1 of 2 measurements began" in publish.provenance([quiet, loud])
    printed = "\n".join(bench("report").closing_lines([quiet, loud]))
    assert printed.count("the machine was busy before it began: 90% of its cores") == 1


def test_what_was_not_measured_again_stays_published(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run of one benchmark replaces its own figures only; small sizes are not published."""
    publish, results = bench("publish"), bench("results")
    readme = tmp_path / "README.md"
    readme.write_text("<!-- figures: begin -->\n<!-- figures: end -->\n")
    for module, name, path in (
        (publish, "README", readme),
        (publish, "PUBLISHED", tmp_path / "measured"),
        (bench("chart"), "main", lambda: None),
        (sys, "argv", ["publish.py", "figures"]),
    ):
        monkeypatch.setattr(module, name, path)
    for one in (measurement(bench), measurement(bench, name="two", title="Another", findings={"life-stock": 31.0})):
        results.save(one)
    publish.main()
    for path in results.results_folder().iterdir():
        path.unlink()
    results.save(measurement(bench, seconds={"slow": [9.0], "fast": [1.0]}, findings={"aggregate-stock": 9.0}))
    publish.main()
    text = readme.read_text()
    assert "| slow | 9 | 1 | 1.00 | 1 |" in text
    assert "| slow | 4 |" in text, "of the other"
    assert text.count("9.00 x | miss") == text.count("31.00 x | pass") == 1
    assert "not measured" not in text
    results.save(measurement(bench, preset="tiny"))
    with pytest.raises(SystemExit, match="other sizes than 'full'"):
        publish.main()
    assert readme.read_text() == text


def test_the_readme_has_the_markers(bench: Any) -> None:
    """What the tool fills in is there."""
    publish = bench("publish")
    for name in ("figures", "growth"):
        assert "filled" in publish.between(publish.README.read_text(), name, ["filled"])


def test_a_race_runs_the_ways_in_turn(bench: Any) -> None:
    """A, B, A, B: noise hits both; a way whose rounds are used up is left out."""
    order: list[str] = []
    ways = {"a": lambda _: order.append("a"), "b": lambda _: order.append("b")}
    race = bench("race").Race(ways, {"a": 3, "b": 1})
    for _ in range(4):
        race.round()
    assert order == ["a", "b", "a", "a"]
    assert {way: len(seconds) for way, seconds in race.seconds.items()} == {"a": 3, "b": 1}


def test_growth_has_the_base_point_on_every_axis(bench: Any) -> None:
    """A table has a row for each point, and the shared point is measured once."""
    growth = bench("growth")
    points = growth.points(100_000)
    shapes = {point.shape for point in points}
    assert [point.axis for point in points].count("rows") == 4
    assert len(shapes) == len(points) - 5
    found = [
        measurement(
            bench,
            name=growth.name(job, shape),
            parameters={"base": 100_000, "cut": ["stock, one micro-batch"] if shape.skew == "hot" else []},
            seconds={
                "mixed": [2.0],
                "stock, one micro-batch": [8.0],
                **({} if job == "processor" else {"plain batch": [1.0], "DuckDB, without Spark": [0.5]}),
            },
        )
        for job in growth.JOBS
        for shape in shapes
    ]
    lines = growth.lines(found)
    assert sum(line.startswith("| skew: ") for line in lines) == 8
    assert "| rows: 300,000 | 300,000 | 10,000 | 2.00 | 0.15 | 1.00 | 0.50 | 8.00 | 4.00 | 0.50 | 0.25 |" in lines
    assert "| rows: 300,000 | 300,000 | 10,000 | 2.00 | 0.15 | 8.00 | 4.00 |" in lines, "a processor has no plain batch"
    assert "| skew: hot half | 100,000 | 10,000 | 2.00 | 0.05 | > 8.00 | > 4.00 |" in lines, "stock was stopped"


def test_the_picture_of_growth_names_its_axes_and_draws_all_ways(bench: Any, tmp_path: Path) -> None:
    """Every axis has a name, all of them have one kind of scale, and each way of a job is a line in it."""
    figures = pytest.importorskip("matplotlib.figure")
    growth = bench("growth")
    found = [
        measurement(
            bench,
            name=growth.name(job, shape),
            parameters={"base": 100_000},
            seconds={way: [2.0] for way in growth.WAYS[job]},
        )
        for job in growth.JOBS
        for shape in {point.shape for point in growth.points(100_000)}
    ]
    drawn: list[Any] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures.Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
        growth.plot(found, tmp_path / "growth.svg")
    places = drawn[0].axes
    assert all(place.get_xlabel() for place in places)
    assert {place.get_yscale() for place in places} == {"log"}
    named = [place.get_ylabel() for place in places if place.get_ylabel()]
    assert named == ["aggregate: seconds", "processor: seconds"]
    assert [len(place.lines) for place in places] == [4] * 6 + [2] * 6


def test_a_resumed_run_knows_what_was_measured(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same parameters are the same, as lists or as tuples; what a run has added is not asked for."""
    results = bench("results")
    monkeypatch.setenv("MIXEDMODE_BENCH_RESUME", "1")
    results.save(measurement(bench, name="again", parameters={"shards": (1, 2), "rows": 3, "cut": ["stock"]}))
    assert results.known("again", {"shards": (1, 2), "rows": 3})
    assert not results.known("again", {"shards": (1, 4), "rows": 3})
    assert not results.known("again", {"shards": (1, 2), "rows": 3, "limit": 7})


def test_peers_are_shown_by_what_they_cost(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least CPU first; one that was stopped has taken more than that, and one that has lost rows is an error."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "peers"))
    peers = bench("run")
    cheap, dear = peers.PEERS[3], peers.PEERS[0]
    found = [
        measurement(
            bench,
            name=f"peers-{peer.job}",
            parameters={"is_cut": seconds > 50},
            seconds={peer.label: [seconds], "CPU": [cpu_s], "start": [2.0]},
        )
        for peer, seconds, cpu_s in ((dear, 50.1, 90.0), (cheap, 20.0, 30.0))
    ]
    _, first, second = peers.table(found)
    assert first[:4] == [cheap.label, "20.0", "30.0", "2.0"]
    assert second[:4] == [dear.label, "more than 50.1", "more than 90.0", "2.0"]
    busy = [replace(one, machine={**one.machine, "idle": False}) for one in found]
    assert next(row[:2] for row in peers.table(busy)) == ["what", "CPU seconds"]
    peers.check(10, "Somebody", {"rows": 10.0})
    peers.check(10, "Somebody who does not tell", {})
    with pytest.raises(RuntimeError, match="Somebody has counted 9 rows of 10"):
        peers.check(10, "Somebody", {"rows": 9.0})


@pytest.mark.parametrize("skew", ["uniform", "zipf-1.0", "zipf-1.5", "hot"])
def test_keys_have_the_skew_that_they_are_said_to_have(bench: Any, skew: str) -> None:
    """The hottest key has about the share of rows that the law gives it, and keys are in range."""
    dataset = bench("dataset")
    shape = dataset.Shape(20_000, 1_000, skew=skew, files=1)
    (batch,) = dataset.batches(shape, 0)
    numbers = {key: number for number, key in enumerate(dataset.scattered(np.arange(1_000)).tolist())}
    keys = [numbers[key] for key in batch.column("key").to_pylist()]
    weights = {"uniform": 1 / 1_000, "hot": 0.5, "zipf-1.0": 1 / 7.485, "zipf-1.5": 1 / 2.549}
    assert keys.count(0) / len(keys) == pytest.approx(weights[skew], rel=0.1, abs=0.001)
    assert min(keys) == 0


@pytest.mark.parametrize("kind", ["scattered", "sequential", "uuid", "composite"])
def test_there_are_as_many_keys_as_asked_for_of_each_kind(bench: Any, kind: str) -> None:
    """Different keys stay different, whatever the seed, and columns have the types that Spark is told."""
    dataset = bench("dataset")
    shape = dataset.Shape(1_000, 1_000, files=1, each_key_once=True, key=kind)
    (batch,), (other,) = (list(dataset.batches(one, 0)) for one in (shape, replace(shape, seed=1)))
    found = [batch.select(shape.key_columns).to_pylist(), other.select(shape.key_columns).to_pylist()]
    keys = [{tuple(row.values()) for row in rows} for rows in found]
    assert len(keys[0]) == 1_000
    assert keys[0] == keys[1]
    assert [f"{name} {_SPARK_TYPES[str(batch.schema.field(name).type)]}" for name in batch.schema.names] == (
        shape.ddl.split(", ")
    )
    if kind in ("scattered", "composite"):
        sample = batch.column("key").to_numpy()
        assert abs(sample.astype(float)).mean() > 2**61
        if kind == "composite":
            assert [len(set(batch.column(name).to_pylist())) for name in shape.key_columns] == [dataset.SITES, 10]


def test_a_dataset_is_made_once_and_is_the_same_again(bench: Any) -> None:
    """All rows are there, in as many files as asked for, every key once if asked for; made anew they are equal."""
    import pyarrow.parquet as pq

    dataset = bench("dataset")
    shape = dataset.Shape(1_000, 1_000, width="text", files=3, each_key_once=True)
    made = dataset.dataset(shape)
    rows = pq.read_table(made.folder)
    assert sorted(rows.column("key").to_pylist()) == sorted(dataset.scattered(np.arange(1_000)).tolist())
    assert len(made.files) == 3
    changed_at = [Path(path).stat().st_mtime_ns for path in made.files]
    assert [Path(path).stat().st_mtime_ns for path in dataset.dataset(shape).files] == changed_at
    again = [row for number in range(3) for batch in dataset.batches(shape, number) for row in batch.to_pylist()]
    assert again == rows.to_pylist()


def test_the_chart_shows_what_is_published(bench: Any) -> None:
    """The bars of the start page are the published medians, to scale; the picture is drawn anew when those change."""
    chart = bench("chart")
    published = chart.FIGURES.read_text()
    assert chart.PICTURE.read_text() == chart.svg(published), "draw it: python benchmarks/chart.py"
    title, seconds = chart.seconds_of(published, chart.MEASUREMENT)
    assert title.startswith("Backlog, aggregate: ")
    drawn = re.findall(r'class="(?:bar|ours)" [^>]*width="([0-9.]+)"', chart.svg(published))
    widths = [float(width) for width in drawn]
    expected = [seconds[way] for way, _, _ in chart.BARS]
    assert [width / widths[0] for width in widths] == pytest.approx([one / expected[0] for one in expected], abs=0.001)
    with pytest.raises(ValueError, match="no measurement begins with 'Tea'"):
        chart.seconds_of(published, "Tea")


def test_a_checkpoint_asks_an_object_store_for_little(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not the first of a run writes its claim, ``_metadata`` and two markers, and looks for other claims;
    all else is the sink's, which looks at each staged file, copies it, and removes the staged one."""
    monkeypatch.setattr(housekeeping, "CLEAN_EVERY_MS", 1 << 60)
    shards = 3
    with bench("driver_cost").driver(tmp_path, shards, counted=True) as running:
        for _ in range(2):
            running.epoch()
            running.tidy()  # the first checkpoint's round removes files beside the epoch
            running.requests()
            running.checkpoint()
        assert running.requests() == {"put": 4, "list": 1, "look": shards, "copy": shards, "delete": shards}


def test_an_epoch_asks_the_store_for_no_more_when_many_have_been_before(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs, their checkpoints and the cleaning behind each make no more requests late than early, over as many of
    them as lie between two compactions."""
    monkeypatch.setattr(housekeeping, "CLEAN_EVERY_MS", 0)
    monkeypatch.setattr(housekeeping, "KEEP_MS", 0)
    found = []
    with bench("driver_cost").driver(tmp_path, 2, counted=True) as running:
        for _ in range(10):
            for _ in range(_LOGS_MAX):
                running.epoch()
                running.checkpoint()
                running.tidy()
            found.append(running.requests())
    *_, last = (sum(requests.values()) for requests in found)
    assert last <= max(sum(requests.values()) for requests in found[1:4])
