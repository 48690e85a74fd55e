#!/usr/bin/env python3
"""Each fallible call of compile, plan and run failed once: right error, no leak, no crash, outputs untouched."""
import re
import sys

from judged import judge, run_test

build = sys.argv[1]
passed, text = run_test(build, "test_graphs_faults")
failed = sum(int(n) for n in re.findall(r"(\d+) operations failed once", text))
sys.exit(judge(build, "faults", "right error, no leak, outputs untouched", passed, failed, text, unit="operations failed once"))
