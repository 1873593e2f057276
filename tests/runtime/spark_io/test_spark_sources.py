"""What is known of a frame's sources."""

from __future__ import annotations

import pytest
from mixedmode.runtime.spark_io.spark_sources import _before_wildcard


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/*/c", "/a/b/"),
        ("/a/{x,y}/z", "/a/"),
        (r"/a/text\[text", "/a/text[text"),
        (r"/a/x\[1\]/y?z", "/a/x[1]/"),
    ],
)
def test_a_glob_is_known_as_far_as_its_first_wildcard(path: str, folder: str) -> None:
    """A character that is escaped means itself."""
    assert _before_wildcard(path) == folder
