"""Whose sources the digest of a user's object is made of."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from mixedmode.runtime.support.code_fingerprint import code_fingerprint


class Counting:
    """A user's object."""


@pytest.mark.parametrize(
    ("name", "counts"),
    [("helpers", True), ("mixedmodern.helpers", True), ("mixedmode.helpers", False), ("mixedmode", False)],
)
def test_sources_of_users_count_and_those_of_this_package_do_not(
    name: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the package is not installed but runs from its sources; it is the name that tells."""
    module = ModuleType(name)
    path = tmp_path / "helpers.py"
    module.__file__ = str(path)
    path.write_text("FACTOR = 1")
    before = code_fingerprint(Counting())
    monkeypatch.setitem(sys.modules, name, module)
    first = code_fingerprint(Counting())
    path.write_text("FACTOR = 2")
    found = {before, first, code_fingerprint(Counting())}
    assert None not in found
    assert len(found) == (3 if counts else 1)


def test_a_source_that_is_gone_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where the object's own is, nothing can be said."""
    before = code_fingerprint(Counting())
    module = ModuleType("helpers")
    module.__file__ = str(tmp_path / "helpers.py")
    monkeypatch.setitem(sys.modules, "helpers", module)
    assert code_fingerprint(Counting()) == before
    monkeypatch.setitem(sys.modules, Counting.__module__, ModuleType("without a file"))
    assert code_fingerprint(Counting()) is None
