"""Has the JVM call Python objects: ``python driver_proxies.py dies|asks``.

``dies``: the JVM forgets its end of each, and the process is killed before it has heard of that.
``asks``: the JVM looks for what it has forgotten, and calls objects that it has not.
"""

from __future__ import annotations

import os
import signal
import sys

from pyspark.java_gateway import ensure_callback_server_started, launch_gateway


class Told:
    """A ``java.lang.Runnable``."""

    class Java:
        implements = ("java.lang.Runnable",)

    def run(self) -> None:
        print("called", flush=True)


def main(how: str) -> None:
    gateway = launch_gateway()
    ensure_callback_server_started(gateway)
    java = gateway.jvm.java
    objects = [Told() for _ in range(9)]
    if how == "dies":
        held = java.util.concurrent.atomic.AtomicReference()
        for one in [*objects, None]:
            held.set(one)
        os.kill(os.getpid(), signal.SIGKILL)
    threads = [java.lang.Thread(one) for one in objects]
    java.lang.System.gc()
    java.lang.System.runFinalization()
    for thread in threads:
        thread.run()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
