#!/usr/bin/env python3
"""The doctor on this host and in broken places: right verdicts, each under 2 s."""
import sys

from doctor_lib import GROUP, emit, ljperf_version
import live

build = sys.argv[1]
rows = list(live.run_all(build))
wrong = {name: complaints for name, complaints, _ in rows if complaints}
skipped = {name: why for name, complaints, why in rows if complaints is None}
seconds = {name: round(s, 2) for name, complaints, s in rows if complaints is not None}
sys.exit(emit(build, GROUP, "this host and broken places", ours=max(seconds.values(), default=None), bar="right verdicts, under 2 s", passed=not wrong and not skipped and not live.loaded(), versions={"ljperf": ljperf_version(build)}, seconds=seconds, wrong=wrong,
              skipped=skipped, loaded=live.loaded()))
