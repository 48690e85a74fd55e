"""What every row of bench/ shares: the JSON line, paired ratios with a bootstrap interval, versions, the machine's class."""
import json
import os
import random
import statistics
import subprocess
import sys


def machine_class(build):
    out = subprocess.run([os.path.join(build, "ljperf"), "version"], capture_output=True, text=True).stdout
    return next((line.split("class ")[1] for line in out.splitlines() if "class " in line), "unknown")


def paired_ratio(ours, peer, rounds=2000, seed=1):
    """Median of the pairwise ratios ours/peer and its 95 % bootstrap interval."""
    ratios = [a / b for a, b in zip(ours, peer)]
    rng = random.Random(seed)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return statistics.median(ratios), medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def geometric_mean(values):
    return statistics.geometric_mean(values)


def emit(build, group, row, peer=None, ours=None, ratio=None, ci=None, bar=None, passed=None, versions=None, **more):
    line = {"group": group, "row": row, "command": " ".join(sys.argv), "versions": versions or {}, "machine_class": machine_class(build),
            "peer": peer, "ours": ours, "ratio": ratio, "ci95": ci, "bar": bar, "pass": passed}
    line.update(more)
    print(json.dumps(line), flush=True)
    return 0 if passed else 1
