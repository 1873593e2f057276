"""``handleArrowRows``: blocks of keys as Arrow columns."""
