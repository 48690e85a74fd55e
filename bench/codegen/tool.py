"""Builds a C program of bench/codegen against the library's internals and the tests' kernel graphs."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
PACKAGES = ["jansson", "libpcre2-8", "libutf8proc", "libxxhash", "hwloc", "zlib", "libzstd", "yaml-0.1", "cmocka"]


def build_tool(build, name):
    out = pathlib.Path(build) / "bench"
    out.mkdir(exist_ok=True)
    libs = subprocess.run(["pkg-config", "--libs", *PACKAGES], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run([os.environ.get("CC", "gcc"), "-O3", "-march=native", "-ffp-contract=off", "-std=gnu17", "-fopenmp", f"-I{ROOT}/src", f"-I{ROOT}/include",
                    f"-I{ROOT}/tests", str(HERE / f"{name}.c"), f"{build}/tests/libtest_support.a", f"{build}/libljperf_static.a", "-o", str(out / name), *libs,
                    "-ldnnl", "-lgomp", "-lm", "-lpthread", "-ldl"], check=True)
    return str(out / name)
