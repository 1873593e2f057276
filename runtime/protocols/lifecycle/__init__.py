"""The end of tasks: the protocol of FLIP-147 as plain state machines, driven by the runtime for every job.  Sans-IO."""
