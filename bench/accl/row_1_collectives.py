#!/usr/bin/env python3
"""Five collectives, 2 and 4 ranks, every power of two 8 B .. 64 MiB, beside the peers installed; ordinary buffers and those of ncclMemAlloc."""
import sys

import common

build, failed = sys.argv[1], 0
for collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"):
    for ranks in ("2", "4"):
        for buffers in ("ordinary", "shared"):
            bar = 2.5 if collective == "all_reduce" else 1.5 if buffers == "shared" else 1.15
            rows = common.bench(build, "--collective", collective, "--ranks", ranks, "--buffers", buffers, "--compare", "mpi", "--rounds", common.ROUNDS)
            failed |= common.emit_compared(build, f"{collective}, {ranks} ranks, {buffers} buffers", rows, bar, 0.95,
                                           f"no size wholly below 0.95x the best peer, geometric mean >= {bar}x", True)
sys.exit(failed)
