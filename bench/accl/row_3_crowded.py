#!/usr/bin/env python3
"""More ranks than processors: 8 and 16 ranks, 8 B .. 1 MiB, and what idle ranks use of a processor."""
import sys

import common

build, failed = sys.argv[1], 0
for ranks in ("8", "16"):
    rows = common.bench(build, "--ranks", ranks, "--max-bytes", "1048576", "--compare", "mpi", "--rounds", common.ROUNDS)
    failed |= common.emit_compared(build, f"all-reduce, {ranks} ranks", rows, 3.0, 1.2, "geometric mean >= 3x the best peer, no size below 1.2x", False)
sys.exit(failed)
