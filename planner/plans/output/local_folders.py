"""Checks that the tasks' local folders are in nobody's way: readers, and clean-ups, know nothing of their files."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from ....errors import OptionError
from ....runtime.settings import Settings
from ....runtime.storage.folder_checks import Place, folder_place
from .folders import check_not_read

#: Folders of a checkpointLocation in which mixedmode and Spark clean up.
_CLEANED = ("mixedmode", "spark")


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
    check_not_read(sources, **local)
    for name, folder in local.items():
        for other, as_written in folders.items():
            if folder is None or as_written is None:
                continue
            try:
                place = folder_place(other, as_written)
            except OptionError:
                continue  # a filesystem that only Spark knows
            parts = _CLEANED if other == "checkpointLocation" else (".",)
            where = _where(folder_place(name, folder), place, parts)
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
