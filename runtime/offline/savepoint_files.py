"""Collects the files of a savepoint that is written offline: new ones in place, others copied and checked."""

from __future__ import annotations

from ..checkpoints.metadata import CheckpointMetadata, state_files
from ..checkpoints.savepoints.copying import CopyReport, copy_checked
from ..checkpoints.savepoints.folder import SavepointFolder
from ..checkpoints.savepoints.store import PLAN, SavepointFile, SavepointStore
from ..checkpoints.store import CheckpointStore
from ..storage.filesystem import delete_quietly, list_files
from ..storage.parallel import in_parallel

#: Folder in the unfinished savepoint for what is made on the way.
WORK = "work"


def fill(
    folder: SavepointFolder,
    base: CheckpointStore | None,
    metadata: CheckpointMetadata,
    savepoint: SavepointStore | None,
) -> None:
    """Bring all that the savepoint names into its folder, and nothing else.

    Args:
        folder: the savepoint in the making, with the new state files.
        base: where the state files are that it was made of; None: it was made of nothing.
        metadata: what it holds.
        savepoint: the savepoint that is changed, whose logs of the sources go along; None: there is none.
    """
    target = folder.filesystem
    present = _present(folder, metadata)
    wanted: list[tuple[str, str, CopyReport]] = []
    for uid, file in state_files(metadata.operators):
        path, expected = f"state/{uid}/{file.name}", CopyReport(file.size_bytes, file.sha256)
        if path in present:
            folder.note([SavepointFile(path=path, size_bytes=file.size_bytes, sha256=file.sha256)])
        else:
            assert base is not None, "what is new is there"
            wanted.append((f"{base.pool(uid)}/{file.name}", path, expected))
    for one in () if savepoint is None else savepoint.savepoint.files:
        if not one.path.startswith("state/") and one.path != PLAN:
            source = f"{savepoint.location}/{one.path}" if savepoint is not None else ""
            wanted.append((source, one.path, CopyReport(one.size_bytes, one.sha256)))
    for parent in {path.rpartition("/")[0] for _, path, _ in wanted}:
        target.create_dir(f"{folder.folder}/{parent}", recursive=True)

    def copy(item: tuple[str, str, CopyReport]) -> SavepointFile:
        source, path, expected = item
        assert base is not None
        copy_checked(base.filesystem, source, target, f"{folder.folder}/{path}", expected)
        return SavepointFile(path=path, size_bytes=expected.size_bytes, sha256=expected.sha256)

    folder.note(in_parallel(copy, wanted))
    # Attempts that have lost leave files that nothing names.
    for path in present - folder.files.keys():
        delete_quietly(target, f"{folder.folder}/{path}")
    delete_quietly(target, f"{folder.folder}/{WORK}")


def _present(folder: SavepointFolder, metadata: CheckpointMetadata) -> set[str]:
    """State files in the folder."""
    return {
        f"state/{one.uid}/{info.base_name}"
        for one in metadata.operators
        for info in list_files(folder.filesystem, f"{folder.folder}/state/{one.uid}")
    }
