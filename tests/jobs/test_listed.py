"""The second list: every entry of it is a job."""

from __future__ import annotations

from jobs import catalogue, listed


def test_every_entry_of_the_second_list_is_a_job() -> None:
    written = {job.name for job in catalogue.JOBS if job.listed == "second"}
    assert listed.missing(written) == []
