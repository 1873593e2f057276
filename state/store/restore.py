"""Brings committed state files into a local copy's database, checking each.

Tables are hard-linked next to the database and ingested (it takes the link over and never writes to it, so the file in
the pool stays as it is); logs are applied as write batches.  A manifest that was put together from several shards may
share files in which some key groups are stale.  Where such a stale part would hide newer data, the region is built in a
database of its own and only its live entries are taken over.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ...errors import CorruptStateError
from ..keys.keygroups import KeyGroupRange
from .database import LocalDatabase, StateBackend
from .files import StateFile
from .log import read_log
from .pool import StatePool
from .state_manifest import StateManifest

#: The first stored key of all and one beyond the last: key groups are two bytes.
_LOWEST, _HIGHEST = b"", b"\xff\xff\xff"


class Restorer:
    """Brings files of one pool into the database in one local folder."""

    def __init__(self, pool: StatePool, folder: str, backend: StateBackend) -> None:
        self.pool = pool
        self._folder = folder
        self._backend = backend

    def restore(self, database: LocalDatabase, manifest: StateManifest) -> None:
        """Fill an empty database with what ``manifest`` says."""
        if _must_cut(manifest):
            for region in _elementary_regions(manifest):
                self._take_over(database, manifest, region)
        else:
            self.bring(database, manifest.key_groups, manifest.files)
            _delete_outside(database, manifest)

    def bring(
        self, database: LocalDatabase, key_groups: KeyGroupRange, files: Sequence[StateFile], *, at_hand: bool = False
    ) -> None:
        """Apply files, in order.

        Args:
            database: of the local copy.
            key_groups: those of the shard.
            files: what is applied.
            at_hand: of logs that this process has just written, what it has kept will do.
        """
        for run in _runs(files):
            if run[0].format == "sst":
                self._ingest(database, run)
            else:
                self._apply_log(database, run[0], key_groups, at_hand=at_hand)

    def _ingest(self, database: LocalDatabase, files: Sequence[StateFile]) -> None:
        """Ingest tables that follow each other without overlap."""
        paths = []
        for file in files:
            paths.append(f"{self._folder}/{uuid.uuid4().hex}.sst")
            self.pool.fetch(file, paths[-1])
        try:
            database.ingest_tables(paths)
        except Exception as error:
            where = ", ".join(self.pool.path(file.name) for file in files)
            kind = type(database.explained(error, "ingest tables"))
            raise kind(f"state file {where} cannot be read: {error}") from error
        self._check_counts(database, files)

    def _check_counts(self, database: LocalDatabase, files: Sequence[StateFile]) -> None:
        """Compare entry counts.  A table that compaction has taken already is not found; its checksum was right.

        Tables of the same size may span the same keys.
        """
        tables: dict[tuple[int, bytes, bytes], list[tuple[int, int]]] = {}
        for table in database.tables():
            counts = (table["num_entries"] - table["num_deletions"], table["num_deletions"])
            tables.setdefault((table["size"], table["start_key"], table["end_key"]), []).append(counts)
        for file in files:
            found = tables.get((file.size_bytes, file.first_key, file.last_key))
            if found is not None and (file.entries, file.tombstones) not in found:
                raise CorruptStateError(
                    f"state file {self.pool.path(file.name)} holds {found[0][0]} entries and {found[0][1]} tombstones, "
                    f"its checkpoint recorded {file.entries} and {file.tombstones}"
                )

    def _apply_log(self, database: LocalDatabase, file: StateFile, key_groups: KeyGroupRange, *, at_hand: bool) -> None:
        whole = key_groups.covers(file.key_groups)
        for batch in read_log(self.pool, file, at_hand=at_hand):
            keys, values = batch.column(0).to_pylist(), batch.column(1).to_pylist()
            if not whole:
                own = [place for place, key in enumerate(keys) if int.from_bytes(key[:2], "big") in key_groups]
                keys, values = [keys[place] for place in own], [values[place] for place in own]
            try:
                database.write(keys, values, deletes=batch.column(1).null_count > 0)
            except Exception as error:
                raise database.explained(error, f"apply state file {file.name} to a local copy") from error

    def _take_over(self, database: LocalDatabase, manifest: StateManifest, region: KeyGroupRange) -> None:
        """Build one region in a database of its own and take over its live entries."""
        files = tuple(
            replace(file, clip=None)
            for file in manifest.files
            if region.overlaps(file.key_groups) and (file.clip is None or region.overlaps(file.clip))
        )
        folder = f"{self._folder}/{uuid.uuid4().hex}"
        os.makedirs(folder)
        scratch = self._backend.open(f"{folder}/db")
        try:
            Restorer(self.pool, folder, self._backend).restore(scratch, StateManifest(region, files))
            database.ingest(scratch.scan(region.lower_bound, region.upper_bound))
        finally:
            scratch.close()
            shutil.rmtree(folder, ignore_errors=True)


def _must_cut(manifest: StateManifest) -> bool:
    """True if some file holds stale keys in a region that is the shard's own."""
    return any(
        file.clip is not None and region.overlaps(file.key_groups) and not region.overlaps(file.clip)
        for region in _elementary_regions(manifest)
        for file in manifest.files
    )


def _elementary_regions(manifest: StateManifest) -> list[KeyGroupRange]:
    """The shard's range cut wherever a clip begins or ends: inside a region every file counts or does not."""
    whole = manifest.key_groups
    cuts = {whole.first, whole.last + 1}
    for file in manifest.files:
        if file.clip is not None:
            cuts |= {file.clip.first, file.clip.last + 1}
    edges = sorted(cut for cut in cuts if whole.first <= cut <= whole.last + 1)
    return [KeyGroupRange(first, after - 1) for first, after in pairwise(edges)]


def _delete_outside(database: LocalDatabase, manifest: StateManifest) -> None:
    """Forget what shared files hold beyond the shard's range, so that it neither counts nor takes space for long."""
    whole = manifest.key_groups
    if all(whole.covers(file.key_groups) for file in manifest.files):
        return
    try:
        if whole.first > 0:
            database.delete_range(_LOWEST, whole.lower_bound)
        if whole.upper_bound < _HIGHEST:
            database.delete_range(whole.upper_bound, _HIGHEST)
    except Exception as error:
        raise database.explained(error, "clip a local copy to its key groups") from error


def _runs(files: Sequence[StateFile]) -> Iterator[list[StateFile]]:
    """Single logs, and tables as long as each begins after the one before: those can be ingested together."""
    run: list[StateFile] = []
    for file in files:
        follows = run and file.format == run[-1].format == "sst" and file.first_key > run[-1].last_key
        if run and not follows:
            yield run
            run = []
        run.append(file)
    if run:
        yield run
