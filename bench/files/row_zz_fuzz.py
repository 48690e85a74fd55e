#!/usr/bin/env python3
"""Row: every fuzz target under AddressSanitizer and UBSan, 30 CPU-minutes in all (LJPERF_FUZZ_SECONDS overrides the total), and every prefix of the
committed valid files."""
import glob
import os
import subprocess
import sys

import weights_lib
from lib import emit


def main():
    build, root = sys.argv[1], str(weights_lib.ROOT)
    targets = sorted(os.path.basename(p)[:-2] for p in glob.glob(f"{root}/tests/fuzz/fuzz_*.c"))
    total = int(os.environ.pop("LJPERF_FUZZ_SECONDS", "1800"))
    each = max(1, total // len(targets))
    fuzz = subprocess.run([f"{root}/tools/fuzz.sh", str(each)], capture_output=True, text=True)
    print(fuzz.stdout + fuzz.stderr, file=sys.stderr)
    prefixes = subprocess.run([f"{build}/tests/test_formats_corpus"], capture_output=True, text=True)
    runs = {line.split(":")[0]: int(line.split()[1]) for line in fuzz.stdout.splitlines() if " runs in " in line}
    passed = fuzz.returncode == 0 and prefixes.returncode == 0 and sorted(runs) == targets
    return emit(build, "files", "fuzz", peer=None, ours=len(targets) - len(runs), bar="no finding", passed=passed, seconds=each * len(targets), executions=runs,
                prefixes_refused=prefixes.returncode == 0)


sys.exit(main())
