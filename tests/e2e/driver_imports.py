"""What drivers import before they do anything, and on the way: the process that they are forked off has it."""

import feeds  # noqa: F401
import numbering  # noqa: F401
import support  # noqa: F401
from mixedmode.planner.frames import frame  # noqa: F401
from mixedmode.planner.plans import compile  # noqa: F401
from mixedmode.runtime.driver.run import runner  # noqa: F401
