#!/usr/bin/env python3
"""A stranger's view: the first line names the cause in >= 18 of 20 public reports."""
import sys

from doctor_lib import GROUP, emit, ljperf_version
import strangers

build = sys.argv[1]
rows = list(strangers.run_all(build))
missed = {thread: {"first_line": first, "lacks": lacking} for thread, _, first, lacking in rows if lacking}
sys.exit(emit(build, GROUP, "a stranger's view", ours=len(rows) - len(missed), bar=f">= 18 of {len(rows)}", passed=len(rows) >= 20 and len(rows) - len(missed) >= 18, versions={"ljperf": ljperf_version(build)}, missed=missed))
