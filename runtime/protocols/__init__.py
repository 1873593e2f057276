"""The rules, without a disk, a clock or a thread."""
