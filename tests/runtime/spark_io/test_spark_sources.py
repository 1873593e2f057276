"""What is known of a frame's sources."""

from __future__ import annotations

import pytest
from mixedmode.runtime.spark_io.spark_sources import _split_at_wildcard


@pytest.mark.parametrize(
    ("path", "folder", "behind"),
    [
        ("/a/b", "/a/b", ""),
        ("/a/b/*/c", "/a/b/", "*/c"),
        ("/a/{x,y}/z", "/a/", "{x,y}/z"),
        (r"/a/text\[text", "/a/text[text", ""),
        (r"/a/x\[1\]/y?z", "/a/x[1]/", "y?z"),
    ],
)
def test_a_glob_is_known_as_far_as_its_first_wildcard(path: str, folder: str, behind: str) -> None:
    """A character that is escaped means itself."""
    assert _split_at_wildcard(path) == (folder, behind)
