"""The page of the examples: what each says of itself, then its source."""

from __future__ import annotations

import ast
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

_ABOVE = """
# Examples

Each is a file in `examples/` that the tests run. Most run as they are: `python examples/quickstart.py`. Those with
flights (`demo`, `flights_and_weather`, `hot_keys`) need `pip install ".[demo]"`, `totals_in_kafka` needs a broker, and
`upsert_into_delta` needs PySpark 4.1.
"""


def anchor(name: str) -> str:
    """Where an example is on the page."""
    return name.removesuffix(".py").replace("_", "-")


def page() -> str:
    """All examples, the first one first."""
    lines = [_ABOVE.strip()]
    for path in sorted(EXAMPLES.glob("*.py"), key=lambda path: (path.name != "quickstart.py", path.name)):
        source = path.read_text()
        says = ast.get_docstring(ast.parse(source)) or ""
        head, _, rest = says.partition("\n\n")
        lines += ["", f"## {path.stem} {{ #{anchor(path.name)} }}", "", head, ""]
        lines += [f"    {line}".rstrip() for line in rest.splitlines()]
        lines += ["", f'??? example "examples/{path.name}"', "", "    ```python"]
        lines += [f"    {line}".rstrip() for line in source.splitlines()]
        lines += ["    ```"]
    for folder in sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"):
        lines += ["", f"## {folder.name}/ {{ #{anchor(folder.name)} }}"]
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            lines += ["", f'??? example "{path.relative_to(EXAMPLES.parent)}"', "", f"    ```{path.suffix[1:]}"]
            lines += [f"    {line}".rstrip() for line in path.read_text().splitlines()]
            lines += ["    ```"]
    return "\n".join(lines) + "\n"
