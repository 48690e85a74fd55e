#!/usr/bin/env python3
"""An all-reduce on a host stream beside a matrix product."""
import os
import subprocess
import sys
import tempfile

import common
from common import lib

build = sys.argv[1]
root = common.HERE.parent.parent
with tempfile.TemporaryDirectory() as folder:
    program = os.path.join(folder, "overlap")
    subprocess.run(["cc", "-std=gnu17", "-O3", "-march=native", f"-I{root}/include", str(common.HERE / "overlap.c"), "-o", program, f"-L{build}", "-l:libaccl.so", f"-Wl,-rpath,{build}"], check=True)
    runs = [[float(x) for x in subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()] for _ in range(3)]
product, reduce, both, late, late_both = sorted(runs, key=lambda r: r[2] / (r[0] + r[1]))[1]
busy, asleep = both / (product + reduce), late_both / max(late, product)
failed = lib.emit(build, "accl", "overlap, both ranks busy", peer=f"product {product} ms + collective {reduce} ms", ours=both, ratio=busy, bar="<= 1.1x the sum", passed=busy <= 1.1)
failed |= lib.emit(build, "accl", "overlap, peer asleep", peer=f"product {product} ms, collective {late} ms", ours=late_both, ratio=asleep, bar="<= 1.15x the longer", passed=asleep <= 1.15)
sys.exit(failed)
