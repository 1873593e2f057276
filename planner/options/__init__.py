"""Options: names, values, and where they may be set."""
