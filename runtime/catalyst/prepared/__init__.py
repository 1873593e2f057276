"""Plans and jobs that Spark has analysed or planned once, and that run many times."""
