"""Columns of the frame that a deduplication is prepared as, besides keys and the row's other columns."""

#: Rows of the input that a row stands for.
ROWS_COLUMN = "__rows"
#: How many of them are late; not there where none can be.
LATE_ROWS_COLUMN = "__late_rows"
#: Greatest event time of those that are not late; not there if the event time is a key.
MAX_TIME_COLUMN = "__max_ts"
#: Event time of the row that stays; there if the state of its key depends on it.
TIME_COLUMN = "__time"
#: Marks late rows before they are aggregated.
LATE_COLUMN = "__late_row"
LATE_END_COLUMN = "__late_end"
#: The row that stays, before it is taken apart.
ROW_COLUMN = "__row"
