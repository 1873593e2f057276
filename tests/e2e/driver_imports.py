"""What drivers import before they do anything, and on the way: the process that they are forked off has it."""

import os

# Threads do not survive a fork: the one library that would start some is kept from it.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import feeds  # noqa: F401
import numbering  # noqa: F401
import support  # noqa: F401
from mixedmode.planner.frames import frame  # noqa: F401
from mixedmode.planner.plans import compile  # noqa: F401
from mixedmode.runtime.driver.run import runner  # noqa: F401
from pyspark.testing import utils  # noqa: F401  (PySpark imports it, and pandas with it, for the first call into the JVM)
