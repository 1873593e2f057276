"""Table files are a contract: those that the oldest allowed version of rocksdict wrote are read for ever.

``PYTHONPATH=<that version> python tests/state/test_oldest_rocksdict.py <folder>`` wrote those of ``tests/data``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from mixedmode.state.store.state_manifest import StateManifest
from state_support import WHOLE, Workspace, contents, stored

ROOT = Path(__file__).parents[2]
#: What a base has: many blocks, long and empty values, keys that share their beginnings.
BASE = {stored(i % 128, b"key" * (i % 5) + i.to_bytes(4, "big")): b"v%d" % i * (i % 40) for i in range(3000)}
#: What a later file changes: rows that go, rows that come.
GONE, COME = sorted(BASE)[::7], {stored(g, b"new"): b"\x00\xff" * g for g in range(0, 128, 3)}


def oldest() -> str:
    """By the package's own requirement."""
    (found,) = re.findall(r'"rocksdict>=([\d.]+),<', (ROOT / "pyproject.toml").read_text())
    return str(found)


def test_files_of_the_oldest_version_are_read(workspace: Workspace) -> None:
    """A local copy made of them holds what was written, without what a later file deletes."""
    folder = ROOT / "tests" / "data" / f"rocksdict-{oldest()}"
    manifest = StateManifest.from_json(json.loads((folder / "lineage.json").read_text()))
    Path(workspace.pool).symlink_to(folder / "pool")
    local_copy = workspace.local_copy(manifest)
    assert contents(local_copy) == {key: value for key, value in {**BASE, **COME}.items() if key not in GONE}
    assert local_copy.multi_get([GONE[0], sorted(BASE)[1]]) == [None, BASE[sorted(BASE)[1]]]


if __name__ == "__main__":
    space = Workspace(Path(sys.argv[1]))
    files = space.written(space.sst(1, max_file_bytes=32 << 10), sorted(BASE.items()))
    files += space.written(space.sst(2), sorted({**dict.fromkeys(GONE), **COME}.items()))
    (space.root / "lineage.json").write_text(json.dumps(StateManifest(WHOLE, tuple(files)).to_json(), indent=1))
    (space.root / "local").rmdir()
