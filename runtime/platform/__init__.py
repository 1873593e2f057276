"""What Spark, the file system and Python give, behind names of our own."""
