"""What a job's runs were, as one page of HTML that needs nothing else."""
