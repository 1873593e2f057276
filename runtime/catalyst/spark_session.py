"""A Spark session of our own beside the user's, for settings that are ours and must not reach their queries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..jvm.gateway import java_class, java_session, java_texts, java_type, session_state
from .spark_plans import analyzed, frame_of

logger = logging.getLogger(__name__)

#: Two that make sessions at once would each keep what the other has put there.
_MAKING = threading.RLock()


def activate(session: SparkSession) -> None:
    """Make the session this thread's: Spark asks no other for many of its settings, and takes defaults without one."""
    java_class(session, "org.apache.spark.sql.classic.SparkSession").setActiveSession(java_session(session))


@contextmanager
def keeping_active(spark: SparkSession) -> Iterator[None]:
    """Whatever session is made this thread's meanwhile, behind it there is the one that was."""
    sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
    found = sessions.getActiveSession()
    try:
        yield
    finally:
        if found.isDefined():
            sessions.setActiveSession(found.get())
        else:
            sessions.clearActiveSession()


def session_settings(spark: SparkSession) -> dict[str, str]:
    """``spark.conf.getAll``, in a few calls to the JVM instead of two for each entry."""
    return java_texts(spark, java_session(spark).conf().getAllAsJava())


def is_on(spark: SparkSession, name: str, *, default: bool) -> bool:
    """Whether a setting of Spark's is true.

    Args:
        spark: the session.
        name: of the setting, which is true or false.
        default: what it is in versions of Spark that do not know it.
    """
    return str(spark.conf.get(name, str(default))).lower() == "true"


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame without rows; PySpark's own way makes RDDs, which takes as long as an analysis."""
    session, rows = java_session(spark), java_class(spark, "java.util.ArrayList")()
    return DataFrame(session.createDataFrame(rows, session.parseDataType(schema.json())), spark)


def frame_without_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame of one partition without rows, of which Spark's optimizer does not know that it has none.

    Args:
        spark: its session.
        schema: its columns.
    """
    context: Any = spark.sparkContext._jsc
    rdd = context.parallelize(java_class(spark, "java.util.ArrayList")(), 1).rdd()
    return DataFrame(java_session(spark).internalCreateDataFrame(rdd, java_type(spark, schema), False), spark)


def to_df() -> Any:
    """What makes frames of RDDs; PySpark has it make frames of the session that was made last, wherever that was."""
    return RDD.__dict__.get("toDF")


def keep_to_df(found: Any) -> None:
    """Have RDDs made into frames as they were; what the user makes is to be of their session, and not of ours."""
    if found is not None:
        RDD.toDF = found  # type: ignore[method-assign]


@contextmanager
def keeping_to_df() -> Iterator[None]:
    """Sessions that are made meanwhile get no RDDs."""
    with _MAKING:
        found = to_df()
        try:
            yield
        finally:
            keep_to_df(found)


def cloned(origin: SparkSession) -> SparkSession:
    """A session with the settings, views and functions that another one has now.

    Spark clones a session for every streaming query in this way; a new one would need every setting by itself.
    """
    with keeping_to_df():
        return type(origin)(origin.sparkContext, java_session(origin).cloneSession())


def copy_variables(origin: SparkSession, to: SparkSession) -> None:
    """Have a session know the variables (``DECLARE VARIABLE``) that another one has now, which a clone does not."""
    try:
        known, others = (session_state(one).catalogManager().tempVariableManager() for one in (origin, to))
        if not known.isEmpty():
            field = known.getClass().getDeclaredField("variables")
            field.setAccessible(True)
            field.get(others).addAll(field.get(known))
    except Py4JError as error:  # another version of Spark
        logger.warning("the job does not know SQL variables of the session: %s", error)


def unheard(origin: SparkSession) -> SparkSession:
    """As :func:`cloned`; those who listen to the user's queries are not told of the queries of this session."""
    session = cloned(origin)
    java_session(session).listenerManager().clear()
    return session


#: Settings for jobs that move hardly any rows: Spark computes them as they are, without Java code of their own, which
#: takes a JVM that has done nothing yet a third of a second to generate and compile.
WITHOUT_CODE = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class PrivateSession:
    """A session with the settings of another one, except for some.

    Args:
        origin: the session whose settings are taken over, as they are when this one is first used.
        settings: what is different.
    """

    def __init__(self, origin: SparkSession, settings: dict[str, str]) -> None:
        self._origin = origin
        self._settings = settings
        self._session: SparkSession | None = None

    @property
    def session(self) -> SparkSession:
        """The session; opened when it is first asked for."""
        if self._session is None:
            self._session = self._open()
        return self._session

    def adopt(self, frame: DataFrame) -> DataFrame:
        """The same rows, to be planned under this session's settings; ``frame`` itself stays as it is.

        Its plan is analyzed already, so functions and views of its own session need not exist here.  (The public way
        from one session to another is a global temporary view: two commands of Spark's catalog in each epoch.)
        """
        return frame_of(self.session, analyzed(frame))

    def _open(self) -> SparkSession:
        session = cloned(self._origin)
        for name, value in self._settings.items():
            session.conf.set(name, value)
        return session
