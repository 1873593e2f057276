"""The state variables of one keyed stage: their names, kinds, schemas and slots.

Slots are given in the order of declaration and are part of the on-disk contract: a variable keeps its slot for life and
the slot of a removed variable is never given again, so old cells are never read as something else.  The registry is
stored with each checkpoint; :meth:`StateRegistry.evolve` takes stored state over into a changed program.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import pyarrow as pa

from ...errors import CheckpointError, StateSchemaError
from ..codec.codec import MAX_VERSIONS, RowCodec
from ..codec.structs import StructClass, plain_tuple
from ..codec.widening import obstacle
from .key_space import MAX_VARIABLE_SLOT
from .keys import KeyCodec

StateKind = Literal["value", "list", "map"]
_KINDS = ("value", "list", "map")
_FORMAT = 1


@dataclass(frozen=True)
class StateDescriptor:
    """One state variable."""

    name: str
    kind: StateKind
    schema: pa.Schema
    user_key_schema: pa.Schema | None
    ttl_ms: int | None
    slot: int
    #: Older schemas of the values, oldest first; the place is the version that stored values carry.
    history: tuple[pa.Schema, ...] = ()

    def row_codec(self, struct_class: StructClass = plain_tuple) -> RowCodec:
        """A codec for the variable's values."""
        return RowCodec(self.schema, self.history, struct_class)

    def user_key_codec(self, struct_class: StructClass = plain_tuple) -> KeyCodec | None:
        """A codec for the keys of a map variable."""
        return None if self.user_key_schema is None else KeyCodec(self.user_key_schema, struct_class)


class StateRegistry:
    """The declared state variables, by name, in order of declaration.  Plain data: it can be pickled."""

    def __init__(self) -> None:
        self._descriptors: dict[str, StateDescriptor] = {}
        #: Slots of removed variables: their cells may still be in old files.
        self._retired: dict[str, int] = {}

    def declare(
        self,
        name: str,
        kind: StateKind | str,
        schema: pa.Schema,
        user_key_schema: pa.Schema | None = None,
        ttl_ms: int | None = None,
    ) -> StateDescriptor:
        """Declare a variable; the same declaration again gives the same descriptor."""
        _check_declaration(name, kind, user_key_schema, ttl_ms)
        known = self._descriptors.get(name)
        if known is not None:
            again = replace(
                known, kind=cast(StateKind, kind), schema=schema, user_key_schema=user_key_schema, ttl_ms=ttl_ms
            )
            differences = _differences(known, again)
            if differences:
                raise StateSchemaError(f"state {name!r} is declared twice, differently: {'; '.join(differences)}")
            return known
        slot = self._next_slot()
        descriptor = StateDescriptor(name, cast(StateKind, kind), schema, user_key_schema, ttl_ms, slot)
        descriptor.row_codec()  # an unsupported type is an error of the declaration, not of the first write
        descriptor.user_key_codec()
        self._descriptors[name] = descriptor
        return descriptor

    def withdraw(self, name: str) -> None:
        """Take a declaration back; a name that is not declared is not an error."""
        self._descriptors.pop(name, None)

    def _next_slot(self) -> int:
        used = [descriptor.slot for descriptor in self._descriptors.values()] + list(self._retired.values())
        slot = max(used, default=-1) + 1
        if slot > MAX_VARIABLE_SLOT:
            raise StateSchemaError(
                f"a keyed stage can have {MAX_VARIABLE_SLOT + 1} state variables over its life, removed ones included"
            )
        return slot

    def get(self, name: str) -> StateDescriptor:
        """The variable's descriptor; an unknown name is a StateSchemaError that lists the known ones."""
        try:
            return self._descriptors[name]
        except KeyError:
            known = ", ".join(map(repr, self._descriptors)) or "none"
            raise StateSchemaError(f"state {name!r} is not declared; declared are: {known}") from None

    def __iter__(self) -> Iterator[StateDescriptor]:
        return iter(self._descriptors.values())

    def __len__(self) -> int:
        return len(self._descriptors)

    def __contains__(self, name: object) -> bool:
        return name in self._descriptors

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateRegistry) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    @property
    def retired_slots(self) -> dict[str, int]:
        """Slots whose cells are dead: full compaction drops them."""
        return dict(self._retired)

    def to_json(self) -> dict[str, Any]:
        """JSON-able form for checkpoint metadata."""
        return {
            "format": _FORMAT,
            "retired": dict(self._retired),
            "variables": [
                {
                    "name": item.name,
                    "kind": item.kind,
                    "slot": item.slot,
                    "ttl_ms": item.ttl_ms,
                    "schema": schema_to_json(item.schema),
                    "user_key_schema": None if item.user_key_schema is None else schema_to_json(item.user_key_schema),
                    "history": [schema_to_json(schema) for schema in item.history],
                }
                for item in self
            ],
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> StateRegistry:
        """Inverse of :meth:`to_json`."""
        if body.get("format") != _FORMAT:
            raise CheckpointError(
                f"stored state registry has format {body.get('format')!r}, this version reads {_FORMAT}"
            )
        registry = cls()
        registry._retired = dict(body["retired"])
        for item in body["variables"]:
            key_schema = item["user_key_schema"]
            registry._descriptors[item["name"]] = StateDescriptor(
                item["name"],
                item["kind"],
                schema_from_json(item["schema"]),
                None if key_schema is None else schema_from_json(key_schema),
                item["ttl_ms"],
                item["slot"],
                tuple(schema_from_json(schema) for schema in item["history"]),
            )
        return registry

    def with_schema(self, name: str, schema: pa.Schema) -> StateRegistry:
        """The same variables, one of them with another schema; whoever asks for that has its values rewritten."""
        other = StateRegistry()
        other._retired = dict(self._retired)
        other._descriptors = {**self._descriptors, name: replace(self.get(name), schema=schema)}
        return other

    def changes_since(self, stored: StateRegistry) -> list[str]:
        """What :meth:`evolve` does to stored state, in words; empty if nothing changes."""
        changes = [
            f"state {item.name!r} is not declared any more: what it held is dropped"
            for item in stored
            if item.name not in self
        ]
        for item in self:
            if item.name not in stored:
                changes.append(f"state {item.name!r} is new")
            else:
                changes += _changed_fields(stored.get(item.name), item)
        return changes

    def evolve(self, stored: StateRegistry, widens: bool = True) -> StateRegistry:
        """This registry's declarations with the slots and histories of the stored state.

        Whole variables may come and go, and so may nullable fields of a variable's values (order does not matter, a
        field is found by its name); a field's type may become wider (see :mod:`..codec.widening`).  A TTL may change
        its length but not come or go.  Anything else is a StateSchemaError that spells out the difference.

        Args:
            stored: the registry that the state was written with.
            widens: whether the values are encoded by :class:`~..codec.codec.RowCodec`, which can follow a type.
        """
        evolved = StateRegistry()
        evolved._retired = dict(stored._retired)
        for item in stored:
            if item.name not in self._descriptors:
                evolved._retired[_retired_name(item.name, evolved._retired)] = item.slot
            else:
                evolved._descriptors[item.name] = _evolve_one(item, self._descriptors[item.name], widens)
        for item in self:
            if item.name not in stored:
                slot = evolved._next_slot()
                evolved._descriptors[item.name] = replace(item, slot=slot, history=())
        return evolved


def _check_declaration(name: str, kind: str, user_key_schema: pa.Schema | None, ttl_ms: int | None) -> None:
    if not isinstance(name, str) or not name:
        raise StateSchemaError(f"a state variable needs a name, got {name!r}")
    if kind not in _KINDS:
        raise StateSchemaError(f"state {name!r} has kind {kind!r}; allowed are {', '.join(_KINDS)}")
    if (kind == "map") != (user_key_schema is not None):
        raise StateSchemaError(f"state {name!r} of kind {kind!r}: exactly map state has a user key schema")
    if ttl_ms is not None and ttl_ms <= 0:
        raise StateSchemaError(f"state {name!r} has ttl_ms={ttl_ms}; it must be greater than 0")


def _differences(old: StateDescriptor, new: StateDescriptor) -> list[str]:
    """What differs between two declarations of one variable, in words."""
    found = []
    if old.kind != new.kind:
        found.append(f"kind {old.kind!r} became {new.kind!r}")
    if not _same_fields(old.schema, new.schema):
        found.append(f"value schema ({_text(old.schema)}) became ({_text(new.schema)})")
    if not _same_fields(old.user_key_schema, new.user_key_schema):
        found.append(f"user key schema ({_text(old.user_key_schema)}) became ({_text(new.user_key_schema)})")
    if old.ttl_ms != new.ttl_ms:
        found.append(f"ttl {old.ttl_ms} ms became {new.ttl_ms} ms")
    return found


def _evolve_one(old: StateDescriptor, new: StateDescriptor, widens: bool) -> StateDescriptor:
    problems = []
    if old.kind != new.kind:
        problems.append(f"kind {old.kind!r} became {new.kind!r}")
    if not _same_fields(old.user_key_schema, new.user_key_schema):
        problems.append(f"user key schema ({_text(old.user_key_schema)}) became ({_text(new.user_key_schema)})")
    if (old.ttl_ms is None) != (new.ttl_ms is None):
        problems.append(f"ttl {old.ttl_ms} ms became {new.ttl_ms} ms (a TTL cannot come or go)")
    older, newer = _by_name(old.schema, old.name), _by_name(new.schema, new.name)
    for name, field in older.items():
        now = newer.get(name)
        if now is None:
            if not field.nullable:
                problems.append(f"field {name!r} was removed but is not nullable")
        elif now.type != field.type and (found := _obstacle(field.type, now.type, widens)) is not None:
            problems.append(f"field {name!r} {found}")
        elif field.nullable and not now.nullable:
            problems.append(f"field {name!r} was nullable and is no longer")
    problems += [
        f"field {name!r} was added but is not nullable"
        for name, field in newer.items()
        if name not in older and not field.nullable
    ]
    if problems:
        raise StateSchemaError(
            f"state {old.name!r} cannot take over its stored values: {'; '.join(problems)}; "
            "use a new variable name, or only add and remove nullable fields and make types wider (int to long, float "
            "to double, a decimal with more digits) [upgrade:U9]",
            code="MIXEDMODE_STATE_EVOLUTION",
        )
    if _same_fields(old.schema, new.schema):
        return replace(old, ttl_ms=new.ttl_ms)
    history = (*old.history, old.schema)
    if len(history) >= MAX_VERSIONS:
        raise StateSchemaError(
            f"state {old.name!r} has changed its schema {len(old.history)} times, no more is possible [upgrade:U9]",
            code="MIXEDMODE_STATE_EVOLUTION",
        )
    return replace(old, schema=new.schema, ttl_ms=new.ttl_ms, history=history)


def _obstacle(old: pa.DataType, new: pa.DataType, widens: bool) -> str | None:
    return obstacle(old, new) if widens else f"changed from {old} to {new}"


def _changed_fields(old: StateDescriptor, new: StateDescriptor) -> list[str]:
    """What becomes of the stored values of one variable."""
    state = f"state {new.name!r}"
    lost = [field for field in old.schema if field.name not in new.schema.names]
    gained = [field for field in new.schema if field.name not in old.schema.names]
    found = [f"{state} lost field {field.name!r} ({field.type}): its stored values are dropped" for field in lost]
    found += [f"{state} gained field {field.name!r} ({field.type}): None in older values" for field in gained]
    before = {field.name: field.type for field in old.schema}
    wider = [field for field in new.schema if before.get(field.name, field.type) != field.type]
    found += [
        f"{state}: field {field.name!r} has become wider, {before[field.name]} is {field.type} now; its values follow"
        for field in wider
    ]
    if {field.type for field in lost} & {field.type for field in gained}:
        found.append(f"{state}: a field that was renamed counts as lost and gained; its values are not taken over")
    if not (lost or gained or wider) and not _same_fields(old.schema, new.schema):
        found.append(f"{state}: fields ({_text(old.schema)}) became ({_text(new.schema)}); values go by name")
    if old.ttl_ms != new.ttl_ms:
        found.append(f"{state}: ttl {old.ttl_ms} ms became {new.ttl_ms} ms for values written from now on")
    return found


def _retired_name(name: str, retired: dict[str, int]) -> str:
    """A name may be retired more than once over the years."""
    count = sum(1 for known in retired if known.split("#")[0] == name)
    return f"{name}#{count}"


def _by_name(schema: pa.Schema, variable: str) -> dict[str, pa.Field]:
    if len(set(schema.names)) != len(schema.names):
        raise StateSchemaError(
            f"state {variable!r} has fields of the same name ({_text(schema)}); it cannot change [upgrade:U9]",
            code="MIXEDMODE_STATE_EVOLUTION",
        )
    return {field.name: field for field in schema}


def _same_fields(one: pa.Schema | None, other: pa.Schema | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.remove_metadata().equals(other.remove_metadata())


def _text(schema: pa.Schema | None) -> str:
    if schema is None:
        return "none"
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def schema_to_json(schema: pa.Schema) -> dict[str, str]:
    """JSON-able form of a schema, with a part that people can read."""
    return {"text": _text(schema), "arrow": base64.b64encode(schema.serialize().to_pybytes()).decode()}


def schema_from_json(body: dict[str, str]) -> pa.Schema:
    """Inverse of :func:`schema_to_json`."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(body["arrow"])))
