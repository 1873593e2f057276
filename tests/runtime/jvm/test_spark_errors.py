"""What Spark says, with two hundred lines of Java around it, becomes what happened."""

from __future__ import annotations

import pytest
from mixedmode.errors import QueryError, UserCodeError
from mixedmode.runtime.jvm.spark_errors import cause_first, what_happened
from mixedmode.runtime.jvm.user_frames import UserFrames

AT = "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:857)\n"
FILE = "file:///lake/zz.parquet"
CORRUPT = (
    "An error occurred while calling o22694.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 9.0 failed 1 times, "
    "most recent failure: Lost task 0.0 in stage 9.0 (TID 12) (here executor driver): org.apache.spark.SparkException: "
    f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {FILE}.  SQLSTATE: KD001\n{AT}"
    f"Caused by: java.lang.RuntimeException: {FILE} is not a Parquet file. Expected magic number at tail\n{AT}"
    f"\t... 20 more\n\nDriver stacktrace:\n{AT}{AT}"
    "Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
    f"{FILE}.  SQLSTATE: KD001\n{AT}Caused by: java.lang.RuntimeException: {FILE} is not a Parquet file. Expected magic"
    f" number at tail\n{AT}\t... 20 more\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            CORRUPT,
            f"Encountered error while reading file {FILE}: RuntimeException: {FILE} is not a Parquet file. Expected"
            " magic number at tail [FAILED_READ_FILE.NO_HINT]",
        ),
        (
            "An error occurred while calling o1.start.\n: java.nio.file.NoSuchFileException: /dev/shm/gone\n" + AT,
            "NoSuchFileException: /dev/shm/gone",
        ),
        (
            "An exception was thrown from the Python worker: Traceback (most recent call last):\n  File 'x'\n    f()\n"
            "NotADirectoryError: [Errno 20] cannot open '/lake/x'\n SQLSTATE: 38000\n" + AT,
            "NotADirectoryError: [Errno 20] cannot open '/lake/x'",
        ),
        (
            CORRUPT.replace("NO_HINT", "PARQUET_COLUMN_DATA_TYPE_MISMATCH"),
            f"Encountered error while reading file {FILE} [FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH]",
        ),
        (
            "Job aborted due to stage failure: Task 0 in stage 5.0 failed 1 times, most recent failure: Lost task 0.0"
            " in stage 5.0 (TID 8) (vm executor driver): org.apache.kafka.common.errors.TopicAuthorizationException:"
            " Not authorized to access topics: [readings]\n\nDriver stacktrace:\n" + AT,
            "TopicAuthorizationException: Not authorized to access topics: [readings]; the job's user needs READ and"
            " DESCRIBE on the topic",
        ),
        (
            "[STREAM_FAILED] Query [id = 9f5dc1a3, runId = b24e8d5d] terminated with exception: Invalid value 'x' for"
            " option 'maxFilesPerTrigger', must be a positive integer SQLSTATE: XXKST\n=== Streaming Query ===\n"
            "Identifier: mixedmode (live source) [id = 9f5dc1a3]\nCurrent State: INITIALIZING",
            "Invalid value 'x' for option 'maxFilesPerTrigger', must be a positive integer",
        ),
        ("no such disk\nsecond line\n\n" + "more\n" * 20, "no such disk\nsecond line" + "\nmore" * 8),
        ("", "RuntimeError"),
    ],
)
def test_the_first_line_is_what_happened(text: str, said: str) -> None:
    """File, and what is wrong with it, come first; classes of wrappers and Java's stack do not come at all."""
    assert what_happened(RuntimeError(text)) == said


def test_what_was_raised_comes_before_its_place() -> None:
    """In a query's error and in the log, of which only the first line is read; nothing of it is lost."""
    raised = UserCodeError('File "x.py", line 1, in f: g()\nValueError: one\n  | \n  | two\nin processor P')
    assert cause_first(raised) == 'ValueError: one\n  | \n  | two\nFile "x.py", line 1, in f: g()\nin processor P'
    assert cause_first(QueryError('File "x.py" is gone\nreally')) == 'File "x.py" is gone\nreally'


def test_what_spark_has_raised_in_a_users_function() -> None:
    """Is told as short there: the user's call of Spark has failed, and a page of Java does not say more."""
    told = UserFrames.since(None).description(RuntimeError(CORRUPT), "function f of foreachBatch, batch 1")
    assert told.startswith(f"RuntimeError: Encountered error while reading file {FILE}: ") and len(told) < 300, told
    assert told.endswith("\nin function f of foreachBatch, batch 1")
