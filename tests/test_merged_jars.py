"""Jars in one file."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import merged_jars
import pytest

_MANIFEST, _SERVICE = "META-INF/MANIFEST.MF", "META-INF/services/a.Reader"


def _jar(path: Path, manifest: str = "", **files: str) -> Path:
    with ZipFile(path, "w", ZIP_DEFLATED) as jar:
        jar.writestr(_MANIFEST, f"Manifest-Version: 1.0\r\n{manifest}\r\n")
        for name, text in files.items():
            jar.writestr(name, text)
    return path


def _names(jar: Path) -> dict[str, bytes]:
    with ZipFile(jar) as content:
        assert content.testzip() is None
        return {name: content.read(name) for name in content.namelist()}


def test_classes_are_in_one_file_and_the_first_one_counts(tmp_path: Path) -> None:
    """As on a class path; services of all are there."""
    first = _jar(tmp_path / "a.jar", **{"a/A.class": "1" * 999, "a/some.xml": "<a/>", _SERVICE: "a.A"})
    second = _jar(
        tmp_path / "b.jar", **{"a/A.class": "2", "b/B.class": "3", _SERVICE: "b.B", "META-INF/INDEX.LIST": "x"}
    )
    (found,) = merged_jars.merge([first, second], tmp_path)
    names = _names(found)
    assert names.pop(_MANIFEST) == b"Manifest-Version: 1.0\r\n\r\n"
    assert names == {"a/A.class": b"1" * 999, "a/some.xml": b"<a/>", "b/B.class": b"3", _SERVICE: b"a.A\nb.B"}


def test_classes_of_single_versions_of_java_are_a_file_of_their_own(tmp_path: Path) -> None:
    """A jar whose manifest does not say so has them for nobody."""
    name = "META-INF/versions/9/a/A.class"
    plain = _jar(tmp_path / "a.jar", **{"a/A.class": "1", name: "9"})
    of_versions = _jar(tmp_path / "b.jar", "Multi-Release: true\r\n", **{"b/B.class": "1"})
    found = merged_jars.merge([plain, of_versions], tmp_path)
    assert [b"Multi-Release: true" in _names(jar)[_MANIFEST] for jar in found] == [False, True]
    assert ["a/A.class" in _names(jar) for jar in found] == [True, False]


@pytest.mark.parametrize(
    "jar",
    [("", {"META-INF/A.SF": "x"}), ("Class-Path: other.jar\r\n", {}), ("", {"plugin.xml": "<b/>"})],
    ids=["signed", "names others", "a file that others have"],
)
def test_what_would_mean_something_else_stays_as_it_is(tmp_path: Path, jar: tuple[str, dict[str, str]]) -> None:
    manifest, files = jar
    alone = _jar(tmp_path / "b.jar", manifest, **{"b/B.class": "2", **files})
    others = [_jar(tmp_path / "a.jar", **{"a/A.class": "1"}), _jar(tmp_path / "c.jar", **{"plugin.xml": "<c/>"})]
    found = merged_jars.merge([*others, alone], tmp_path)
    assert alone in found
    assert not any("b/B.class" in _names(jar) for jar in found if jar != alone)
    assert any("a/A.class" in _names(jar) for jar in found)
