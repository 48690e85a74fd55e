#!/usr/bin/env python3
"""The rows of the table that are tests: a JSON line each."""
import os
import subprocess
import sys

import common
from common import lib

build, failed = sys.argv[1], 0
for row, test, more in (("vendor header, every function, PyTorch's symbols", "symbols", {"ACCL_FETCH_HEADER": "1"}), ("port of nccl-tests' checks", "collectives", {}),
                        ("results: bits, order, one rank", "cases", {}), ("300 rounds, 1,000 random programs", "stress", {}), ("interface", "api", {}), ("vendor engine", "vendor", {})):
    done = subprocess.run(["ctest", "-R", f"^accl/{test}$", "--timeout", "600"], cwd=build, env={**os.environ, **more}, capture_output=True, text=True)
    failed |= lib.emit(build, "accl", row, ours="passed" if done.returncode == 0 else done.stdout[-400:], bar="passes", passed=done.returncode == 0)
sys.exit(failed)
