#!/usr/bin/env python3
"""4,000 random graphs: compiled against the reference, printed and parsed, predicted bytes = counted bytes. Two processes, half each."""
import concurrent.futures
import os
import sys

from judged import judge, run_test

build = sys.argv[1]
graphs = int(os.environ.get("LJ_BENCH_GRAPHS", "4000"))
half = graphs // 2
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    parts = list(pool.map(lambda first: run_test(build, "test_graphs_random", LJ_TEST_SEED=first, LJ_TEST_GRAPHS=half), (1001, 1001 + half)))
text = "".join(output for _, output in parts)
passed = all(good for good, _ in parts)
bytes_wrong = "the workspace grew by" in text or "beside its workspace" in text
status = judge(build, "random graphs", "all equal under the rounding rule", passed, graphs, text)
status |= judge(build, "predicted = counted bytes", "equal in each run", passed and not bytes_wrong, graphs, "")
sys.exit(status)
