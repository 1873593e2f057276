"""The commands of ``mixedmode``; each parses, calls one function of the library, and prints."""

from __future__ import annotations

import importlib.metadata
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from .arguments import AsJson, Location, Timeout
from .console import FAILED, UNUSABLE, failures, misused, print_facts, print_json, say
from .rescale import rescale

app = typer.Typer(
    name="mixedmode",
    help="Look at checkpoints and savepoints of mixedmode jobs, plan job files, ask running jobs to stop or pause.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


#: Commands about the state of jobs that do not run.
state_app = typer.Typer(help="State without a job.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(state_app, name="state")


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False) -> None:
    if version:
        typer.echo(importlib.metadata.version("mixedmode"))
        raise typer.Exit


@app.command()
def checkpoints(
    location: Location,
    verify: Annotated[bool, typer.Option(help="Read all state files and compare their checksums.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints of a job: size, age, whole or damaged.  Exit code 1 if one is damaged."""
    from .checkpoints import checkpoints_of, show_checkpoints
    from .locations import opened

    with failures(as_json):
        reader, _ = opened(location)
        found = checkpoints_of(reader, verify)
    if as_json:
        print_json(found)
    else:
        show_checkpoints(found)
    if not all(one["whole"] for one in found):
        raise typer.Exit(FAILED)


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(help="A checkpointLocation or a savepoint.", show_default=False)],
    checkpoint: Annotated[int | None, typer.Option(help="Which checkpoint; the newest if not given.")] = None,
    operator: Annotated[str | None, typer.Option(help="The keyed stage of --key, if there are several.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="Look up the state and timers of a key; once for each key column, a window as JSON."),
    ] = None,
    count_keys: Annotated[bool, typer.Option(help="Count the keys, which reads all state.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a checkpoint or savepoint holds: operators, shards, positions, finished flags; or one key.

    Exit code 1 if the key has no state.
    """
    from . import inspect as inspection
    from . import key as one_key
    from .locations import held_checkpoint, one_of_the_operators, opened

    with failures(as_json), ExitStack() as done:
        reader, store = opened(path)
        metadata = done.enter_context(held_checkpoint(store, checkpoint, holds=bool(key) or count_keys))
        if key:
            stored = one_of_the_operators(metadata, operator)
            values = one_key.key_values(stored, key)
            inspection.local_session()
            found = reader.lookup(*values, operator=stored.uid, checkpoint=metadata.checkpoint_id)
            looked_up = one_key.json_facts(found)
            if as_json:
                print_json(looked_up)
            else:
                one_key.show_key(looked_up, stored.uid)
            if not looked_up["found"]:
                raise typer.Exit(FAILED)
            return
        if operator is not None:
            one_of_the_operators(metadata, operator)  # its name may be wrong
        facts = inspection.described(store, metadata)
        if count_keys:
            inspection.local_session()
            for one, stored in zip(facts["operators"], metadata.operators, strict=True):
                one["keys"] = inspection.count_keys(reader, stored, metadata.checkpoint_id)
    if as_json:
        print_json(facts)
    else:
        inspection.show_checkpoint(facts)


@app.command()
def status(
    location: Location,
    max_checkpoint_age: Annotated[
        str | None,
        typer.Option(help='Stalled if an epoch of the stream has waited longer for a checkpoint ("10 min").'),
    ] = None,
    max_lag: Annotated[
        str | None, typer.Option(help="Stalled if the watermark of a live source is further behind the clock.")
    ] = None,
    max_silence: Annotated[
        str | None,
        typer.Option(help="Stalled if there was no phase, epoch, checkpoint or row of a backlog for longer."),
    ] = None,
    max_waiting_messages: Annotated[
        int | None, typer.Option(help="Stalled if more messages wait at a source.", min=0)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell how a job is, for people and for health checks.

    Exit code 0: it runs, and keeps the limits that are given; 3: it does not run; 4: it runs, but is stalled.
    """
    from ...runtime.metrics.status import status_of
    from . import status as health
    from .location_checks import check_location

    limits = health.limits_of(max_checkpoint_age, max_lag, max_silence, max_waiting_messages)
    check_location(location)
    with failures(as_json):
        found = status_of(location)
        problems = found.problems(limits)
        if not problems:
            found.check_measurable(limits)
    facts = health.facts_of(found, problems)
    if as_json:
        print_json(facts)
    else:
        health.show_status(facts)
    raise typer.Exit(health.exit_code(found, problems))


@app.command()
def watch(location: Location) -> None:
    """Watch the job that runs on LOCATION until it ends: its backlog, then its stream; lines of text behind a pipe.

    Ctrl-C ends the watching, and leaves the job alone.  Exit code 0: the run ended well; 1: it failed, or was killed;
    3: no job runs there; 130: Ctrl-C.
    """
    from .location_checks import check_location
    from .watch import watch_location

    check_location(location)
    with failures(False):
        code = watch_location(location)
    raise typer.Exit(code)


@app.command()
def history(
    location: Location,
    run: Annotated[str | None, typer.Option(help="Only this run: its id, or how it begins.")] = None,
    last: Annotated[str | None, typer.Option(help='Only so long back ("1 h").')] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also epochs, positions, checkpoints and backlog progress.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Tell what the runs of a job did, from the event log below its LOCATION; --json: every event, with all fields."""
    from . import history as told
    from .location_checks import check_location

    check_location(location)
    with failures(as_json):
        found = told.chosen_events(location, run, last, everything or as_json)
    if as_json:
        print_json(told.as_json(found))
    else:
        told.show_history(found)


@app.command()
def report(
    location: Location,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file; one that is there is replaced.")] = Path(
        "run.html"
    ),
    last: Annotated[
        str | None, typer.Option(help='Only so long back ("24 h"); otherwise all that the history has.')
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write what the runs of a job were as one HTML page, which needs no network and no other file."""
    from .console import option_duration_ms
    from .location_checks import check_location
    from .report import write_report

    last_ms = option_duration_ms("--last", last)
    check_location(location)
    with failures(as_json):
        runs = write_report(location, output, last_ms)
    if as_json:
        print_json({"report": str(output), "runs": runs})
    else:
        print_facts([("report", output), ("runs", runs)])


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def plan(
    context: typer.Context,
    job_file: Annotated[Path, typer.Argument(help="A Python program that starts a job.", exists=True, dir_okay=False)],
    extended: Annotated[bool, typer.Option(help="With all settings, and Spark's plans of the inputs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Explain a job file without starting its job; what follows the file's name are arguments of the program.

    The file is run up to its first start().  One that never calls start() may define `job`, a writeStream.
    """
    from .job_file import planned

    with failures(as_json):
        found = planned(job_file, context.args).plan
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        typer.echo(found.explain(extended))


@app.command()
def savepoint(
    location: Location,
    path: Annotated[
        str | None,
        typer.Argument(help="Where to: a folder that is empty or does not exist.", show_default=False),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="Finish the savepoint that a killed job was to stop with, here if PATH is given."
        ),
    ] = False,
    timeout: Timeout = 600.0,
    as_json: AsJson = False,
) -> None:
    """Have the job that runs on LOCATION take a savepoint, and go on; or finish one of a job that was killed."""
    if complete:
        _complete(location, path, as_json)
    elif path is None:
        raise misused("the savepoint's PATH is missing")
    else:
        from .job_requests import ask_job

        ask_job(location, "savepoint", path, timeout_s=timeout, as_json=as_json)


def _complete(location: str, path: str | None, as_json: bool) -> None:
    from ...runtime.checkpoints.savepoints.completion import complete_offline
    from .location_checks import check_location

    check_location(location)
    with failures(as_json):
        made = complete_offline(location, path)
    if as_json:
        print_json({"savepoint": made.path, "drained": made.drained, "checkpoint": made.checkpoint_id})
    else:
        print_facts([("savepoint", f"{made.path}{' (drained)' if made.drained else ''}"), ("job", "does not run")])


@app.command()
def stop(
    location: Location,
    savepoint: Annotated[
        str | None,
        typer.Option(help="Where to: a folder that is empty or does not exist.", show_default=False),
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="First fire all that waits for the end of input.")] = False,
    timeout: Timeout = 600.0,
    as_json: AsJson = False,
) -> None:
    """End the job that runs on LOCATION, with a checkpoint; with --savepoint, with a savepoint.

    A backlog that is stopped keeps its finished shards for the next start; a savepoint waits for the backlog's end.
    """
    from .job_requests import ask_job

    ask_job(location, "stop", savepoint, drain=drain, timeout_s=timeout, as_json=as_json)


@app.command()
def pause(location: Location, timeout: Timeout = 600.0, as_json: AsJson = False) -> None:
    """Have the job that runs on LOCATION stand still: no epoch begins, nothing is pending, its state is kept."""
    from .job_requests import ask_job

    ask_job(location, "pause", None, timeout_s=timeout, as_json=as_json)


@app.command()
def resume(location: Location, timeout: Timeout = 600.0, as_json: AsJson = False) -> None:
    """Have the job that runs on LOCATION go on after a pause."""
    from .job_requests import ask_job

    ask_job(location, "resume", None, timeout_s=timeout, as_json=as_json)


app.command()(rescale)


@state_app.command("write")
def state_write(
    path: Annotated[str, typer.Argument(help="The new savepoint: a folder that is empty or does not exist.")],
    job: Annotated[
        Path | None,
        typer.Option(help="The program of the job that is to begin with it.", exists=True, dir_okay=False),
    ] = None,
    savepoint: Annotated[str | None, typer.Option(help="The savepoint to change, which stays as it is.")] = None,
    operator: Annotated[str | None, typer.Option(help="The keyed stage, if there are several.")] = None,
    overwrite: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=FILE: a state variable is what the file says.")
    ] = None,
    merge: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE: so is that of the keys in the file; others keep theirs.")
    ] = None,
    timers: Annotated[str | None, typer.Option(help="FILE with the timers.")] = None,
    remove_keys: Annotated[str | None, typer.Option(help="FILE with keys that go, with all their state.")] = None,
    remove_state: Annotated[list[str] | None, typer.Option(help="NAME of a state variable that goes.")] = None,
    remove_operator: Annotated[list[str] | None, typer.Option(help="Uid of a keyed stage that goes.")] = None,
    event_time: Annotated[
        str | None, typer.Option(help="How far event time has come: ISO 8601 (UTC if it does not say), or ms.")
    ] = None,
    run_history: Annotated[bool, typer.Option("--run-history", help="The job's history makes the state.")] = False,
    keep_history: Annotated[bool, typer.Option("--keep-history", help="The job still reads its history.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a savepoint from files, for a job (--job), or from another one (--savepoint), or both.

    Files are Parquet, or by their ending .csv (with a header), .json or .orc; columns as of mixedmode.state_writer.
    """
    from .state_write import StateWriteRequest, write_state

    wanted = StateWriteRequest(
        operator,
        overwrite or (),
        merge or (),
        timers,
        remove_keys,
        remove_state or (),
        remove_operator or (),
        event_time,
        run_history,
        keep_history,
    )
    with failures(as_json):
        made = write_state(path, job, savepoint, wanted)
    if as_json:
        print_json({"savepoint": made})
    else:
        print_facts([("savepoint", made)])


def run() -> None:
    """Entry point of the console script."""
    try:
        sys.exit(app())
    except OSError as error:  # behind a command: standard output on a full disk, for one
        say(f"error: {error} [{UNUSABLE}]")
        sys.stdout = None  # or Python tried once more to write what is left, and told that it cannot
        sys.exit(FAILED)
