"""Many jars in one file, as a JVM looks into each jar of its class path for a class or file that is in none of them.

Spark asks for such names all the time: py4j for each part of ``jvm.org.apache.spark``, the compiler of generated code
for each name that may be a class of several packages.  With 230 jars that was an eighth of the CPU time of the tests'
JVMs.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

_MANIFEST, _SERVICES = "META-INF/MANIFEST.MF", "META-INF/services/"
#: What nobody reads out of all jars: here the first one counts, as it does on a class path.
_UNREAD = re.compile(
    r"META-INF/(maven|proguard|native-image|versions)/|META-INF/([^/]*(LICENSE|NOTICE|DEPENDENCIES|README)[^/]*)$"
    r"|META-INF/io\.netty\.versions\.properties$|.*\.class$|.*/$"
)
#: An index of jars, which a class loader would believe.
_INDEX = "META-INF/INDEX.LIST"
_MULTI_RELEASE = "Multi-Release: true"


def merge(jars: Iterable[Path], folder: Path) -> list[Path]:
    """Merge what can be.

    Jars with classes for single versions of Java become a jar of their own.  A jar that is signed, that names others in
    its manifest, or that has a file which others have, too, and of which somebody may read all, stays as it is.

    Args:
        jars: in the order in which a class is looked for.
        folder: takes what is made of them.

    Returns:
        The class path.
    """
    contents = {jar: ZipFile(jar) for jar in jars}
    counts = Counter(name for content in contents.values() for name in set(content.namelist()))
    merged: dict[bool, list[ZipFile]] = {False: [], True: []}
    found: list[Path] = []
    for jar, content in contents.items():
        names = content.namelist()
        manifest = content.read(_MANIFEST).decode() if _MANIFEST in names else ""
        if "Class-Path:" in manifest or any(
            name.endswith(".SF") or (counts[name] > 1 and _may_be_read(name)) for name in names
        ):
            found.append(jar)
        else:
            merged[_MULTI_RELEASE in manifest].append(content)
    for of_versions, parts in merged.items():
        if parts:
            target = folder / f"merged{'-of-versions' if of_versions else ''}.jar"
            _write(target, parts, of_versions)
            found.append(target)
    for content in contents.values():
        content.close()
    return found


def _may_be_read(name: str) -> bool:
    return not (_UNREAD.match(name) or name.startswith(_SERVICES) or name in (_MANIFEST, _INDEX))


def _write(target: Path, parts: list[ZipFile], of_versions: bool) -> None:
    """Copy the files of jars as they are, compressed, and write one directory of all."""
    services: dict[str, list[bytes]] = {}
    with ZipFile(target, "w") as made:
        assert made.fp is not None
        for part in parts:
            assert part.fp is not None and part.filename is not None
            begin = made.fp.tell()
            with open(part.filename, "rb") as jar:
                shutil.copyfileobj(jar, made.fp, 1 << 20)
            for info in part.infolist():
                if info.filename.startswith(_SERVICES) and not info.is_dir():
                    services.setdefault(info.filename, []).append(part.read(info))
                elif info.filename not in (_MANIFEST, _INDEX) and info.filename not in made.NameToInfo:
                    info.header_offset += begin
                    made.filelist.append(info)
                    made.NameToInfo[info.filename] = info
        made.start_dir = made.fp.tell()
        for name, texts in services.items():
            made.writestr(name, b"\n".join(texts))
        more = f"{_MULTI_RELEASE}\r\n" if of_versions else ""
        made.writestr(_MANIFEST, f"Manifest-Version: 1.0\r\n{more}\r\n")
