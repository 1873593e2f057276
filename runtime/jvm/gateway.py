"""The one way into the JVM of a classic session; only the modules beside this one use it.

The rooms above ask questions: of plans (:mod:`..catalyst.spark_plans`), expressions
(:mod:`..catalyst.spark_expressions`), types and tables (:mod:`..spark_io.spark_tables`), formats
(:mod:`..spark_io.spark_formats`), paths (:mod:`..storage.spark_paths`), settings and sessions
(:mod:`..catalyst.spark_session`), executors (:mod:`..catalyst.spark_cluster`).  A session of another kind needs another
answer to each of these questions and nothing else; what it cannot answer it says it does not know.

Every use of the gateway is a round trip, and so is every step from a package to a package in it: classes are asked for
by their whole names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass, is_instance_of  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

#: Classes that have been asked for, by Py4J's view of the JVM.
_CLASSES: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
#: What tells the name of an object's class, by Py4J's connection.
_CLASS_NAMES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def java_class(spark: SparkSession, name: str) -> Any:
    """A class, or a Scala object's static side, by its whole name."""
    view: Any = spark._jvm
    known = _CLASSES.setdefault(view, {})
    if name not in known:
        found = getattr(view, name)
        if not isinstance(found, JavaClass):  # it is not there, and may be one day
            return found
        known[name] = found
    return known[name]


def name_of_class(spark: SparkSession, names: Sequence[str]) -> str | None:
    """The first of these whole names that is a class: versions of Spark move them; None: none is."""
    return next((name for name in names if isinstance(java_class(spark, name), JavaClass)), None)


def simple_class_name(value: Any) -> str:
    """The simple name of a Java object's class.

    By a method of a library that Spark needs itself, in one round trip: to get the class first makes an object that has
    to be collected again.
    """
    client = value._gateway_client
    known = _CLASS_NAMES.get(client)
    if known is None:
        known = _CLASS_NAMES[client] = JavaClass("org.apache.commons.lang3.ClassUtils", client).getSimpleName
    return str(known(value))


def java_session(spark: SparkSession) -> Any:
    """The session's own object."""
    return spark._jsparkSession


def session_state(spark: SparkSession) -> Any:
    """Parser, analyzer, catalogs and settings of the session."""
    return java_session(spark).sessionState()


def query_execution(frame: DataFrame) -> Any:
    """A frame's plans in all their stages."""
    return frame._jdf.queryExecution()


def logical_plan(frame: DataFrame) -> Any:
    """A frame's logical plan, resolved; it is there already."""
    return frame._jdf.logicalPlan()


def java_type(spark: SparkSession, data_type: DataType) -> Any:
    """A type, or a schema."""
    return java_class(spark, "org.apache.spark.sql.types.DataType").fromJson(data_type.json())


def scala_sequence(spark: SparkSession, members: Iterable[Any]) -> Any:
    """A Scala sequence."""
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(list(members))


def scala_map(spark: SparkSession, entries: Mapping[str, str]) -> Any:
    """A Scala map."""
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap(dict(entries))


def scala_option(spark: SparkSession, value: Any = None) -> Any:
    """A Scala option of a value; None: the empty one."""
    return java_class(spark, "scala.Option").apply(value)


def scala_object(spark: SparkSession, name: str) -> Any:
    """A Scala object, by its whole name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def scala_entries(entries: Any) -> list[tuple[str, str]]:
    """The names and values of a Scala map, as texts."""
    pairs = entries.toSeq()
    found = (pairs.apply(place) for place in range(pairs.size()))
    return [(str(pair._1()), str(pair._2())) for pair in found]


def java_array(spark: SparkSession, members: Sequence[Any], of: str = "java.lang.Object") -> Any:
    """An array of Java objects.

    Args:
        spark: the session.
        members: what is in it.
        of: the class that it is declared for.
    """
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(java_class(spark, of), len(members))
    for at, member in enumerate(members):
        array[at] = member
    return array


def is_instance(spark: SparkSession, value: Any, name: str) -> bool:
    """True if a Java object is of a class.

    Args:
        spark: the session.
        value: the object.
        name: whole name of the class or interface.
    """
    return bool(is_instance_of(spark.sparkContext._gateway, value, name))


def new(spark: SparkSession, found: Any) -> Any:
    """An object of a ``java.lang.Class`` that can be made of nothing."""
    return found.getDeclaredConstructor(java_array(spark, (), "java.lang.Class")).newInstance(java_array(spark, ()))


def java_texts(spark: SparkSession, entries: Any) -> dict[str, str]:
    """A map of Java's of texts, in one call instead of two for each entry."""
    mapper = java_class(spark, "com.fasterxml.jackson.databind.ObjectMapper")()
    found: dict[str, str] = json.loads(mapper.writeValueAsString(entries))
    return found
