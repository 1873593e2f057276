"""The folders of a job: where its checkpoints go, and that no two of its folders are in each other's way."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pyspark.sql import DataFrame, SparkSession

from ....errors import OptionError, not_supported
from ....runtime.checkpoints.folders import CLEANED_FOLDERS
from ....runtime.checkpoints.store import has_checkpoint
from ....runtime.connectors.late_rows import OPTION as LATE_PATH
from ....runtime.connectors.sinks.formats import format_of
from ....runtime.settings import Settings
from ....runtime.spark_io.spark_sources import PlannedSource
from ....runtime.spark_io.spark_sources import sources as planned_sources
from ....runtime.storage.folder_checks import Place, folder_place
from ....runtime.support.redaction import credentials_in, redacted

_S3 = "spark.hadoop.fs.s3a.access.key and spark.hadoop.fs.s3a.secret.key, or a credential provider"
_AZURE = "spark.hadoop.fs.azure.account.key.<account>.dfs.core.windows.net, or fs.azure.sas.fixed.token of the account"
#: Where credentials of a location belong, by its scheme.
_CREDENTIALS = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _S3),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _AZURE),
    **dict.fromkeys(("gs", "gcs"), "spark.hadoop.google.cloud.auth.service.account.json.keyfile"),
}
_OTHER_CREDENTIALS = "the spark.hadoop.… settings of its filesystem, or a credential provider"
#: Options of folders that others read.
_OUTPUTS = ("path", LATE_PATH)
_DEFAULT_CHECKPOINTS_CONF = "spark.sql.streaming.checkpointLocation"


def checkpoint_location(
    spark: SparkSession, query_name: str | None, format: str, given: str | None, others: Mapping[str, str]
) -> str | None:
    """Where checkpoints go; None: a temporary folder of the runtime's.

    Args:
        spark: the session, which may have a folder for all queries with a name.
        query_name: the query's; None: it has none.
        format: of the output.
        given: the option; None: not set.
        others: the options that are left for the sink.

    Raises:
        OptionError: there is none, and the output outlives the query.
    """
    if given is not None:
        if not given.strip():
            raise OptionError("checkpointLocation is empty; give a folder", code="MIXEDMODE_LOCATION_MISSING")
        return given
    shared = spark.conf.get(_DEFAULT_CHECKPOINTS_CONF, None)
    if shared and query_name:
        return f"{shared.rstrip('/')}/{query_name}"
    if not format_of(format).is_lasting:
        return None
    slip = difflib.get_close_matches("checkpointLocation", others, n=1)
    hint = f" (is that what {slip[0]} = {others[slip[0]]!r} is for?)" if slip else ""
    raise OptionError(
        f"checkpointLocation is not set{hint}, and the output of {format} outlives the query: set"
        f" .option('checkpointLocation', '<folder>'), or {_DEFAULT_CHECKPOINTS_CONF} together with queryName",
        code="MIXEDMODE_LOCATION_MISSING",
    )


def check_goes_on(format: str, output_mode: str, location: str | None) -> None:
    """Check that a table in memory does not go on from checkpoints: it has lost the rows of the run before, unless each
    checkpoint brings all of them.

    Args:
        format: of the output.
        output_mode: of the query.
        location: where checkpoints go; None: a temporary folder.

    Raises:
        PlanError: there is a checkpoint, as in stock Spark.
    """
    if format == "memory" and output_mode != "complete" and has_checkpoint(location):
        raise not_supported(
            f"format memory in outputMode {output_mode} cannot go on from the checkpoint in {location!r}: the rows of"
            " before were in the memory of another run. Leave checkpointLocation out or give it a new folder, use"
            " outputMode complete, or a format that keeps its rows"
        )


def check_not_read(sources: Iterable[tuple[str, DataFrame]], **folders: str | None) -> None:
    """Check that a job does not write where it reads: what it wrote would be its input, now or at its next start.

    Folders whose names begin with ``_`` or ``.``, and what is below them, are none of Spark's input.

    Args:
        sources: names and frames of what is read.
        folders: by the names of their options; None: not set.

    Raises:
        OptionError: one is a folder that is read, or is in one.
    """
    written = _known_places(folders)
    for read in _read(sources) if written else ():
        for name, (place, folder) in written.items():
            levels = read.levels_above(place)
            if levels is not None:
                raise read.refusal(name, folder, levels)


def check_not_streamed(
    sources: Iterable[tuple[str, DataFrame]], folders: Mapping[str, str | None], *, nor_read_once: bool = False
) -> None:
    """Check that no files of a job would be new files of one of its streams.

    Args:
        sources: names and frames of what is read.
        folders: by the names of their options; None: not set.
        nor_read_once: nor may they lie in folders that a batch reads.

    Raises:
        OptionError: one is the folder of a stream, or in one that is read with the folders below it.
    """
    written = _known_places(folders)
    for read in _read(sources) if written else ():
        once = not read.of.is_streaming
        if once and not nor_read_once:
            continue
        for name, (place, folder) in written.items():
            levels = read.levels_above(place)
            if levels == 0 or (levels is not None and (once or read.of.is_recursive)):
                raise read.refusal(name, folder, levels)


@dataclass(frozen=True)
class _Read:
    """A path that is read: as far as it has no wildcard, and the parts behind that."""

    source: str
    of: PlannedSource
    folder: str
    pattern: tuple[str, ...]
    place: Place

    def levels_above(self, place: Place) -> int | None:
        """How many levels a folder is below what is read; None: it is not in there."""
        if not place.is_within(self.place, "."):
            return None
        parts = place.path.relative_to(self.place.path).parts
        levels = len(parts) - len(self.pattern)
        return levels if levels >= 0 and not _is_hidden(parts) and all(map(fnmatchcase, parts, self.pattern)) else None

    def refusal(self, name: str, folder: str | None, levels: int) -> OptionError:
        """The error of a folder that is so many levels below."""
        where = "the folder" if levels == 0 else f"in the folder {'/'.join((self.folder.rstrip('/'), *self.pattern))!r}"
        return OptionError(
            f"{name} = {folder!r} is {where} that {self.source} reads, so what the job writes would be its input; give"
            " it a folder of its own",
            code="MIXEDMODE_LOCATION_SHARED",
        )


def _read(sources: Iterable[tuple[str, DataFrame]]) -> Iterator[_Read]:
    """The paths that are read and whose filesystems are known here."""
    for source, frame in sources:
        for one in planned_sources(frame):
            for folder, behind in one.paths:
                place = _known_place(source, folder)
                # Of braces and escapes Python's patterns know nothing: such a part may be any.
                parts = tuple("*" if {"{", "\\"} & set(part) else part for part in behind.split("/") if part)
                if place is not None:
                    yield _Read(source, one, folder, parts, place)


def _known_places(folders: Mapping[str, str | None]) -> dict[str, tuple[Place, str | None]]:
    return {name: (place, folder) for name, folder in folders.items() if (place := _known_place(name, folder))}


def _known_place(name: str, folder: str | None) -> Place | None:
    """Where a folder is; None: it is not set, or on a filesystem that only Spark knows."""
    try:
        return None if folder is None else folder_place(name, folder)
    except OptionError:
        return None


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(("_", ".")) for part in parts)


def check_no_credentials(**folders: str | None) -> None:
    """Check that no location holds a secret: each is printed, logged and stored wherever the job is described.

    Args:
        folders: by the names of their options; None: not set.

    Raises:
        OptionError: one does; names the option, without the secret.
    """
    for name, folder in folders.items():
        held = None if folder is None else credentials_in(folder)
        if folder is None or held is None:
            continue
        scheme = folder.partition(":")[0].lower()
        raise OptionError(
            f"{name} = {redacted(folder)!r} holds {held}, which logs, events and checkpoints would show; leave it out"
            f" and set {_CREDENTIALS.get(scheme, _OTHER_CREDENTIALS)}",
            code="MIXEDMODE_LOCATION_SECRET",
        )


def checkpoints_in_output(location: str | None, path: str | None) -> str | None:
    """What to say of checkpoints that lie inside the output, as they often do in stock jobs; None: nothing.

    Spark's readers do not go into folders below the one that they are given, but for ``recursiveFileLookup``; others
    do.  All skip names that begin with ``_`` or ``.``.
    """
    inner, outer = _known_place("checkpointLocation", location), _known_place("path", path)
    if inner is None or outer is None:
        return None
    if not inner.is_within(outer, ".") or _is_hidden(inner.path.relative_to(outer.path).parts):
        return None
    return (
        f"checkpointLocation {location!r} is inside path {path!r}: readers that go into folders (recursiveFileLookup,"
        " pyarrow, pandas) meet its files and fail; use a folder beside the output, or a name that begins"
        " with _"
    )


def check_replaced(path: str | None, sources: Iterable[tuple[str, DataFrame]], **folders: str | None) -> None:
    """Check that an output whose rows are to be removed holds nothing else of the job: Spark removes whole folders.

    Args:
        path: the output; None: it is no folder.
        sources: names and frames of what is read.
        folders: by the names of their options; None: not set.

    Raises:
        OptionError: a folder is inside the output.
    """
    outer = _known_place("path", path)
    if outer is None:
        return
    inside = [(f"{name} = {folder!r}", _known_place(name, folder)) for name, folder in folders.items()]
    inside += [(f"{read.folder!r}, which {read.source} reads,", read.place) for read in _read(sources)]
    for what, place in inside:
        if place is not None and place.is_within(outer, "."):
            raise OptionError(
                f"{what} is inside path {path!r}, and execution.sink.existing = 'replace' empties that; give it a"
                " folder of its own",
                code="MIXEDMODE_LOCATION_SHARED",
            )


def check_apart(*, path_is_sparks: bool, **folders: str | None) -> None:
    """Check that no readers or clean-ups would take one folder's files for another's.

    Args:
        path_is_sparks: Spark writes to the folder ``path``, which may be on a filesystem that only Spark knows.
        folders: by the names of their options; None: not set.

    Raises:
        OptionError: two are the same, or one is where checkpoints are cleaned up.
    """
    taken: dict[str, tuple[Place, str]] = {}
    for name, folder in folders.items():
        if folder is None:
            continue
        try:
            place = folder_place(name, folder)
        except OptionError:
            if name == "path" and path_is_sparks:
                continue  # nothing of ours is there
            raise
        for other, (known, as_written) in taken.items():
            if place == known:
                same = repr(folder) if folder == as_written else f"{as_written!r} and {folder!r}: {str(place.path)!r}"
                raise OptionError(
                    f"{other} and {name} are the same folder, {same}; give each a folder of its own",
                    code="MIXEDMODE_LOCATION_SHARED",
                )
        taken[name] = place, folder
    checkpoints = taken.pop("checkpointLocation", None)
    for name, (place, folder) in taken.items():
        led = "" if folder == str(place.path) else f", which is {str(place.path)!r},"
        if checkpoints is not None and any(place.is_within(checkpoints[0], part) for part in CLEANED_FOLDERS):
            raise OptionError(
                f"{name} = {folder!r}{led} is among the files of checkpointLocation {checkpoints[1]!r}, which are"
                " removed when they are not needed; give it a folder of its own",
                code="MIXEDMODE_LOCATION_SHARED",
            )
        if checkpoints is not None and name in _OUTPUTS and place.is_within(checkpoints[0], "."):
            raise OptionError(
                f"{name} = {folder!r}{led} is inside checkpointLocation {checkpoints[1]!r}\nWhoever removes"
                " the location to begin anew would remove the output with it, and readers would meet files of the"
                " checkpoints. Give the output a folder of its own; rows that are there may be moved along",
                code="MIXEDMODE_LOCATION_SHARED",
            )


def check_local_folders(settings: Settings, sources: Iterable[tuple[str, DataFrame]], **folders: str | None) -> None:
    """Check that working copies and sorted runs are in no folder that the job reads, writes or cleans up.

    Args:
        settings: they name the local folders.
        sources: names and frames of what is read.
        folders: those of the job, by the names of their options; None: not set.

    Raises:
        OptionError: a local folder is, or is inside, one of the others.
    """
    local = {"state.local-dir": settings.state_local_dir, "sorter.spill-dir": settings.sorter_spill_dir}
    check_not_streamed(sources, local, nor_read_once=True)
    for name, folder in local.items():
        for other, as_written in folders.items():
            own, place = _known_place(name, folder), _known_place(other, as_written)
            if own is None or place is None:
                continue
            where = _where(own, place, CLEANED_FOLDERS if other == "checkpointLocation" else (".",))
            if where is not None:
                raise OptionError(
                    f"{name} = {folder!r} is {where} {other} {as_written!r}, whose readers and clean-ups would meet"
                    " the tasks' working files; give it a folder of its own",
                    code="MIXEDMODE_LOCATION_SHARED",
                )


def _where(local: Place, other: Place, parts: tuple[str, ...]) -> str | None:
    """Where a local folder is, seen from another one; None: it is not in the way of these parts of that."""
    if local == other:
        return "the folder of"
    return "inside" if any(local.is_within(other, part) for part in parts) else None
