"""What the user says and what we decide.

The way of a job through this folder: ``frame`` (read, stateless operations on both ``inputs``, watermark) -> ``keys``
and ``grouped`` (the keyed stage: ``processors`` or ``aggregates``) -> ``keyed`` -> ``writer`` (sink and options) ->
``compile``, which asks ``options`` for the settings and ``modes`` for the phases and makes of them an ExecutionPlan
(``plan``, printed by ``explain``) and the JobSpec that the runtime executes.

Invariant: whatever is decided is in the plan.  The runtime gets the plan's phases and decides nothing about modes.
"""
