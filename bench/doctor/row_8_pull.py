#!/usr/bin/env python3
"""pull from a registry on loopback."""
import sys

from doctor_lib import GROUP, emit, ljperf_version, version
import images

build = sys.argv[1]
try:
    wrong, what = images.CHECKS["pull"](build, install=True)
    passed = not wrong
except images.Skip as skip:
    wrong, what, passed = [], f"skipped: {skip}", False
sys.exit(emit(build, GROUP, "pull from a registry on loopback", ours=what, bar="digest pinned, a moved tag refused, login and TLS guidance", passed=passed, versions={"ljperf": ljperf_version(build), "podman": version("podman", "--version"), "skopeo": version("skopeo", "--version")}, wrong=wrong))
