"""The package that a session lacks for a data source that is not Spark's own, in the version for this Spark."""

from __future__ import annotations

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...errors import SetupError
from .spark_formats import data_source

#: Packages of Delta and Iceberg that this version was tried with, by Spark's minor version.
_TRIED = {
    "delta": {"4.1": "io.delta:delta-spark_4.1_2.13:4.4.0"},
    "iceberg": {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
}
#: What such packages are called for another version of Spark.
_NAMED = {
    "delta": "io.delta:delta-spark_{minor}_2.13:<version>",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:<version>",
}
_SETTINGS = {
    "delta": (
        ", spark.sql.extensions = 'io.delta.sql.DeltaSparkSessionExtension' and spark.sql.catalog.spark_catalog ="
        " 'org.apache.spark.sql.delta.catalog.DeltaCatalog'"
    ),
    "iceberg": " and, for tables by name, spark.sql.catalog.<name> = 'org.apache.iceberg.spark.SparkCatalog'",
}
#: How people call them.
_NAMES = {"kafka": "Spark's connector to Kafka", "delta": "Delta Lake", "iceberg": "Iceberg's runtime"}


def package_hint(format: str, version: str) -> str | None:
    """What a session must be made with so that it knows a format; None: nothing is known of it.

    Args:
        format: its name.
        version: Spark's.
    """
    name, minor = format.lower(), ".".join(version.split(".")[:2])
    if name == "kafka":
        return f"make the session with spark.jars.packages = 'org.apache.spark:spark-sql-kafka-0-10_2.13:{version}'"
    if name not in _TRIED:
        return None
    package = _TRIED[name].get(minor)
    if package is not None:
        return f"make the session with spark.jars.packages = '{package}'{_SETTINGS[name]}"
    tried, known = next(iter(_TRIED[name].items()))
    return (
        f"make the session with spark.jars.packages = '{_NAMED[name].format(minor=minor)}'{_SETTINGS[name]}. Where"
        f" there is no such package for Spark {minor} yet, use pyspark {tried} with '{known}', which is tried"
    )


def check_connector(spark: SparkSession, format: str) -> None:
    """Raise SetupError if the session does not know one of these formats; names the package.

    Args:
        spark: the session.
        format: ``kafka``, ``delta`` or ``iceberg``.
    """
    try:
        data_source(spark, format)
    except PySparkException as error:
        raise SetupError(
            f"the session lacks {_NAMES[format]}: Spark {spark.version} does not know the format {format!r}\n"
            f"Spark downloads a package only when its JVM starts: {package_hint(format, spark.version)}",
            code="MIXEDMODE_CONNECTOR_MISSING",
        ) from error
    except (Py4JError, TypeError):
        return  # another version of Spark: reading says it
