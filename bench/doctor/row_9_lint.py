#!/usr/bin/env python3
"""lint of trees and archives, cases 146 and 149."""
import sys

from doctor_lib import GROUP, emit, ljperf_version, version
import images

build = sys.argv[1]
try:
    wrong, what = images.CHECKS["lint"](build)
    passed = not wrong
except images.Skip as skip:
    wrong, what, passed = [], f"skipped: {skip}", False
sys.exit(emit(build, GROUP, "lint of trees and archives, cases 146 and 149", ours=what, bar="all right", passed=passed, versions={"ljperf": ljperf_version(build), "podman": version("podman", "--version"), "skopeo": version("skopeo", "--version")}, wrong=wrong))
