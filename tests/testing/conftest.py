"""What tests of ``mixedmode.testing`` share."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark import cloudpickle

sys.path.insert(0, str(Path(__file__).parent))

import processors

# Spark's workers cannot import test modules.
cloudpickle.register_pickle_by_value(processors)
