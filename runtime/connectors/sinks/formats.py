"""What a format is known for by its name alone, before there is a sink of it."""

from __future__ import annotations

#: Formats that are ours; every other one is Spark's to write.
FORMATS = ("parquet", "memory", "console", "noop")
#: Formats whose output is gone with the session: nothing outlives the query that a checkpoint could belong to.
PASSING_FORMATS = ("memory", "console", "noop")
#: Formats without a use for a path.
PATHLESS_FORMATS = (*PASSING_FORMATS, "foreachBatch")
#: Formats that do without a ``checkpointLocation``, as in stock Spark: they get a temporary one.
ONE_TIME_FORMATS = PATHLESS_FORMATS
#: Formats whose tables are overwritten by one commit: readers see the old rows or the new ones.
REPLACING_FORMATS = ("delta", "iceberg")
#: Formats that are given the whole result each time, beside what they were given before.
REPEATING_FORMATS = ("kafka",)
#: Those that can show the whole result in place of the one before.
WHOLE_FORMATS = (*PASSING_FORMATS, "foreachBatch")
#: Those that take several columns of one name.
UNCHECKED_NAMES_FORMATS = WHOLE_FORMATS
#: Spark's own formats that cannot do without a path or a table.
NEED_PATH = ("csv", "json", "orc", "text", "xml", "avro", "delta", "iceberg")
#: Formats that can only add rows.
FILE_FORMATS = ("parquet", *NEED_PATH)
#: Options that all of ours take, as stock Spark's do: jobs are tried with the console and keep them.  By lower case.
KNOWN_OPTIONS = {name.lower(): name for name in ("path", "checkpointLocation", "numRows", "truncate")}
