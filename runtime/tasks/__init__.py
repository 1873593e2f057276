"""What runs in Spark tasks, and how it is sent out."""
