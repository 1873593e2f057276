"""The lists: every entry of them is a job."""

from __future__ import annotations

from jobs import catalogue, listed


def test_every_entry_of_the_lists_is_a_job() -> None:
    written = {job.name for job in catalogue.JOBS if job.listed != "first"}
    assert listed.missing(written) == []
