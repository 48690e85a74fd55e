#!/usr/bin/env python3
"""run lines for docker, podman, nerdctl."""
import sys

from doctor_lib import GROUP, emit, ljperf_version, version
import images

build = sys.argv[1]
try:
    wrong, what = images.CHECKS["run"](build, install=True)
    passed = not wrong and what == "started: yes"
except images.Skip as skip:
    wrong, what, passed = [], f"skipped: {skip}", False
sys.exit(emit(build, GROUP, "run lines for docker, podman, nerdctl", ours=what, bar="read by podman; started with a small image made here", passed=passed, versions={"ljperf": ljperf_version(build), "podman": version("podman", "--version"), "skopeo": version("skopeo", "--version")}, wrong=wrong))
