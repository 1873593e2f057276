"""What mkdocs does beside turning pages into HTML: it makes the pages that are not written by hand, and moves links.

A link of a page is one that works where the repository is browsed; on the site those that leave ``docs/`` point to the
page that is made of what they name.
"""

from __future__ import annotations

import posixpath
import re
import runpy
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
#: Pages made of files outside ``docs/``, and the folder from which their links go.
COPIES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "measurements.md": "benchmarks/README.md",
    "internals/real-time-benchmark.md": "benchmarks/real_time/README.md",
}
#: Pages made of the code, by a module beside this one each.
MADE = ("cli", "examples", "options")
#: Pictures outside ``docs/``.
PICTURES = ("benchmarks/growth.svg",)

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made."""
    for name, source in COPIES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    for name in MADE:
        files.append(File.generated(config, f"{name}.md", content=maker(name)["page"]()))
    for picture in PICTURES:
        files.append(File.generated(config, Path(picture).name, abs_src_path=str(ROOT / picture)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with its links pointing to pages of the site."""
    source = COPIES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if page.file.src_uri in ("public-jobs.md", "spark-suites.md"):
        markdown = markdown.replace("] [", "] \\[")  # lists one after the other are no references
    here, folder = posixpath.dirname(page.file.src_uri), (ROOT / source).parent

    def moved(link: re.Match[str]) -> str:
        on_site = _on_site(link[1], link[2] or "", folder)
        return posixpath.relpath(on_site, here) if here else on_site

    return _LINK.sub(moved, markdown)


def maker(name: str) -> dict[str, Any]:
    """What a module beside this one defines; mkdocs imports none of them."""
    return runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))


def _on_site(target: str, anchor: str, folder: Path) -> str:
    path = (folder / target).resolve()
    if not path.is_relative_to(ROOT):
        return target + anchor
    inside = path.relative_to(ROOT).as_posix()
    for page, source in COPIES.items():
        if inside == source:
            return page + anchor
    if inside in PICTURES:
        return path.name
    if inside.startswith("examples/") and path.exists():
        return "examples.md#" + maker("examples")["anchor"](inside.split("/")[1])
    return inside.removeprefix("docs/") + anchor
