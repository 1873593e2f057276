"""The registry of options: where values come from, which are refused, and what the errors say."""

from __future__ import annotations

import pytest
from mixedmode import OptionError
from mixedmode.planner.options.layers import Layer, resolve_options, session_layer
from mixedmode.planner.options.option import format_value
from mixedmode.planner.options.registry import OPTIONS
from mixedmode.runtime.spec import Settings


def settings_of(**options: str) -> Settings:
    """Settings from ``.option()`` alone; underscores stand for nothing, pass names with ``**``."""
    return resolve_options(Layer(".option()", options)).settings


def error_of(**options: str) -> str:
    with pytest.raises(OptionError) as caught:
        settings_of(**options)
    return str(caught.value)


def test_every_setting_has_one_option() -> None:
    """The registry and Settings name the same fields, each once."""
    assert sorted(option.field for option in OPTIONS) == sorted(Settings.model_fields)


def test_without_options_everything_has_its_default() -> None:
    """No layer says anything: the settings are the documented defaults."""
    assert resolve_options().settings == Settings()


def test_every_default_is_a_value_that_the_option_takes() -> None:
    """A default, written as explain() writes it, is read back as itself."""
    for option in OPTIONS:
        if option.default is not None:
            assert option.parse(format_value(option, option.default)) == option.default, option.name


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("execution.runtime-mode", "Batch", "runtime_mode", "batch"),
        ("execution.interval-during-backlog", "1 min", "interval_during_backlog_ms", 60_000),
        ("execution.checkpointing.interval-during-backlog", "1 min", "interval_during_backlog_ms", 60_000),
        ("execution.checkpointing.interval", "2 s", "checkpoint_interval_ms", 2_000),
        ("execution.checkpointing.min-pause", "500 ms", "checkpoint_min_pause_ms", 500),
        ("execution.checkpointing.timeout", "1 hour", "checkpoint_timeout_ms", 3_600_000),
        ("execution.checkpointing.tolerable-failed-checkpoints", "3", "tolerable_failed_checkpoints", 3),
        ("execution.backlog.final-watermark", "observed", "final_watermark", "observed"),
        ("execution.history.rows-per-epoch", "1000", "history_rows_per_epoch", 1000),
        ("pipeline.max-parallelism", "32768", "max_parallelism", 32_768),
        ("pipeline.parallelism", "4", "parallelism", 4),
        ("pipeline.backlog.watermark-lag-threshold", "5 min", "watermark_lag_threshold_ms", 300_000),
        ("state.checkpoints.num-retained", "5", "retained_checkpoints", 5),
        ("state.local-dir", "/fast", "state_local_dir", "/fast"),
        ("state.local-dir", "file:/fast", "state_local_dir", "/fast"),
        ("sorter.spill-dir", "file:///fast/x y", "sorter_spill_dir", "/fast/x y"),
        ("state.cache-size", "64 MiB", "state_cache_bytes", 64 * 1024**2),
        ("sorter.engine", "arrow", "sorter_engine", "arrow"),
        ("sorter.memory", "32 MiB", "sorter_memory_bytes", 32 * 1024**2),
        ("sorter.spill-dir", "/spill", "sorter_spill_dir", "/spill"),
    ],
)
def test_each_option_sets_its_field(name: str, text: str, field: str, value: object) -> None:
    """An option is parsed into the field it stands for, and changes no other."""
    assert settings_of(**{name: text}) == Settings(**{field: value})


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("execution.runtime-mode", "fast", "none of the allowed values; allowed: batch, streaming, mixed"),
        ("execution.interval-during-backlog", "-1 s", "it is negative"),
        ("execution.checkpointing.interval", "0", "it is 0"),
        ("execution.checkpointing.interval", "10", "it has no unit"),
        ("execution.checkpointing.min-pause", "-1 s", "it is negative"),
        ("execution.checkpointing.timeout", "0 s", "it is 0"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "-1", "it is less than 0"),
        ("execution.backlog.final-watermark", "min", "allowed: auto, max, observed"),
        ("execution.history.rows-per-epoch", "0", "it is less than 1"),
        ("pipeline.max-parallelism", "32769", "it is greater than 32768"),
        ("pipeline.parallelism", "0", "it is less than 1"),
        ("pipeline.backlog.watermark-lag-threshold", "0", "it is 0"),
        ("pipeline.backlog.watermark-lag-threshold", "-5 min", "it is negative"),
        ("state.checkpoints.num-retained", "0", "it is less than 1"),
        ("state.local-dir", " ", "it is empty"),
        ("state.cache-size", "big", "it is not a size"),
        ("sorter.engine", "java", "allowed: auto, spark, arrow"),
        ("sorter.memory", "0", "it is not greater than 0"),
        ("sorter.memory", "262143", "it is less than 256 KiB"),
        ("sorter.spill-dir", "", "it is empty"),
        ("state.local-dir", "s3://bucket/x", "it is not on a local disk; allowed: a local folder on the executors"),
        ("sorter.spill-dir", "memory://x", "it is not on a local disk"),
        ("state.local-dir", "file:x", "File URI cannot be relative"),
    ],
)
def test_a_bad_value_is_refused_by_name_value_and_reason(name: str, text: str, problem: str) -> None:
    """The error names the option, the value, where it came from, and what is allowed."""
    message = error_of(**{name: text})

    assert message.startswith(f"{name} = {text!r} (from .option()) is not allowed: ")
    assert problem in message
    assert "; allowed: " in message


def test_a_bad_value_is_shown_without_its_credentials() -> None:
    """Errors are logged and stored."""
    message = error_of(**{"state.local-dir": "s3://KEY:s3cr3t@bucket/x"})

    assert message.startswith("state.local-dir = 's3://KEY:*") and "s3cr3t" not in message


def test_an_interval_in_the_backlog_below_the_base_interval_is_refused_with_both_names() -> None:
    """FLIP-309: checkpoints in the backlog may be rarer, never more frequent."""
    message = error_of(**{"execution.interval-during-backlog": "5 s", "execution.checkpointing.interval": "30 s"})

    assert "execution.interval-during-backlog = '5 s'" in message
    assert "execution.checkpointing.interval = 30 s (from .option())" in message
    assert "allowed for execution.interval-during-backlog: 0, or a duration of at least 30 s" in message


def test_a_heartbeat_is_well_within_the_expiry() -> None:
    """A heartbeat interval that does not fit into the expiry four times is refused, whichever of both was given."""
    message = error_of(**{"execution.lease.heartbeat-interval": "8 s"})
    assert "allowed for execution.lease.heartbeat-interval: a duration of at most a quarter of 30 s" in message
    message = error_of(**{"execution.lease.expiry": "10 s"})
    assert "allowed for execution.lease.expiry: a duration of at least four times 5 s" in message


def test_the_bound_in_such_an_error_may_be_the_default() -> None:
    """A value that contradicts a default is refused, and the error says that it is the default."""
    message = error_of(**{"execution.lease.heartbeat-interval": "29 s"})

    assert "execution.lease.expiry = 30 s (the default)" in message


@pytest.mark.parametrize("text", ["auto", " AUTO "])
def test_auto_goes_with_any_interval_in_the_backlog(text: str) -> None:
    """There is no interval that the one in the backlog could be shorter than; auto is the default."""
    options = {"execution.interval-during-backlog": "1 ms", "execution.checkpointing.interval": text}
    settings = settings_of(**options)

    assert settings == settings_of(**{"execution.interval-during-backlog": "1 ms"})
    assert (settings.checkpoint_interval_ms, settings.interval_during_backlog_ms) == (None, 1)


@pytest.mark.parametrize("text", ["0", "automatic", "10"])
def test_an_interval_that_is_neither_auto_nor_a_duration_is_refused(text: str) -> None:
    """0 would be none, which the stream cannot do without; the error names what is allowed."""
    message = error_of(**{"execution.checkpointing.interval": text})

    assert f"execution.checkpointing.interval = {text!r}" in message and "allowed: auto, or a duration" in message


@pytest.mark.parametrize("text", ["0", "30 s", "31 s"])
def test_an_interval_in_the_backlog_of_zero_or_at_least_the_base_is_allowed(text: str) -> None:
    """0 means none; equal and longer are used as they are."""
    options = {"execution.interval-during-backlog": text, "execution.checkpointing.interval": "30 s"}

    assert settings_of(**options).checkpoint_interval_ms == 30_000


def test_more_shards_than_key_groups_are_refused() -> None:
    """A shard owns at least one key group."""
    message = error_of(**{"pipeline.parallelism": "129"})

    assert "pipeline.parallelism = '129'" in message
    assert "pipeline.max-parallelism = 128 (the default)" in message


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("execution.runtime-mod", "execution.runtime-mode"),
        ("execution.checkpoint.interval", "execution.checkpointing.interval"),
        ("exection.runtime-mode", "execution.runtime-mode"),
        ("pipeline.parallelsm", "pipeline.parallelism"),
        ("sorter.memoryy", "sorter.memory"),
        ("sorter_memory", "sorter.memory"),
        ("checkpointLocaton", "checkpointLocation"),
        ("checkpoint_location", "checkpointLocation"),
        ("runtime-mode", "execution.runtime-mode"),
        ("checkpointing.interval", "execution.checkpointing.interval"),
    ],
)
def test_an_unknown_option_is_refused_with_what_may_be_meant(written: str, meant: str) -> None:
    """A slip in a name is an error, never silently the sink's."""
    assert error_of(**{written: "x"}) == f"unknown option {written} (from .option()); did you mean {meant}?"


def test_an_unknown_option_unlike_any_names_the_nearest() -> None:
    """Without a near name the error offers three options, not all of them."""
    message = error_of(**{"state.zzzzzzzz": "x"})

    assert message.startswith("unknown option state.zzzzzzzz (from .option()); the nearest are state.")
    assert len(message.split("; ")[1].split(", ")) == 3


def test_other_names_belong_to_the_sink() -> None:
    """Names outside of our name spaces are handed on as written."""
    options = {"path": "out", "checkpointLocation": "ck", "kafka.bootstrap.servers": "h:1", "mode": "x"}

    assert resolve_options(Layer(".option()", options)).sink_options == options


def test_names_are_compared_without_case() -> None:
    """As everywhere in Spark's options."""
    assert settings_of(**{"Execution.Runtime-Mode": "batch"}).runtime_mode == "batch"


def test_one_option_under_both_of_its_names_must_agree() -> None:
    """Two names of one option with two values are refused; with one value they are fine."""
    short, long = "execution.interval-during-backlog", "execution.checkpointing.interval-during-backlog"

    message = error_of(**{short: "1 min", long: "2 min"})

    assert short in message
    assert long in message
    assert settings_of(**{short: "1 min", long: "1 min"}).interval_during_backlog_ms == 60_000


def test_the_nearer_layer_wins() -> None:
    """spark.conf gives way to the file, the file to .option()."""
    name = "execution.checkpointing.interval"
    conf = session_layer({f"spark.mixedmode.{name}": "1 s", "spark.mixedmode.sorter.engine": "arrow"})
    file = Layer("job.toml", {name: "2 s", "state.checkpoints.num-retained": "7"})

    settings = resolve_options(conf, file, Layer(".option()", {name: "3 s"})).settings

    assert settings == Settings(checkpoint_interval_ms=3_000, sorter_engine="arrow", retained_checkpoints=7)


def test_a_nearer_alias_wins_over_the_other_name() -> None:
    """Both names are one option, so the layers decide between them too."""
    conf = session_layer({"spark.mixedmode.execution.interval-during-backlog": "1 min"})
    explicit = Layer(".option()", {"execution.checkpointing.interval-during-backlog": "0"})

    assert resolve_options(conf, explicit).settings.interval_during_backlog_ms == 0


def test_spark_conf_takes_no_options_but_ours() -> None:
    """The prefix spark.mixedmode. is ours alone: anything unknown in it is an error that says where it is."""
    with pytest.raises(OptionError, match=r"unknown option checkpointLocation \(from spark\.conf\)"):
        resolve_options(session_layer({"spark.mixedmode.checkpointLocation": "x"}))


def test_other_spark_conf_is_left_alone() -> None:
    """Entries without the prefix are not looked at."""
    assert session_layer({"spark.sql.shuffle.partitions": "4"}).values == {}


def test_option_errors_are_value_errors() -> None:
    """``except ValueError`` around a bad option works."""
    with pytest.raises(ValueError, match="unknown option"):
        settings_of(**{"execution.nonsense-mode": "x"})
