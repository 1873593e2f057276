"""Types and schemas of Spark and Arrow, as text and as each other."""
