"""Ways of cutting one and the same rows into a backlog and micro-batches, and whether they all give the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

#: A stream of more rows has micro-batches of several.
_MOST_BATCHES = 50
BEFORE_THE_END = "output before the end of the input"
#: So many differences are shown of each kind.
_SHOWN = 5


@dataclass(frozen=True)
class InputSplit:
    """One way."""

    label: str
    #: Places of rows: of each part, in the order in which it comes.
    parts: tuple[tuple[int, ...], ...]
    begins_with_backlog: bool
    #: Numbers of parts behind which the job goes on from a checkpoint.
    restarts_behind: frozenset[int] = frozenset()
    #: Of the random splits; None: it is not one.
    seed: int | None = None

    def __str__(self) -> str:
        sizes = [len(part) for part in self.parts]
        restarts = f", a restart behind part {', '.join(str(n + 1) for n in sorted(self.restarts_behind))}"
        backlog = f"{sizes[0]} rows of backlog, then " if self.begins_with_backlog and len(sizes) > 1 else ""
        batches = f"micro-batches of {', '.join(map(str, sizes[1 if backlog else 0 :]))} rows"
        told = f" ({backlog}{batches}{restarts if self.restarts_behind else ''})"
        return self.label + ("" if self.seed is None else told)


def input_splits(times_ms: Sequence[int | None], cuts: int, seed: int | None, disorder_ms: int) -> Iterator[InputSplit]:
    """The whole as a backlog, the whole as a stream, and random splits between the two.

    Args:
        times_ms: the event time of each row; None: it has none, and comes before the others, or where it stands if
            none has one.
        cuts: how many random input_splits.
        seed: of them; None: a new one, which is printed.
        disorder_ms: rows may come so much later than others of their event time.
    """
    if seed is None:
        seed = random.randrange(2**32)
    print(f"mixedmode.testing: random cuts of {len(times_ms)} rows, seed={seed}")
    places = sorted(range(len(times_ms)), key=lambda place: _rank(times_ms[place], 0))
    yield InputSplit("all rows as one backlog", (tuple(places),), begins_with_backlog=True)
    size = max(1, -(-len(places) // _MOST_BATCHES))
    stream = tuple(tuple(places[at : at + size]) for at in range(0, len(places), size))
    yield InputSplit(f"all rows as a stream, {size} at a time", stream or ((),), begins_with_backlog=False)
    for number in range(cuts):
        chance = random.Random(f"{seed} {number}")
        arriving = places
        if disorder_ms:
            delayed = {place: _rank(times_ms[place], chance.randint(0, disorder_ms)) for place in places}
            arriving = sorted(places, key=delayed.__getitem__)
        bounds = sorted(chance.randint(0, len(places)) for _ in range(chance.randint(1, 6)))
        edges = list(zip([0, *bounds], [*bounds, len(places)], strict=True))
        parts = tuple(tuple(arriving[start:end]) for start, end in edges)
        restarts = frozenset(n for n in range(len(parts)) if chance.random() < 0.2)
        yield InputSplit(f"random cut {number + 1} of seed {seed}", parts, chance.random() < 0.7, restarts, seed)


def _rank(time_ms: int | None, later_ms: int) -> tuple[bool, int]:
    return (time_ms is not None, 0 if time_ms is None else time_ms + later_ms)


def check_same(found: Sequence[tuple[InputSplit, dict[str, Any]]], *, is_observed: bool) -> None:
    """Raise AssertionError, with what differs, unless all splits have given the same as the first one.

    Args:
        found: input_splits, and by what is compared all that there was of it.
        is_observed: False: MAX_WATERMARK comes at a switch, which may be why.
    """
    (first, expected), *others = found
    for way, outcome in others:
        lines: list[str] = []
        for what, values in expected.items():
            told_already = what == "output" and any(line == f"{BEFORE_THE_END}:" for line in lines)
            if what != "late" and not told_already:
                lines += _difference(what, values, outcome[what], (str(first), way.label))
        if not lines:
            continue
        late = f"\n{outcome['late']} rows came too late in the second one, and were dropped" if outcome["late"] else ""
        why = (
            ""
            if is_observed
            else "\nMAX_WATERMARK fires all timers at the switch here, as final watermark max was asked for; with"
            " execution.backlog.final-watermark = observed they wait for the stream, as they do by default"
        )
        again = "" if way.seed is None else f"\nto repeat it: assert_same_results(…, seed={way.seed})"
        raise AssertionError(
            f"results depend on how the rows are cut: {first} and {way}\n" + "\n".join(lines) + late + why + again
        )


def _difference(what: str, expected: Sequence[Any], found: Sequence[Any], labels: tuple[str, str]) -> list[str]:
    """What one has and the other has not, in any order; nothing: they are the same."""
    one, other = Counter(map(_value_text, expected)), Counter(map(_value_text, found))
    if one == other:
        return []
    lines = [f"{what}:"]
    for label, surplus in zip(labels, (one - other, other - one), strict=True):
        rows = sorted(surplus.elements())
        lines += [f"  only with {label}:"] if rows else []
        lines += [f"    {row}" for row in rows[:_SHOWN]]
        lines += [f"    … and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    return lines


def _value_text(value: Any) -> str:
    """A value as text: that of equal values is the same, whatever the order of a map."""
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_value_text(key)}: {_value_text(one)}" for key, one in value.items())) + "}"
    if type(value) is tuple:
        return "(" + ", ".join(map(_value_text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value_text, value)) + "]"
    return repr(value)
