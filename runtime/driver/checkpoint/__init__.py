"""When a checkpoint begins, how it becomes complete, and what is tidied up behind it."""
