"""``trigger(realTime=…)``: which jobs can have a live phase in Spark's Real-Time Mode, and what that phase is."""
