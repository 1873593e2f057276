"""An archive of the classes that Spark loads, which JVMs that are started later map instead of reading jars.

The JVM calls it class data sharing.  ``python jvm_archive.py <file>`` runs a small job and leaves the archive of it;
a JVM ignores one that is not of its own version and class path.  A run of many tests makes it beside them, and what
starts after it was made is quicker: most of all the executors that replace killed ones.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pyspark
from spark_home import NOT_NEEDED

_ROOT = Path(__file__).resolve().parents[1]


def _java() -> Path:
    home = os.environ.get("JAVA_HOME")
    return Path(shutil.which(f"{home}/bin/java" if home else "java") or "java").resolve()


def archive() -> Path:
    """Where the archive is, or will be, of this Java and this PySpark."""
    java = _java()
    age = java.stat().st_mtime_ns if java.exists() else 0
    key = f"{java} {age} {pyspark.__version__} {pyspark.__file__} {NOT_NEEDED.pattern} merged"
    return _ROOT / "build" / f"spark-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsa"


def is_made() -> bool:
    """True if the archive is there, and not only what stands in for it."""
    return archive().exists() and not archive().is_symlink()


def java_options() -> str:
    """What has a JVM use the archive if it is there by then; one that is not for this JVM it ignores in silence."""
    if not archive().exists():
        # A JVM that is told of an archive that is not there does without its own, too: that stands in.
        own = _java().parents[1] / "lib" / "server" / "classes.jsa"
        if not own.exists():
            return ""
        archive().parent.mkdir(exist_ok=True)
        with suppress(FileExistsError):
            archive().symlink_to(own)
    return f"{shlex.quote(f'-XX:SharedArchiveFile={archive()}')} -Xlog:cds*=off"


def begin() -> subprocess.Popen[bytes]:
    """Begin to make the archive, in another process."""
    command = [sys.executable, __file__, str(archive())]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """End it, done or not."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _make(target: Path) -> None:
    sys.path.append(str(_ROOT / "tests" / "e2e"))
    import support

    made = target.with_name(f".{target.name}.{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f'"-XX:ArchiveClassesAtExit={made}"'
    os.environ["JDK_JAVA_OPTIONS"] = os.environ["JDK_JAVA_OPTIONS"].replace(java_options(), "-Xlog:cds*=off")
    with tempfile.TemporaryDirectory() as folder:
        spark = support.driver_session()
        events = support.stream_of(60)
        for job in (support.sessions, support.means):
            world = support.World(spark, Path(folder, job.__name__))
            world.land(events[30:])
            query = world.start(job(world.history(events[:30]), world.live()))
            query.wait_for("live", 300)
            query.processAllAvailable()
            query.stop()
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    made.rename(target)


if __name__ == "__main__":
    _make(Path(sys.argv[1]))
