#!/usr/bin/env python3
"""Every row of ops.def: forward against the reference, gradient against central differences, planted faults caught."""
import sys

from judged import judge, number_before, row_count, run_test

build = sys.argv[1]
rows = row_count()
forward, text = run_test(build, "test_ops_forward")
judged = number_before(text, " rows compiled and judged") + 2  # send and recv: a program of one rank refuses them, which is tested
status = judge(build, "ops forward", f"{rows} rows", forward and judged == rows, judged, text)
gradient, text = run_test(build, "test_ops_gradient")
status |= judge(build, "ops gradient", "all rows within 1e-6", gradient, number_before(text, " wrong gradients planted"), text,
                unit="wrong gradients planted, all caught")
planted, text = run_test(build, "test_ops_planted")
plans, more = run_test(build, "test_graphs_plan")
status |= judge(build, "planted faults", "kernel, rounding, gradient and plan offset caught", planted and plans and gradient, None, text + more)
sys.exit(status)
