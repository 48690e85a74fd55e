#!/usr/bin/env python3
"""The same graph 20 times with 1, 2 and 3 threads: the same bits each time."""
import sys

from judged import judge, run_test

build = sys.argv[1]
passed, text = run_test(build, "test_graphs_random", LJ_TEST_SEED=9001, LJ_TEST_GRAPHS=40, LJ_TEST_ALL_THREADS=1)
sys.exit(judge(build, "repeatability", "bit-equal, 20 runs, 1 2 3 threads", passed, 40, text, unit="graphs"))
