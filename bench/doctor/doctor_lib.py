"""What the doctor's rows share: paths, the tests' modules, versions of the tools."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "host"))

from lib import emit  # noqa: E402,F401

GROUP = "doctor"


def version(*words):
    try:
        out = subprocess.run(words, capture_output=True, text=True, timeout=20)
        return (out.stdout + out.stderr).strip().splitlines()[0][:80]
    except (OSError, IndexError, subprocess.SubprocessError):
        return "not here"


def ljperf_version(build):
    return version(os.path.join(build, "ljperf"), "--version")
