#!/usr/bin/env python3
"""The fixed kernels: golden text, no warning from any C compiler here, CUDA C to PTX by NVRTC (fetched when it is not there: no skip)."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import lib  # noqa: E402


def row(build, name, command, environment=None):
    ran = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **(environment or {})))
    words = [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
    return lib.emit(build, "core", name, ours=words[-1] if words else "", bar="exit 0", passed=ran.returncode == 0, said=words[-6:])


def main():
    build = sys.argv[1]
    python = subprocess.run([str(ROOT / "tools/fetch_nvrtc.sh"), f"{build}/nvrtc"], capture_output=True, text=True).stdout.strip() or sys.executable
    return (row(build, "generated text is golden", [f"{build}/tests/test_codegen_golden"])
            | row(build, "generated C without warnings", ["bash", str(ROOT / "tests/codegen/test_compilers.sh")])
            | row(build, "generated CUDA C to PTX", [python, str(ROOT / "tools/nvrtc_ptx.py"), *map(str, sorted((ROOT / "tests/codegen/golden").glob("*.cu")))]))


if __name__ == "__main__":
    sys.exit(main())
