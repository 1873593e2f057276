"""Checks what the job needs: Java, Spark, the workers' Python, the kind of session.

Spark reports each of these late and far from the cause (a worker that lacks pyarrow, a gateway that exits), so they are
checked before anything starts, and every error says what to set.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache

from pyspark.sql import SparkSession

from ...errors import SetupError

LEAST_PYTHON = (3, 10)
LEAST_JAVA = 17
LEAST_SPARK = (4, 1)

#: Conf by which a session can give its Python functions another interpreter than the context's.
_SESSION_PYTHON_CONF = "spark.sql.execution.pyspark.python"
#: What PySpark runs where nobody has said anything.
_DEFAULT_PYTHON = "python3"
#: Starting a JVM to ask for its version takes about a second on a busy machine.
_PROBE_TIMEOUT_S = 60


@dataclass(frozen=True)
class Environment:
    """What was found."""

    python: str
    java: str
    spark: str
    #: Interpreter that Spark's workers will run.
    worker_python: str


def check_environment() -> Environment:
    """Checks Python, Java, PySpark and the workers' Python; needs no Spark session.

        mixedmode.check_environment()

    Raises:
        SetupError: something is missing or too old; the message says what to install or set.
    """
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < LEAST_PYTHON:
        raise SetupError(f"Python {python} is too old; mixedmode needs Python {_dotted(LEAST_PYTHON)} or newer")
    return Environment(
        python=python, java=check_java(), spark=check_pyspark(), worker_python=check_worker_python(_context_python())
    )


def check_pyspark() -> str:
    """The version of PySpark, which must be new enough."""
    try:
        import pyspark
    except ImportError as error:
        raise SetupError("PySpark is not installed; install it with: pip install 'pyspark>=4.1,<5'") from error
    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if found < LEAST_SPARK:
        raise SetupError(f"PySpark {pyspark.__version__} is too old; mixedmode needs {_dotted(LEAST_SPARK)} or newer")
    return str(pyspark.__version__)


def check_java() -> str:
    """The version of the Java that Spark will start, which must be new enough."""
    home = os.environ.get("JAVA_HOME")
    hint = f"install Java {LEAST_JAVA} or newer (for example openjdk-{LEAST_JAVA}-jre-headless) and set JAVA_HOME to it"
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise SetupError(
            f"Java was not found: JAVA_HOME is not set and there is no java on PATH; {hint}",
            code="MIXEDMODE_JAVA_MISSING",
        )
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        where = f"JAVA_HOME = {home!r}" if home else f"java on PATH, {java!r}"
        raise SetupError(f"Java could not be run ({where}): {error}; {hint}", code="MIXEDMODE_JAVA_MISSING") from error
    version = java_version(answer.stderr + answer.stdout)
    if java_major(version) < LEAST_JAVA:
        raise SetupError(
            f"Java {version} ({java}) is too old, Spark 4 needs {LEAST_JAVA} or newer; {hint}",
            code="MIXEDMODE_JAVA_MISSING",
        )
    return version


def java_version(text: str) -> str:
    """The version in the output of ``java -version``."""
    found = re.search(r'version "([^"]+)"', text)
    if found is None:
        raise SetupError(
            f"the output of java -version was not understood: {text.strip()!r}", code="MIXEDMODE_JAVA_MISSING"
        )
    return found.group(1)


def java_major(version: str) -> int:
    """``"17.0.12"`` is 17; ``"1.8.0_392"``, the old way of counting, is 8."""
    parts = [int(part) for part in re.findall(r"\d+", version)]
    return parts[1] if parts[0] == 1 and len(parts) > 1 else parts[0]


def check_session(spark: SparkSession) -> None:
    """Check that the session is a classic one whose workers run the driver's Python.

    In local mode, where nobody has said which they run, they are given it: Spark's default is whatever ``python3`` is.
    """
    refuse_connect(spark)
    context = spark.sparkContext
    if _is_unset(spark) and sys.executable:
        context.pythonExec = sys.executable
    worker = spark.conf.get(_SESSION_PYTHON_CONF, None) or context.pythonExec
    check_worker_python(worker, same_environment=str(context.master).startswith("local"))


def _is_unset(spark: SparkSession) -> bool:
    """True if workers are processes of this machine that would run Spark's default, and nobody has said so."""
    context = spark.sparkContext
    is_local = re.fullmatch(r"local(\[.*\])?", str(context.master)) is not None
    settings = ("spark.pyspark.python", "spark.pyspark.driver.python")
    is_said = (
        "PYSPARK_PYTHON" in os.environ
        or spark.conf.get(_SESSION_PYTHON_CONF, None) is not None
        or any(context.getConf().contains(name) for name in settings)
    )
    return is_local and not is_said and context.pythonExec == _DEFAULT_PYTHON


def refuse_connect(thing: object) -> None:
    """Raise if the session, frame or column belongs to Spark Connect."""
    if type(thing).__module__.startswith("pyspark.sql.connect"):
        raise SetupError(
            f"{type(thing).__name__} belongs to a Spark Connect session, which mixedmode does not support: it runs its"
            " own code beside the Spark driver; use a classic session (SparkSession.builder.master(...), without"
            " remote(...) and SPARK_REMOTE)",
            code="MIXEDMODE_SPARK_CONNECT",
        )


def check_worker_python(worker: str, *, same_environment: bool = True) -> str:
    """Check that the workers' interpreter is the driver's.

    With ``same_environment`` (workers run on this machine) it must be the same installation; otherwise the same minor
    version, as far as the interpreter can be found from here: a cluster may have it elsewhere.
    """
    path = shutil.which(worker)
    if path is not None and os.path.abspath(path) == os.path.abspath(sys.executable):
        return path
    hint = (
        f"set os.environ['PYSPARK_PYTHON'] = {sys.executable!r} (or export PYSPARK_PYTHON) before the Spark session is"
        " created, and restart a session that exists"
    )
    found = _interpreter(path) if path is not None else None
    if found is None:
        if same_environment:
            raise SetupError(
                f"Spark's workers would run Python {worker!r}, which cannot be started here; {hint}",
                code="MIXEDMODE_WORKER_PYTHON",
            )
        return worker
    prefix, version = found
    driver = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != driver or (same_environment and os.path.realpath(prefix) != os.path.realpath(sys.prefix)):
        raise SetupError(
            f"Spark's workers would run {worker!r} (Python {version}, {prefix}), the driver runs {sys.executable!r}"
            f" (Python {driver}, {sys.prefix}); {hint}",
            code="MIXEDMODE_WORKER_PYTHON",
        )
    return worker


@lru_cache
def _interpreter(path: str) -> tuple[str, str] | None:
    """Prefix and minor version of an interpreter; None: it cannot be run."""
    code = "import sys; print(sys.prefix); print(f'{sys.version_info[0]}.{sys.version_info[1]}')"
    try:
        answer = subprocess.run(
            [path, "-c", code], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    prefix, version = answer.stdout.splitlines()[:2]
    return prefix, version


def _context_python() -> str:
    """The interpreter that the running context uses, or that a new one would use."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        return context.pythonExec
    # That of this process is what a local session is given; a cluster's is checked when there is one.
    return os.environ.get("PYSPARK_PYTHON") or sys.executable or _DEFAULT_PYTHON


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
