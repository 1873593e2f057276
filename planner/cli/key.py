"""``mixedmode inspect PATH --key …``: everything about one key, which is given as text."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from ...runtime.checkpoints.metadata import OperatorState
from ...runtime.tasks.state.scan_task import spark_type
from ...state.keys.registry import schema_from_json
from .console import misused, moment_text, print_facts, say


def key_values(operator: OperatorState, given: list[str]) -> list[Any]:
    """The key's columns from the texts of the command line."""
    if operator.layout is None:
        return list(given)
    labels, schema = operator.layout.key_labels, schema_from_json(operator.layout.key_schema)
    types = [field.type for field in schema]
    described = ", ".join(f"{label} {_sql(one)}" for label, one in zip(labels, types, strict=True))
    if len(given) != len(labels):
        raise misused(
            f"--key is given {len(given)} times, the key has {len(labels)} columns: {described}; give it once for each"
        )
    values = []
    for label, data_type, text in zip(labels, types, given, strict=True):
        try:
            values.append(_value(data_type, text))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise misused(
                f"--key {text!r} is no {_sql(data_type)}, which key column {label!r} is ({error}); the key is:"
                f" {described}"
            ) from error
    return values


def _sql(data_type: pa.DataType) -> str:
    return spark_type(data_type).simpleString()


def _value(data_type: pa.DataType, given: Any) -> Any:
    """A value of the key from its text, or from a part of its JSON."""
    if pa.types.is_nested(data_type):
        return _nested(data_type, json.loads(given) if isinstance(given, str) else given)
    if given is None or not isinstance(given, str):
        return pa.scalar(given, data_type).as_py()
    if pa.types.is_timestamp(data_type):
        return _local_time(given)
    return pa.scalar(given).cast(data_type).as_py()


def _nested(data_type: pa.DataType, given: Any) -> Any:
    if given is None:
        return None
    if pa.types.is_struct(data_type):
        names = [field.name for field in data_type]
        if not isinstance(given, dict) or set(given) != set(names):
            raise ValueError(f"a JSON object with {', '.join(names)} is expected")
        return Row(*names)(*[_value(field.type, given[field.name]) for field in data_type])
    if pa.types.is_list(data_type):
        if not isinstance(given, list):
            raise ValueError("a JSON list is expected")
        return [_value(data_type.value_type, one) for one in given]
    raise ValueError("it cannot be given as text; use mixedmode.state_reader")


def _local_time(text: str) -> datetime:
    """A moment as ``collect()`` gives it: without a zone, in local time."""
    moment = datetime.fromisoformat(text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else ""))
    return moment if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)


def json_facts(found: dict[str, Any]) -> dict[str, Any]:
    """What a look-up has found, as JSON-able values; a map state is a list of keys and values."""
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        if any(isinstance(name, Row) for name in value):
            return [{"key": _plain(name), "value": _plain(part)} for name, part in value.items()]
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def show_key(found: dict[str, Any], operator: str) -> None:
    """State and timers of one key for people."""
    if not found["found"]:
        key = ", ".join(f"{name} = {value!r}" for name, value in found["key"].items())
        say(f"the key {key} has no state and no timers in checkpoint {found['checkpoint']} of operator {operator!r}")
        return
    print_facts(
        [
            ("checkpoint", found["checkpoint"]),
            *[(f"key {name}", value) for name, value in found["key"].items()],
            *[
                (f"state {name}", "none" if value in (None, [], {}) else value)
                for name, value in found["state"].items()
            ],
            *[
                (f"{kind} timers", ", ".join(map(moment_text, moments)) or "none")
                for kind, moments in found["timers"].items()
            ],
        ]
    )
