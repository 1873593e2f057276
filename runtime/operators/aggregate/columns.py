"""Columns of a prepared frame besides keys and buffers."""

#: Rows of the input that a partial row stands for; rows in several sliding windows count in one of them.
ROWS_COLUMN = "__rows"
#: Their greatest event time.
MAX_TIME_COLUMN = "__max_ts"
SESSION_START_COLUMN = "__session_start"
SESSION_END_COLUMN = "__session_end"
#: Spark's grouping id: which of the grouping sets a group is of.
GROUPING_ID_COLUMN = "__grouping_id"
