#!/usr/bin/env python3
"""Fixture matrix: every verdict right, each with its source line."""
import sys

from doctor_lib import GROUP, emit, ljperf_version
import matrix

build = sys.argv[1]
rows = list(matrix.run_all(build))
wrong = {name: complaints for name, complaints in rows if complaints}
sys.exit(emit(build, GROUP, "fixture matrix", ours=len(rows) - len(wrong), bar=f"all of >= 80 verdict sets right ({len(rows)} fixtures)", passed=len(rows) >= 80 and not wrong, versions={"ljperf": ljperf_version(build)}, fixtures=len(rows), wrong=wrong))
