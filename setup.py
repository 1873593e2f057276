"""Says the one thing that ``pyproject.toml`` cannot: the long description for a package index.

It is README without what leads nowhere outside the repository: its pictures, and links to its files, of which the text
stays.
"""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)")


def long_description() -> str:
    """README as it can be shown anywhere."""
    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    return _LINK.sub(r"\1", _PICTURE.sub("", readme))


class Modules(build_py):
    """The package's folder is the repository's root, and this file none of its modules."""

    def find_package_modules(self, package, package_dir):
        return [found for found in super().find_package_modules(package, package_dir) if found[1] != "setup"]


setup(
    long_description=long_description(),
    long_description_content_type="text/markdown",
    cmdclass={"build_py": Modules},
)
