"""Where rows of a job come from: ``mixedmode.read`` and the readers of Kafka, Delta and Iceberg."""
