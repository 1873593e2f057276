"""Defines the key space of a shard's state; part of the on-disk contract.

One column family, raw bytes, in this order::

    key group (2, big-endian) | 0x01 | key | slot (1) | sub     a cell: one entry of one state variable of one key
    key group                 | 0x02 | ts (8) | key             event-time timer index, value empty
    key group                 | 0x03 | ts (8) | key             processing-time timer index, value empty

``key`` is self-delimiting (:mod:`.keys`), so ``key | slot`` of one key is never a prefix of another key's.  The key
group comes first everywhere: a shard is one contiguous range, and re-dealing key groups is clipping files by range.
A key's own timers are cells too (slots 0xF0 and 0xF1, sub = ts), so that they come with the key; invariant: a timer
cell exists if and only if its index entry does.  (Aggregates write the index alone: nobody lists their timers.)
``ts`` is big-endian with the sign bit flipped, so byte order is time order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from ...errors import CorruptStateError
from ..codec.byte_arrays import binary_from_records, joined

if TYPE_CHECKING:
    import pyarrow as pa

    from .keys import KeyCodec

TimerKind = Literal["event", "processing"]
TIMER_KINDS: tuple[TimerKind, ...] = ("event", "processing")

CELL_SECTION = 0x01
TIMER_SECTIONS: dict[TimerKind, int] = {"event": 0x02, "processing": 0x03}
TIMER_SLOTS: dict[TimerKind, int] = {"event": 0xF0, "processing": 0xF1}

#: State variables have slots 0 to this; the slots above are the house's own.
MAX_VARIABLE_SLOT = 0xEF

#: Bytes of a time.
TS_BYTES = 8
_TS_OFFSET = 1 << 63


def encode_ts(ts_ms: int) -> bytes:
    """Eight bytes in time order; a timer or TTL beyond the signed 64-bit range is an OverflowError."""
    return (ts_ms + _TS_OFFSET).to_bytes(8, "big")


def decode_ts(data: bytes) -> int:
    """Inverse of :func:`encode_ts`."""
    return int.from_bytes(data, "big") - _TS_OFFSET


def has_expired(stored: bytes, now_ms: int) -> bool:
    """Whether a value that says in front when it expires has done so by now.

    Raises:
        CorruptStateError: it is too short to say so.
    """
    if int.from_bytes(stored[:TS_BYTES], "big") - _TS_OFFSET > now_ms:
        return False
    if len(stored) < TS_BYTES:
        raise without_expiry(len(stored))
    return True


def without_expiry(size: int) -> CorruptStateError:
    """What is to be raised for a value of so few bytes."""
    return CorruptStateError(f"a state value with a TTL has {size} bytes, too few to say when it expires")


def encode_all_ts(times_ms: np.ndarray) -> pa.BinaryArray:
    """:func:`encode_ts` of many times."""
    return binary_from_records((times_ms.astype(np.int64).view(np.uint64) ^ np.uint64(_TS_OFFSET)).astype(">u8"))


def decode_all_ts(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """:func:`decode_ts` of what is at these places."""
    stamps = np.ascontiguousarray(data[starts[:, np.newaxis] + np.arange(8)]).view(">u8").reshape(-1)
    times: np.ndarray = (stamps.astype(np.uint64) ^ np.uint64(_TS_OFFSET)).view(np.int64)
    return times


def group_prefix(kg: int, section: int) -> bytes:
    """What all stored keys of one section of a key group start with."""
    return kg.to_bytes(2, "big") + bytes([section])


def state_prefix(kg: int, key: bytes, slot: int | None = None) -> bytes:
    """What all cells of a key, or of one state variable of a key, start with."""
    if slot is None:
        return b"%b\x01%b" % (kg.to_bytes(2, "big"), key)
    return b"%b\x01%b%c" % (kg.to_bytes(2, "big"), key, slot)


def state_key(kg: int, key: bytes, slot: int, sub: bytes = b"") -> bytes:
    """The stored key of one cell."""
    return b"%b\x01%b%c%b" % (kg.to_bytes(2, "big"), key, slot, sub)


def stored_keys(groups: np.ndarray, section: int, *parts: bytes | pa.BinaryArray) -> pa.BinaryArray:
    """The stored keys of many entries of one section; ``parts``: what follows, in the order above."""
    return joined(binary_from_records(groups.astype(">u2")), bytes([section]), *parts)


def timer_index_prefix(kind: TimerKind, kg: int) -> bytes:
    """What all index entries of one kind in a key group start with."""
    return group_prefix(kg, TIMER_SECTIONS[kind])


def timer_index_key(kind: TimerKind, kg: int, ts_ms: int, key: bytes) -> bytes:
    """The stored key of a timer's index entry."""
    return group_prefix(kg, TIMER_SECTIONS[kind]) + encode_ts(ts_ms) + key


def parse_timer_index(stored: bytes) -> tuple[int, int, bytes]:
    """``(key group, ts_ms, key)`` of an index entry."""
    return int.from_bytes(stored[:2], "big"), decode_ts(stored[3:11]), stored[11:]


def parse_state_key(stored: bytes, codec: KeyCodec) -> tuple[int, bytes, int, bytes]:
    """``(key group, key, slot, sub)`` of a cell; only the key's codec knows where the key ends."""
    end = codec.end_of(stored, 3)
    return int.from_bytes(stored[:2], "big"), stored[3:end], stored[end], stored[end + 1 :]


def after_prefix(prefix: bytes) -> bytes:
    """The smallest byte string beyond everything that starts with ``prefix`` (which must not be all 0xFF)."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])
