"""The rules of the house: which room may know which, and what only one room may touch.

Each rule is a function from sources to complaints; no complaint, no breach.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from import_graph import Sources

#: What a docstring sends its reader to, by a path that begins at the docstring's own file.
_REFERENCE = re.compile(r":(?:mod|class|func|meth|attr|data):`~?(\.+[\w.]+)`")
#: Rooms from top to bottom.  A file may import files of its own room and of lower floors; rooms on one floor do not
#: know each other.  A room is a folder with all that is in it, or one file.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("__init__", "__main__"),
    ("delta", "events", "iceberg", "kafka", "metrics"),
    ("testing",),
    ("planner/cli",),
    ("planner/frames",),
    ("planner/plans", "planner/sql"),
    ("planner/stages",),
    ("planner/inputs", "planner/options"),
    ("runtime/query", "runtime/offline"),
    ("runtime/handle",),
    ("runtime/driver",),
    ("runtime/metrics", "runtime/state_reader", "runtime/jobs"),
    ("runtime/tasks",),
    ("runtime/checkpoints",),
    ("runtime/spec",),
    ("runtime/settings",),
    ("runtime/operators",),
    ("runtime/protocols", "runtime/connectors"),
    ("runtime/scan",),
    ("runtime/spark_io",),
    ("runtime/catalyst", "runtime/storage"),
    ("runtime/jvm",),
    ("runtime/support", "sorter"),
    ("state",),
    ("errors", "planner/__init__", "runtime/__init__"),
)
_FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

#: Room -> libraries that it does without.
WITHOUT = {
    "runtime/protocols": ("pyspark", "py4j", "pyarrow.fs", "threading", "time"),
    "sorter": ("pyspark", "py4j"),
    "state": ("pyspark", "py4j"),
}
#: Attributes of PySpark's classes that lead into the JVM.
JVM_ATTRIBUTES = frozenset({"_jvm", "_jdf", "_jsc", "_jsparkSession"})
#: The only rooms that may use them, and the file in them that hands Java objects out.
JVM_ROOMS = ("runtime/jvm/", "runtime/catalyst/", "runtime/scan/", "runtime/spark_io/", "runtime/storage/")
GATEWAY = "runtime/jvm/gateway.py"
#: How many files may lie directly in a folder.
FILES_IN_A_ROOM = 20
#: How many lines a file may have, and how many methods a class.
LINES_IN_A_FILE = 400
METHODS_IN_A_CLASS = 20
#: Classes that are larger, with the most methods that they may have: the writer has one for each of Spark's.
LARGER = {
    "planner/frames/writer.py MixedStreamWriter": 21,
}
#: Where users and other rooms come in: whatever takes three arguments or more says what they are, and what it raises.
DOCUMENTED = (
    "testing/",
    "planner/frames/",
    "planner/options/",
    "planner/sql/",
    "planner/plans/compile.py",
    "runtime/query.py",
    "runtime/handle/",
    "runtime/state_reader.py",
    "runtime/spec.py",
    "runtime/driver/run/preflight.py",
    "runtime/driver/requests/remote_client.py",
    "runtime/driver/run/runner.py",
    "runtime/jobs/executor.py",
    "runtime/tasks/state/compaction_task.py",
    "runtime/tasks/state/lookup_task.py",
    "runtime/tasks/state/scan_task.py",
    "runtime/checkpoints/folders.py",
    "runtime/checkpoints/retention.py",
    "runtime/checkpoints/store.py",
    "runtime/checkpoints/stored_checkpoints.py",
    "runtime/checkpoints/metadata.py",
    "runtime/checkpoints/savepoints/completion.py",
    "runtime/checkpoints/savepoints/queue.py",
    "runtime/checkpoints/savepoints/restore.py",
    "runtime/checkpoints/savepoints/writer.py",
    "runtime/operators/contract.py",
    "runtime/operators/admission.py",
    "runtime/connectors/late_rows.py",
    "runtime/connectors/staging.py",
    "runtime/connectors/sinks/__init__.py",
    "runtime/connectors/sinks/base.py",
    "runtime/connectors/sources/live_query.py",
    "runtime/jvm/",
    "runtime/catalyst/",
    "runtime/scan/",
    "runtime/spark_io/",
    "runtime/storage/",
    "runtime/support/",
)
#: Functions of one signature, whose type says what they take.
ALIKE = ("runtime/scan/expressions/builders.py", "runtime/scan/expressions/patterns.py")
#: Words by which a docstring leaves its arguments to that of another one.
_ELSEWHERE = ("arguments are those", "arguments as")
#: How many files may lie in ``runtime/`` outside of its rooms.
FILES_IN_RUNTIME = 4


def room(path: str) -> str | None:
    """The room of a file; None: it has no place in the table."""
    parts = path.removesuffix(".py").split("/")
    names = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in _FLOOR), None)


def files_without_a_room(sources: Sources) -> list[str]:
    """Files that the table of directions does not speak of."""
    return [path for path in sources.trees if room(path) is None]


def arrows_upwards(sources: Sources) -> list[str]:
    """Imports of a higher floor, or of another room on the same one."""
    wrong = []
    for path, imported in sources.arrows().items():
        for other in sorted(imported):
            here, there = room(path), room(other)
            if here is not None and there is not None and here != there and _FLOOR[there] <= _FLOOR[here]:
                wrong.append(f"{path} imports {other}")
    return wrong


def circles(sources: Sources) -> list[str]:
    """A circle of imports, if there is one."""
    circle = sources.circle()
    return [" -> ".join(circle)] if circle else []


def libraries_out_of_place(sources: Sources) -> list[str]:
    """Imports of libraries that a room does without."""
    return [
        f"{path} imports {module}"
        for path in sources.trees
        for folder, libraries in WITHOUT.items()
        if path.startswith(f"{folder}/")
        for module in sorted(set(sources.imports(path)))
        if any(f"{module}.".startswith(f"{library}.") for library in libraries)
    ]


def jvm_outside_its_rooms(sources: Sources) -> list[str]:
    """Ways into the JVM that do not go through the rooms that know it."""
    found = []
    for path in sources.trees:
        if not path.startswith(JVM_ROOMS):
            found += [f"{path}:{line} uses {name}" for line, name in sorted(sources.found(path, _jvm_uses))]
            found += [f"{path} imports {GATEWAY}" for imported in set(sources.imports(path)) if imported == GATEWAY]
    return found


def _jvm_uses(tree: ast.AST) -> Iterable[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in JVM_ATTRIBUTES:
            yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and node.value in JVM_ATTRIBUTES:  # getattr(frame, "_jdf")
            yield node.lineno, str(node.value)
        elif isinstance(node, ast.ImportFrom) and node.module == "py4j.java_gateway":
            yield node.lineno, node.module


def crowd_in_runtime(sources: Sources) -> list[str]:
    """The files directly in ``runtime/``, if they are too many."""
    flat = [path for path in sources.trees if path.startswith("runtime/") and path.count("/") == 1]
    flat = [path for path in flat if not path.endswith("/__init__.py")]
    return flat if len(flat) > FILES_IN_RUNTIME else []


def crowded_rooms(sources: Sources) -> list[str]:
    """Folders with more files directly in them than one can look over; the last one is named."""
    rooms: dict[str, list[str]] = {}
    for path in sources.trees:
        folder, _, name = path.rpartition("/")
        if name != "__init__.py":
            rooms.setdefault(folder, []).append(path)
    return [
        f"{folder} has {len(files)} files, {max(files)} among them"
        for folder, files in sorted(rooms.items())
        if len(files) > FILES_IN_A_ROOM
    ]


def long_files(sources: Sources) -> list[str]:
    """Files that are too long; functions of theirs are held to their complexity by ruff (``pyproject.toml``)."""
    lines = {path: max((node.end_lineno or 0 for node in tree.body), default=0) for path, tree in sources.trees.items()}
    return [f"{path} has {count} lines" for path, count in lines.items() if count > LARGER.get(path, LINES_IN_A_FILE)]


def large_classes(sources: Sources) -> list[str]:
    """Classes with too many methods."""
    found = []
    for path, tree in sources.trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(child, ast.FunctionDef) for child in node.body)
                if methods > LARGER.get(f"{path} {node.name}", METHODS_IN_A_CLASS):
                    found.append(f"{path}: {node.name} has {methods} methods")
    return found


def arguments_undocumented(sources: Sources) -> list[str]:
    """Functions and classes that users or other rooms call, and that do not say what they take and raise."""
    found = []
    for path in sources.trees:
        if path.startswith(DOCUMENTED) and path not in ALIKE:
            for name, doc, function, raises in sources.found(path, _documented):
                if "Args:" not in doc and not any(words in doc for words in _ELSEWHERE):
                    found.append(f"{path}:{function.lineno} {name} lacks Args:")
                if raises and "Raises:" not in doc and "Raise " not in doc:
                    found.append(f"{path}:{function.lineno} {name} lacks Raises:")
    return found


def references_to_nothing(sources: Sources) -> list[str]:
    """Docstrings that send their reader to a file, or to a name in it, that is not there."""
    found = []
    for path in sources.trees:
        references = sources.found(path, _references)
        found += [f"{path} speaks of {one}" for one in references if not sources.names(path, one)]
    return found


def _references(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield from _REFERENCE.findall(ast.get_docstring(node) or "")


def modules_in_riddles(sources: Sources) -> list[str]:
    """Modules whose docstring begins with a half sentence instead of what the module is or does."""
    return [
        f"{path} begins with {word}"
        for path, tree in sources.trees.items()
        if (word := (ast.get_docstring(tree) or "").partition(" ")[0]) in ("What", "Whether", "How")
    ]


def _documented(tree: ast.Module) -> Iterator[tuple[str, str, ast.FunctionDef, bool]]:
    """What is public, and whether it raises."""
    for name, doc, function in _public(tree):
        raises = any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(function))
        yield name, doc, function, raises


def _public(node: ast.AST, owner: ast.ClassDef | None = None) -> Iterator[tuple[str, str, ast.FunctionDef]]:
    """Name, docstring and definition of public functions with three or more arguments; a class stands for its init."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _public(child, child)
        elif isinstance(child, ast.FunctionDef) and (child.name == "__init__" or not child.name.startswith("_")):
            given = child.args
            arguments = len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - (owner is not None)
            if arguments >= 3:
                documented = owner if owner is not None and child.name == "__init__" else child
                name = child.name if owner is None else f"{owner.name}.{child.name}"
                yield name, ast.get_docstring(documented) or "", child


RULES: tuple[Callable[[Sources], list[str]], ...] = (
    files_without_a_room,
    arrows_upwards,
    circles,
    libraries_out_of_place,
    jvm_outside_its_rooms,
    crowd_in_runtime,
    crowded_rooms,
    long_files,
    large_classes,
    arguments_undocumented,
    references_to_nothing,
    modules_in_riddles,
)
