"""Java classes that PySpark asks for by their names alone, found once.

Each use of ``spark._jvm.functions``, which is in each ``F.col()``, asks the JVM, and that looks for a class of that
name in a dozen packages, in all of its jars.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JVMView


def remember() -> None:
    """Have Py4J's views of JVMs keep the classes that they have found, in this process."""
    ask = JVMView.__getattr__

    def found_once(view: JVMView, name: str) -> Any:
        found = ask(view, name)
        if isinstance(found, JavaClass):
            vars(view)[name] = found
        return found

    JVMView.__getattr__ = found_once
