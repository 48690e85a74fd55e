#!/usr/bin/env python3
"""Row: packing of 10,000 random document sets: every token exactly once, borders right, no more rows than best fit decreasing; 10 million documents cost at
most 16 times what 1 million do."""
import json
import subprocess
import sys

from text_lib import HERE
from weights_lib import build_tool


def main(build):
    sys.path.insert(0, str(HERE.parent))
    from lib import emit
    r = json.loads(subprocess.run([build_tool(build, "check_packing")], check=True, capture_output=True, text=True).stdout)
    growth = r["ten_million_s"] / r["million_s"]
    passed = r["wrong"] == 0 and r["more_rows_than_best_fit"] == 0 and r["unused_tokens"] == 0 and growth <= 16
    return emit(build, "files", "packing", "best fit decreasing", r["sets"] - r["wrong"], round(growth, 2), None, "all right, no more rows, <= 16x", passed, **r)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
