"""The command line: ``mixedmode`` looks at checkpoints and savepoints, plans job files, and asks running jobs.

Part of the planner because it is what a user says things with; it only calls what the library offers to anybody.
"""
