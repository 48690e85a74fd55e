#!/usr/bin/env python3
"""YAML for 1, 8, 16 cards, both images, five kinds."""
import sys

from doctor_lib import GROUP, emit, ljperf_version, version
import images

build = sys.argv[1]
try:
    wrong, what = images.CHECKS["yaml"](build)
    passed = not wrong
except images.Skip as skip:
    wrong, what, passed = [], f"skipped: {skip}", False
sys.exit(emit(build, GROUP, "YAML for 1, 8, 16 cards, both images, five kinds", ours=what, bar="30 objects valid; interface, driver, shm and limits right", passed=passed, versions={"ljperf": ljperf_version(build), "podman": version("podman", "--version"), "skopeo": version("skopeo", "--version")}, wrong=wrong))
