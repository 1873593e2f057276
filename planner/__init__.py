"""The description of a job by its user, and the plan that is made of it.

The way of a job through this folder: ``frames`` (``read``, operations without state on the ``inputs``, watermark,
``groupBy``) -> ``stages`` (keys, and the keyed stage: processor, aggregate or deduplication), whose output is a frame
again -> ``frames.writer`` (sink and options) -> ``plans.compile``, which asks ``options`` for the settings,
``plans.graph`` for the stages and ``plans.phases`` for the phases, and makes of them an ExecutionPlan (``plans.plan``,
printed by ``explain``) and the JobSpec that the runtime executes.

Invariant: whatever is decided is in the plan.  The runtime gets the plan's phases and decides nothing about modes.
"""
