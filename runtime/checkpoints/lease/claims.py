"""Claims on a checkpoint location: the files by which drivers tell each other who has it.

Below ``<checkpointLocation>/mixedmode/lease``::

    00000003-00000002-1f2e3d4c.claim    generation, branch and run of a claim; written once
    00000003-00000002-1f2e3d4c.beat     its owner's counter; written again and again, by the owner only

Each claim of a location has a greater generation than all before it.  It is *established* once its owner has counted
for the first time; an owner does nothing before that, so a claim that never was established has changed nothing.

Where a store can swap, each count replaces the one before it, and whoever takes over replaces the last one that it has
seen by ``{"stopped": true}``: from then on its owner cannot count any more, whatever it sees of the folder.

The *branch* is the folder that a driver works in (:mod:`..store`): that of the claim before, if its owner
is known to have ended, or else a new one, named after the generation and *seeded* from the checkpoints that were
complete then.

``mixedmode/driver.json``, which is all that earlier versions knew, is read as a claim of generation 0, and written so
that they keep off.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyarrow import fs

from ....errors import CheckpointMismatchError
from ....state.store.folder_owner import boot_id, is_alive, place, process_start_time
from ...storage.checksummed import read_sealed, write_sealed
from ...storage.conditional import Version
from ...storage.exclusive import read_version, swap
from ...storage.filesystem import (
    delete_quietly,
    exists,
    is_local_disk,
    list_files,
    overwrite,
    read_bytes,
    write_atomically,
)

#: Version of the files that this code writes; version 1 is ``driver.json``.
LEASE_VERSION = 2
_NAME = re.compile(r"(\d{8})-(\d{8})-(.+)$")
_CLAIM, _BEAT = ".claim", ".beat"


@dataclass(frozen=True)
class Holder:
    """A run, and where its process is."""

    run: str
    #: Host and pid namespace in which the pid means something.
    place: str
    pid: int
    started: int
    #: What the host's kernel calls its life; empty: not recorded.
    boot: str = ""

    @classmethod
    def here(cls, run: str) -> Holder:
        """A run of this process."""
        pid = os.getpid()
        return cls(run, place(), pid, process_start_time(pid) or 0, boot_id())

    @property
    def lives(self) -> bool | None:
        """Whether its process runs; None: it is elsewhere, so that cannot be known."""
        if self.place != place() or self.boot not in ("", boot_id()):
            return None
        return is_alive(self.pid, self.started)

    def __str__(self) -> str:
        if self.lives:
            where = "in this process" if self.pid == os.getpid() else f"in process {self.pid} on this host"
        else:
            where = f"in process {self.pid} on {self.place.partition('.')[0] or 'an unknown host'}"
        return f"run {self.run}, {where}"


@dataclass(frozen=True)
class LeaseClaim:
    """One claim of a location."""

    generation: int
    branch: int
    #: None: the file says nothing.
    holder: Holder | None
    #: How long its counter must stand still before somebody else may take over.
    expiry_ms: int
    #: The branch that this one is seeded from, and the checkpoints that were complete there; None: not known.
    parent: int = 0
    seed: tuple[int, ...] | None = ()
    #: False: an earlier owner of the branch may still believe that it has the location, so the next run needs another.
    is_alone: bool = True
    #: Its place in the folder; empty: ``driver.json``.
    name: str = ""
    #: Whether its owner writes an event log, by which others can tell how it does.
    has_event_log: bool = True

    @property
    def run(self) -> str:
        return self.name.rpartition("-")[2] if self.holder is None else self.holder.run

    def __str__(self) -> str:
        return f"run {self.run}" if self.holder is None else str(self.holder)


@dataclass(frozen=True)
class Seen:
    """A claim as it was found."""

    claim: LeaseClaim
    #: What its owner has written of its counter; None: nothing yet.
    beat: bytes | None
    #: What an object store calls that version of it.
    tag: str = ""

    @property
    def is_established(self) -> bool:
        return self.beat is not None

    @property
    def is_released(self) -> bool:
        """True if its owner has given the location free."""
        return _says(self.beat, "released")

    @property
    def is_stopped(self) -> bool:
        """True if somebody who was about to take over keeps its owner from counting on."""
        return _says(self.beat, "stopped")


def in_charge(seen: Sequence[Seen]) -> Seen | None:
    """The claim of the run that has a location; None: nobody has it."""
    newest = authority(seen)
    for one in reversed(seen):
        counts = not one.claim.name or (newest is not None and one.claim.name == newest.name)
        if counts and not one.is_released:
            return one
    return None


def _says(beat: bytes | None, what: str) -> bool:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return beat is not None and bool(json.loads(beat)[what])
    return False


@dataclass(frozen=True)
class ClaimFolder:
    """The claims of one location; ``root`` is its folder ``mixedmode``.

    But for that, no two drivers write one name, so nothing here needs more of a filesystem than that a file which was
    written is seen by whoever lists the folder afterwards: local disks, HDFS and today's object stores keep that.
    """

    filesystem: fs.FileSystem
    root: str
    #: Of a claim that does not say: that of an earlier version, or one that is damaged.
    default_expiry_ms: int = field(default=30_000)

    @property
    def path(self) -> str:
        return f"{self.root}/lease"

    @property
    def _old(self) -> str:
        return f"{self.root}/driver.json"

    def look(self) -> list[Seen]:
        """All claims, by generation.

        Raises:
            CheckpointMismatchError: one was made by a newer version.
        """
        names = {info.base_name for info in list_files(self.filesystem, self.path)}
        found = []
        for name in sorted(name.removesuffix(_CLAIM) for name in names if name.endswith(_CLAIM)):
            if _NAME.match(name):
                with contextlib.suppress(FileNotFoundError):
                    claim, beat = self._read(name), self._beat(name) if f"{name}{_BEAT}" in names else None
                    found.append(Seen(claim, None) if beat is None else Seen(claim, beat.data, beat.tag))
        old = self._read_old()
        return found if old is None else [Seen(old, b""), *found]

    def names(self) -> set[str]:
        """Names of all claims, without reading any."""
        infos = list_files(self.filesystem, self.path)
        return {info.base_name.removesuffix(_CLAIM) for info in infos if info.base_name.endswith(_CLAIM)}

    def written_ms(self, claim: LeaseClaim) -> int | None:
        """When its owner has counted last, by the clock of the store; None: not known."""
        written_ns = self.filesystem.get_file_info(f"{self.path}/{claim.name}{_BEAT}").mtime_ns if claim.name else None
        return None if written_ns is None else written_ns // 1_000_000

    def put(self, claim: LeaseClaim) -> None:
        """Write a claim, whose name no other one has."""
        assert claim.holder is not None
        self.filesystem.create_dir(self.path, recursive=True)
        body = {
            "version": LEASE_VERSION,
            "holder": asdict(claim.holder),
            "expiry_ms": claim.expiry_ms,
            "parent": claim.parent,
            "seed": claim.seed,
            "is_alone": claim.is_alone,
            "has_event_log": claim.has_event_log,
        }
        write_sealed(self.filesystem, f"{self.path}/{claim.name}{_CLAIM}", body)

    def beat(
        self, claim: LeaseClaim, count: int, *, released: bool = False, last: Version | None = None
    ) -> Version | None:
        """Write a claim's counter.

        Args:
            claim: of the run that calls.
            count: the counter.
            released: whether the run gives the location free.
            last: what this has returned before; None: this is the claim's first count.

        Returns:
            What was written; None: somebody has stopped it.
        """
        path = f"{self.path}/{claim.name}{_BEAT}"
        data = json.dumps({"version": LEASE_VERSION, "count": count, "released": released}).encode()
        if last is not None and not released and is_local_disk(self.filesystem):
            # After a crash of the machine nobody asks what its owner had counted last.
            overwrite(self.filesystem, path, data, durable=False)
            return Version(data, "")
        done = swap(self.filesystem, path, data, last)
        if done is None:
            with contextlib.suppress(FileNotFoundError):
                there = read_version(self.filesystem, path)
                if not _says(there.data, "stopped"):  # a count whose answer never came
                    return swap(self.filesystem, path, data, there)
        return done

    def stop(self, seen: Seen) -> bool:
        """Keep a claim's owner from counting on, if it has not since; where no store decides that, it looks itself."""
        if not seen.tag or not seen.is_established or seen.is_released or seen.is_stopped:
            return True
        body = json.dumps({"version": LEASE_VERSION, "stopped": True}).encode()
        path = f"{self.path}/{seen.claim.name}{_BEAT}"
        return swap(self.filesystem, path, body, Version(seen.beat or b"", seen.tag)) is not None

    def remove(self, claim: LeaseClaim) -> None:
        """Take a claim back."""
        for suffix in (_CLAIM, _BEAT):
            delete_quietly(self.filesystem, f"{self.path}/{claim.name}{suffix}")

    def remove_older(self, claim: LeaseClaim) -> None:
        """Remove what an established claim has made obsolete."""
        for info in list_files(self.filesystem, self.path):
            match = _NAME.match(info.base_name)
            if match and int(match[1]) < claim.generation:
                delete_quietly(self.filesystem, info.path)

    def tell_old_versions(self, holder: Holder | None) -> None:
        """Have earlier versions see who has the location; None: nobody."""
        if holder is None:
            delete_quietly(self.filesystem, self._old)
        else:
            body = json.dumps({**asdict(holder), "version": LEASE_VERSION}).encode()
            write_atomically(self.filesystem, self._old, body)

    def _beat(self, name: str) -> Version:
        try:
            return read_version(self.filesystem, f"{self.path}/{name}{_BEAT}")
        except FileNotFoundError:
            return Version(b"", "")  # between two versions of it, where a file cannot be replaced in one step

    def _read(self, name: str) -> LeaseClaim:
        match = _NAME.match(name)
        assert match is not None
        generation, branch = int(match[1]), int(match[2])
        path = f"{self.path}/{name}{_CLAIM}"
        try:
            body: dict[str, Any] = read_sealed(self.filesystem, path)
            if body["version"] > LEASE_VERSION:
                raise CheckpointMismatchError(
                    f"{path} has format version {body['version']}; this version of mixedmode reads up to"
                    f" {LEASE_VERSION}. Use the version that wrote it, or a newer one [upgrade:U26]",
                    code="MIXEDMODE_FORMAT_NEWER",
                )
            return LeaseClaim(
                generation,
                branch,
                Holder(**body["holder"]),
                body["expiry_ms"],
                body["parent"],
                tuple(body["seed"]),
                body["is_alone"],
                name,
                body.get("has_event_log", True),
            )
        except (ValueError, TypeError, KeyError):
            return LeaseClaim(generation, branch, None, self.default_expiry_ms, seed=None, name=name)

    def _read_old(self) -> LeaseClaim | None:
        """What an earlier version has written; what this one writes for them says nothing new."""
        if not exists(self.filesystem, self._old):
            return None
        try:
            body: dict[str, Any] = json.loads(read_bytes(self.filesystem, self._old))
            if "version" in body:
                return None
            holder = Holder(body["run"], body["place"], body["pid"], body["started"])
        except (ValueError, TypeError, KeyError, FileNotFoundError):
            return None
        return LeaseClaim(0, 0, holder, self.default_expiry_ms)


def authority(seen: Sequence[Seen]) -> LeaseClaim | None:
    """The claim that says which branch counts: the newest that was established; None: there never was one."""
    return max(
        (one.claim for one in seen if one.is_established and one.claim.name),
        key=lambda claim: claim.generation,
        default=None,
    )


def name_of(generation: int, branch: int, run: str) -> str:
    """The name of a claim, which no other claim has."""
    return f"{generation:08d}-{branch:08d}-{run}"
