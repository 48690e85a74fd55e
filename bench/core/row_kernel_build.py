#!/usr/bin/env python3
"""40 kernels: built cold in <= 4 s on 2 cores, loaded warm in a new process in <= 0.2 s."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "codegen"))
from tool import build_tool  # noqa: E402
import lib  # noqa: E402


def run(tool, cache):
    environment = dict(os.environ, LJPERF_CACHE=cache)
    return json.loads(subprocess.run([tool], check=True, capture_output=True, text=True, env=environment).stdout)


def main():
    build = sys.argv[1]
    tool = build_tool(build, "build_time")
    cold, warm = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(run(tool, cache)["seconds"])
            again = [run(tool, cache) for _ in range(3)]
            warm += [one["seconds"] for one in again]
            assert all(one["compiles"] == 0 and one["cache_hits"] == 40 for one in again)
    status = 0
    for name, values, bar in (("cold", cold, 4.0), ("warm", warm, 0.2)):
        middle = statistics.median(values)
        status |= lib.emit(build, "core", f"40 kernels, {name} cache", peer=None, ours=round(middle, 3), bar=f"<= {bar} s", passed=middle <= bar,
                           ci=[round(min(values), 3), round(max(values), 3)])
    return status


if __name__ == "__main__":
    sys.exit(main())
