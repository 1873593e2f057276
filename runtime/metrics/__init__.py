"""Events, metrics, progress and reports of a run."""
