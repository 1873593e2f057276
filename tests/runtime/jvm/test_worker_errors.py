"""Errors of workers, as Spark hands their text on, become what they were."""

from __future__ import annotations

import pytest
from mixedmode.errors import CorruptStateError, UserCodeError
from mixedmode.runtime.jvm import user_frames
from mixedmode.runtime.jvm.worker_errors import raised_in_workers, translate

JAVA = (
    "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1097)\n"
)


def spark_error(
    *lines: str, head: str = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
) -> Exception:
    """As it comes of a failed stage."""
    text = "\n".join([f"Job aborted: {head}Traceback (most recent call last):", *lines, ""])
    return RuntimeError(f"{text} SQLSTATE: 38000\n{JAVA}\nDriver stacktrace:\n{JAVA}")


def test_an_error_of_ours_comes_back_as_it_was() -> None:
    """With its type, and its message of several lines; the last of a chain counts."""
    own = "mixedmode.errors.CorruptStateError: state file x is missing\nat File 'y'"
    found = translate(
        spark_error(
            '  File "/x/worker.py", line 3, in main', "    process()", "mixedmode.errors.QueryError: a", "", own
        )
    )
    assert isinstance(found, CorruptStateError)
    assert str(found).startswith("state file x is missing\nat File 'y'")


def test_a_function_that_spark_has_called() -> None:
    """The user's own frame of a UDF comes first, without those of Spark and of ours around it."""
    found = translate(
        spark_error(
            f'  File "{user_frames._ENGINE[-1]}worker.py", line 3, in main',
            "    process()",
            '  File "/home/me/job.py", line 12, in clean',
            "    return float(text)",
            "           ^^^^^^^^^^^",
            f'  File "{user_frames._LIBRARIES[0]}json/decoder.py", line 7, in decode',
            "ValueError: could not convert string to float: 'x'",
        )
    )
    assert isinstance(found, UserCodeError)
    assert str(found).startswith(
        'File "/home/me/job.py", line 12, in clean: return float(text)\n'
        "ValueError: could not convert string to float: 'x'\nin a Python function of the job"
    )
    assert "SQLSTATE" not in str(found)
    assert found.__context__ is not None and found.__suppress_context__, "the story is told once"


def test_an_error_in_libraries_or_in_java_stays_as_it_is() -> None:
    """What no code of the user's has to do with is not put down to it."""
    frames = (
        f'  File "{user_frames._ENGINE[1]}shard_task.py", line 3, in run',
        f'  File "{user_frames._LIBRARIES[1]}x.py", line 1, in y',
    )
    for error in (spark_error(*frames, "OSError: disk"), RuntimeError(f"java.lang.Oops\n{JAVA}")):
        assert translate(error) is error


def test_what_a_worker_raised_is_raised_instead_of_sparks_error() -> None:
    """Spark's is its context, which Python does not print; an error of Java's is raised as it is, with its cause."""
    of_spark = spark_error("mixedmode.errors.CorruptStateError: state file x is missing")
    with pytest.raises(CorruptStateError, match="state file x is missing") as found, raised_in_workers():
        raise of_spark
    assert found.value.__context__ is of_spark and found.value.__cause__ is None
    of_java, cause = RuntimeError("java.lang.Oops"), OSError("disk")
    with pytest.raises(RuntimeError) as left, raised_in_workers():
        raise of_java from cause
    assert left.value is of_java and of_java.__cause__ is cause
