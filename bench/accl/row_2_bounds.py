#!/usr/bin/env python3
"""8 B beside Open MPI; in-place all-reduce in shared buffers beside the bound that memory sets."""
import os
import statistics
import subprocess
import sys
import tempfile

import common
from common import lib

build, failed = sys.argv[1], 0
rows = common.bench(build, "--ranks", "2", "--max-bytes", "8", "--compare", "mpi", "--rounds", common.ROUNDS)
peers = [p["rounds_us"] for n, p in rows[0]["peers"].items() if n.startswith("openmpi")]
peer = min(peers, key=statistics.median)
ratio, low, high = lib.paired_ratio(rows[0]["rounds_us"], peer)
failed |= lib.emit(build, "accl", "all-reduce 8 B, 2 ranks", peer=statistics.median(peer), ours=rows[0]["time_us_mean"], ratio=ratio, ci=[low, high], bar="<= 0.5x Open MPI's time", passed=ratio <= 0.5)
with tempfile.TemporaryDirectory() as folder:
    triad = os.path.join(folder, "triad")
    subprocess.run(["cc", "-O2", str(common.HERE / "triad.c"), "-o", triad], check=True)
    bandwidths, shares = [], {}
    for _ in range(int(common.ROUNDS)):
        bandwidths.append(float(subprocess.run([triad], capture_output=True, text=True, check=True).stdout))
        for row in common.bench(build, "--ranks", "2", "--min-bytes", "4194304", "--buffers", "shared", "--in-place"):
            shares.setdefault(row["bytes"], []).append(4 * row["bytes"] / (bandwidths[-1] * 1e3) / row["time_us_mean"])
medians = {size: statistics.median(s) for size, s in shares.items()}
worst = min(medians, key=medians.get)
failed |= lib.emit(build, "accl", "all-reduce >= 4 MiB in place, shared buffers, 2 ranks", peer=f"triad {statistics.median(bandwidths):.1f} GB/s", ours=medians, ratio=medians[worst],
                   ci=[min(shares[worst]), max(shares[worst])], bar=">= 0.8 of 4 x bytes / triad", passed=medians[worst] >= 0.8)
sys.exit(failed)
