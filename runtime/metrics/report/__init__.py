"""The report on a job's runs: one page of HTML that needs nothing else."""
