#!/usr/bin/env python3
"""Bandwidth-bound generated kernels at >= 80 % of the measured triad, SmolLM2-135M shapes, 16,384 tokens, rounds interleaved."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "codegen"))
from tool import build_tool  # noqa: E402
import lib  # noqa: E402


def main():
    build = sys.argv[1]
    threads = os.environ.get("LJPERF_THREADS", "2")
    out = subprocess.run([build_tool(build, "kernels"), threads, "16384", "11"], check=True, capture_output=True, text=True).stdout
    status = 0
    for line in map(json.loads, out.splitlines()):
        share, low, high = lib.paired_ratio(line["gb_s"], line["triad_gb_s"])
        status |= lib.emit(build, "speed", f"kernel bandwidth: {line['kernel']}", peer="triad a = b + s c, 12 bytes an element", ours=sorted(line["gb_s"])[5],
                           ratio=round(share, 3), ci=[round(low, 3), round(high, 3)], bar=">= 0.80", passed=share >= 0.80,
                           triad_gb_s=sorted(line["triad_gb_s"])[5])
    return status


if __name__ == "__main__":
    sys.exit(main())
