"""Compiles a small Java class in the driver's JVM, where Spark calls what only a subclass of its own can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .gateway import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: By Py4J's view of the JVM, and name.
_COMPILED: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def compiled_class(spark: SparkSession, name: str, source: str) -> Any:
    """The class, compiled once in each JVM by Janino, which Spark has.

    Args:
        spark: a session.
        name: of the class; no other source has it.
        source: as Java; Janino knows no generics, lambdas or annotations.
    """
    view: Any = spark._jvm
    known = _COMPILED.setdefault(view, {})
    if name not in known:
        compiler = java_class(spark, "org.codehaus.janino.SimpleCompiler")()
        compiler.setParentClassLoader(java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader())
        compiler.cook(source)
        known[name] = compiler.getClassLoader().loadClass(name)
    return known[name]
