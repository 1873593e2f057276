"""Versions of files that outlive the code that wrote them, and the way from an old version to today's.

The rule:

- A file of any version that was ever released is read for ever.  ``tests/data`` has one of each, as it was written.
- A field that may be absent, and that a reader may do without, does not change the version: it gets a default that says
  what files without it mean.
- Any other change (a field that a reader must not miss, one with another name or meaning) makes a new version: the
  number grows by one, and an :data:`Upgrade` makes a body of the new version of one of the version before.
- A version that the code does not know is refused by its number, before anything else of the file is believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import CheckpointMismatchError

#: Makes the parsed body of the next version of that of one version; the body that it gets is its own.
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Format:
    """A kind of file with numbered versions.  Invariant: there is an upgrade from every version but the newest.

    Args:
        version: the version that this code writes, the newest that it reads.
        upgrades: by the version that they start from.
    """

    version: int
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if sorted(self.upgrades) != list(range(1, self.version)):
            raise ValueError(f"version {self.version} needs upgrades from each before it, got {sorted(self.upgrades)}")

    def check(self, version: object, where: str) -> int:
        """The version that a file gives, if it can be read.

        Raises:
            CheckpointMismatchError: it cannot.
        """
        if type(version) is int and 1 <= version <= self.version:
            return version
        raise CheckpointMismatchError(
            f"{where} has format version {version}; this version of mixedmode reads up to {self.version}. "
            "Use the version that wrote it, or a newer one [upgrade:U26]",
            code="MIXEDMODE_FORMAT_NEWER",
        )

    def upgrade(self, body: str, version: int) -> str:
        """The JSON of some version as that of the newest."""
        if version == self.version:
            return body
        content = json.loads(body)
        for number in range(version, self.version):
            content = self.upgrades[number](content)
        return json.dumps(content)
