"""From a described job to the plan that executes it."""
