"""Merges the values of options from all places into :class:`~mixedmode.runtime.spec.Settings`.

An option may be set in three places; the nearer one wins, whatever the order in which they were set:
``spark.conf`` (``spark.mixedmode.<option>``) < a TOML file (``optionsFile``) < ``.option()``.
Names in our four name spaces (``execution``, ``pipeline``, ``state``, ``sorter``) must be known; every other name that
comes from the file or from ``.option()`` belongs to the sink.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from ...errors import OptionError
from ...runtime.spec import Settings
from ...runtime.support.redaction import redacted
from .option import Option, format_value
from .registry import OPTIONS

#: Where options live in ``spark.conf``.
CONF_PREFIX = "spark.mixedmode."
#: So many names are offered for one that is like none.
_MOST_NAMED = 3
#: First words of option names that are ours; an unknown name in them is an error and never goes to the sink.
NAME_SPACES = ("execution.", "pipeline.", "state.", "sorter.")
#: What the writer itself takes of the names without a dot, by their lower case; ``path`` is too short to be guessed.
_WRITER_OPTIONS = {"checkpointlocation": "checkpointLocation"}
#: How alike (0 to 1) a name outside of our name spaces must be to a known one to be taken for a slip.
_TYPO_LIKENESS = 0.85

_BY_NAME: dict[str, Option] = {name: option for option in OPTIONS for name in option.names}
_BY_FIELD: dict[str, Option] = {option.field: option for option in OPTIONS}
#: Names of the job's options without their first word (``runtime-mode``): no sink's options look like these.
_BY_SHORT_NAME: dict[str, str] = {
    name.partition(".")[2]: name for name in _BY_NAME if re.match(r"(execution|pipeline)\..+[-.]", name)
}


@dataclass(frozen=True)
class Layer:
    """Options from one place, as written."""

    #: Where they come from, for error messages: ".option()", "spark.conf", "job.toml".
    origin: str
    values: Mapping[str, str]
    #: True if names outside of our name spaces are the sink's; False: there must be none.
    takes_sink_options: bool = True

    def with_value(self, name: str, text: str | None) -> Layer:
        """The layer with another value of an option, whose upper and lower case do not matter; None: without it."""
        others = {written: value for written, value in self.values.items() if written.lower() != name.lower()}
        return replace(self, values=others if text is None else {**others, name: text})


@dataclass(frozen=True)
class OptionText:
    """A value as written, and where it came from."""

    name: str
    text: str
    origin: str


@dataclass(frozen=True)
class ResolvedOptions:
    """What all layers together say."""

    settings: Settings
    #: Options that are not ours, for the sink; keys as written, each once whatever its case.
    sink_options: dict[str, str]
    #: What was set, by field of Settings; all others have their defaults.
    given: Mapping[str, OptionText]


def session_layer(conf: Mapping[str, str]) -> Layer:
    """The layer of ``spark.conf``: its ``spark.mixedmode.*`` entries."""
    values = {key[len(CONF_PREFIX) :]: value for key, value in conf.items() if key.startswith(CONF_PREFIX)}
    return Layer("spark.conf", values, takes_sink_options=False)


def resolve_options(*layers: Layer) -> ResolvedOptions:
    """Merge the layers, the farthest first, and check every value.

    Raises:
        OptionError: a name is unknown, a value is not allowed, or two values contradict each other.
    """
    given: dict[str, OptionText] = {}
    sink_options: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for field, found in _known(layer, sink_options).items():
            given[field] = found
    values = {field: _parse(_BY_FIELD[field], found) for field, found in given.items()}
    settings = Settings(**values)
    _cross_check(settings, given)
    return ResolvedOptions(settings, dict(sink_options.values()), given)


def _known(layer: Layer, sink_options: dict[str, tuple[str, str]]) -> dict[str, OptionText]:
    """The layer's values by field of Settings; what is not ours goes to ``sink_options``."""
    found: dict[str, OptionText] = {}
    for written, text in layer.values.items():
        name = written.lower()
        option = _BY_NAME.get(name)
        if option is None:
            _check_not_ours(written, layer)
            sink_options[name] = (written, text)
            continue
        other = found.get(option.field)
        if other is not None and other.text != text:
            raise OptionError(
                f"{other.name} = {other.text!r} and {written} = {text!r} (both from {layer.origin}) are one option;"
                " set it once",
                code="MIXEDMODE_OPTION_CONFLICT",
            )
        found[option.field] = OptionText(written, text, layer.origin)
    return found


def _check_not_ours(written: str, layer: Layer) -> None:
    """Raise if the unknown name cannot be the sink's: it is in our name spaces, or nearly a name that is known here."""
    name = written.lower()
    known = {name: name for name in _BY_NAME} | (_WRITER_OPTIONS if layer.takes_sink_options else {})
    slip = _BY_SHORT_NAME.get(name) or _nearest(name, known, _TYPO_LIKENESS)
    if slip is not None and slip.lower() == name:
        return
    if slip is None and layer.takes_sink_options and not name.startswith(NAME_SPACES):
        return
    near = slip or _nearest(name, known, 0.6)
    like = [known[one] for one in difflib.get_close_matches(name, known, n=_MOST_NAMED, cutoff=0)]
    hint = f"did you mean {near}?" if near else f"the nearest are {', '.join(like)}"
    raise OptionError(f"unknown option {written} (from {layer.origin}); {hint}", code="MIXEDMODE_OPTION_UNKNOWN")


def _nearest(name: str, known: Mapping[str, str], likeness: float) -> str | None:
    """The known name (keys in lower case) that is most like a name; None: none is so alike."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=likeness)
    return known[found[0]] if found else None


def _parse(option: Option, given: OptionText) -> Any:
    try:
        return option.parse(given.text)
    except ValueError as error:
        raise OptionError(
            f"{given.name} = {redacted(given.text)!r} (from {given.origin}) is not allowed: {error}; allowed:"
            f" {option.allowed}"
        ) from error


def _cross_check(settings: Settings, given: Mapping[str, OptionText]) -> None:
    """Rules that tie two options together."""
    if 0 < settings.interval_during_backlog_ms < (settings.checkpoint_interval_ms or 0):
        _contradiction(
            settings,
            given,
            "interval_during_backlog_ms",
            "checkpoint_interval_ms",
            "checkpoints in the backlog must not be more frequent than afterwards",
            "0, or a duration of at least",
        )
    if settings.lease_expiry_ms < 4 * settings.lease_heartbeat_ms:
        field, bound = "lease_heartbeat_ms", "lease_expiry_ms"
        allowed = "a duration of at most a quarter of"
        if field not in given:
            field, bound, allowed = bound, field, "a duration of at least four times"
        why = "a driver must be able to miss a heartbeat or two without losing its location"
        _contradiction(settings, given, field, bound, why, allowed)
    if settings.parallelism is not None and settings.parallelism > settings.max_parallelism:
        _contradiction(
            settings,
            given,
            "parallelism",
            "max_parallelism",
            "a shard owns at least one key group",
            "a whole number of at most",
        )


def _contradiction(
    settings: Settings, given: Mapping[str, OptionText], field: str, bound_field: str, why: str, allowed: str
) -> NoReturn:
    value, bound = _BY_FIELD[field], _BY_FIELD[bound_field]
    found, limit = given[field], given.get(bound_field)
    limit_text = format_value(bound, getattr(settings, bound_field))
    source = "the default" if limit is None else f"from {limit.origin}"
    raise OptionError(
        f"{found.name} = {found.text!r} (from {found.origin}) does not go with {bound.name} = {limit_text} ({source}): "
        f"{why}; allowed for {value.name}: {allowed} {limit_text}",
        code="MIXEDMODE_OPTION_CONFLICT",
    )
