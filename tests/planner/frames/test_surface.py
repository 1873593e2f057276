"""The public surface of the package: names, and that importing it is light."""

from __future__ import annotations

import subprocess
import sys

import mixedmode
import pytest


def test_every_public_name_is_there() -> None:
    """``__all__`` holds no name that cannot be had, and dir() shows them."""
    for name in mixedmode.__all__:
        assert getattr(mixedmode, name).__name__ == name
        assert name in dir(mixedmode)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="module 'mixedmode' has no attribute 'raed'"):
        mixedmode.raed  # noqa: B018


def test_importing_the_package_does_not_import_spark() -> None:
    """Workers import it for the runtime alone, and the sorter and the state work without Spark."""
    code = "import sys, mixedmode; print(sorted({'pyspark', 'pandas', 'pydantic', 'pyarrow'} & set(sys.modules)))"

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert out.strip() == "[]"
