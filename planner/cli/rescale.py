"""``mixedmode rescale LOCATION N``: other numbers of shards for the job that runs on a location."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import AsJson, Location, Timeout
from .console import failures, print_facts, print_json


def rescale(
    location: Location,
    parallelism: Annotated[
        int, typer.Argument(help="Number of shards, from 1 to pipeline.max-parallelism.", min=1, show_default=False)
    ],
    stage: Annotated[str | None, typer.Option(help="Uid of the one stage that it is for; all if not given.")] = None,
    timeout: Timeout = 600.0,
    as_json: AsJson = False,
) -> None:
    """Have the job that runs on LOCATION go on with PARALLELISM shards, from a checkpoint on, without a stop.

    A backlog at batch speed is worked off first.
    """
    from ...runtime.driver.requests.remote_client import ask
    from .job_requests import telling
    from .location_checks import check_location

    check_location(location)
    with failures(as_json):
        ask(
            location,
            "rescale",
            parallelism=parallelism,
            stage=stage,
            timeout_s=timeout,
            on_status=telling(as_json),
        )
    if as_json:
        print_json({"shards": parallelism, "stage": stage})
    else:
        print_facts([("shards", parallelism), *([] if stage is None else [("stage", stage)]), ("job", "goes on")])
