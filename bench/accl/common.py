"""Shared by the rows of this folder: runs `ljperf comm bench` and reads its rows; compares with the best peer of each size."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import lib  # noqa: E402

EFFORT = os.environ.get("ACCL_BENCH_EFFORT", "0.2")
ROUNDS = os.environ.get("ACCL_BENCH_ROUNDS", "5")


def bench(build, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "rows.json")
        command = [os.path.join(build, "ljperf"), "comm", "bench", "--json", out, "--effort", EFFORT, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return json.load(open(out))


def best_peer(row):
    """Name and per-round times of the peer with the smallest median at this size; a tuned variant counts as its library's better one."""
    peers = {n: p for n, p in row["peers"].items() if p["time_us_mean"] is not None}
    name = min(peers, key=lambda n: peers[n]["time_us_mean"])
    return name, [t for t in peers[name]["rounds_us"] if t is not None]


def compare(rows):
    """Per size: how many times faster than the best peer, with its interval."""
    out = []
    for row in rows:
        name, peer = best_peer(row)
        ours = row["rounds_us"][: len(peer)]
        ratio, low, high = lib.paired_ratio(peer, ours)
        out.append({"bytes": row["bytes"], "peer": name, "peer_us": row["peers"][name]["time_us_mean"], "ours_us": row["time_us_mean"],
                    "times_faster": ratio, "ci95": [low, high], "algorithm": row["algorithm"], "wrong": row["wrong"]})
    return out


def emit_compared(build, row, rows, bar_mean, bar_each, bar, use_interval):
    sizes = compare(rows)
    mean = math.exp(sum(math.log(s["times_faster"]) for s in sizes) / len(sizes))
    low = math.exp(sum(math.log(s["ci95"][0]) for s in sizes) / len(sizes))
    high = math.exp(sum(math.log(s["ci95"][1]) for s in sizes) / len(sizes))
    slow = [s["bytes"] for s in sizes if (s["ci95"][1] if use_interval else s["times_faster"]) < bar_each]
    wrong = sum(s["wrong"] for s in sizes)
    return lib.emit(build, "accl", row, peer="best of " + ", ".join(sorted(rows[0]["peers"])), ours="geometric mean over sizes", ratio=mean, ci=[low, high], bar=bar,
                    passed=mean >= bar_mean and not slow and not wrong, slow_sizes=slow, sizes=sizes)
