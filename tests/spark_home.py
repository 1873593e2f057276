"""A home of Spark that is quick to start from: the installed one with four differences.

- Python workers import PySpark as it is installed.  In PySpark's own home they find it in a zip file first, in which
  Python compiles each module anew: half of what the daemon and each worker take to start.
- Jars of which no test needs a class (Kubernetes, Spark Connect) are not there, as a JVM opens all that there are, and
  looks into each for a name that no class has.
- Most of the other jars are two files, for the same reason (``merged_jars.py``).
- What a cluster within a JVM writes lands in a folder below the one in which the JVM was started, not in the home.  So
  there need be one home only, and all JVMs have the class path of the archive in ``jvm_archive.py``.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import merged_jars

#: How the names of jars begin of which no test needs a class.  (Hive's are needed by Iceberg's tables in folders.)
NOT_NEEDED = re.compile(
    "spark-(kubernetes|yarn|connect|pipelines|repl)|kubernetes-|volcano-|vertx-|zjsonpatch|scala-compiler"
    "|netty-.*(osx|windows|aarch|riscv|kqueue)"
)
#: Below the folder in which a JVM is started; whoever starts one for a cluster makes it.
CLUSTER_FOLDER = "cluster-work"


def spark_home(folder: Path) -> Path:
    """The home, of links to what is installed.

    Args:
        folder: takes it, also where other processes do the same.
    """
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    installed = Path(found.origin).parent
    key = f"{installed} {version('pyspark')} {NOT_NEEDED.pattern} {CLUSTER_FOLDER} merged"
    home = folder / f"spark-home-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    if home.exists():
        return home
    folder.mkdir(exist_ok=True)
    made = Path(mkdtemp(prefix=".spark-home-", dir=folder))
    made.chmod(0o755)
    try:
        _fill(made, installed)
        made.rename(home)
    except OSError:
        if not home.exists():  # else another process has made it meanwhile
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return home


def _fill(home: Path, installed: Path) -> None:
    links = {home / part.name: part for part in installed.iterdir() if part.name not in ("python", "jars")}
    # To a folder that the checkout does not have: to the checkout itself it would be a circle, for whoever walks there.
    links[home / "work"] = Path("/proc/self/cwd", CLUSTER_FOLDER)
    jars = home / "jars"
    jars.mkdir()
    needed = sorted(jar for jar in (installed / "jars").glob("*.jar") if not NOT_NEEDED.match(jar.name))
    links |= {jars / jar.name: jar for jar in merged_jars.merge(needed, jars) if jar.parent != jars}
    for link, part in links.items():
        link.symlink_to(part)
