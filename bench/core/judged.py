"""Runs test programs and reads their verdicts, for the rows that are about being right."""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from lib import emit  # noqa: E402

GROUP = "core"


def run_test(build, program, **settings):
    """Runs build/tests/PROGRAM; returns (passed, output)."""
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", LJPERF_CACHE=os.path.join(build, "test-cache"))
    environment.update({name: str(value) for name, value in settings.items()})
    done = subprocess.run([os.path.join(build, "tests", program)], capture_output=True, text=True, env=environment, cwd=build)
    return done.returncode == 0, done.stdout + done.stderr


def number_before(text, words):
    """The number that stands before `words` in a test's output."""
    found = re.search(r"(\d+)" + re.escape(words), text)
    return int(found.group(1)) if found else 0


def row_count():
    """Rows of ops.def."""
    table = pathlib.Path(__file__).resolve().parents[2] / "src" / "ir" / "ops.def"
    return sum(line.startswith("OP(") for line in table.read_text().splitlines())


def judge(build, row, bar, passed, ours, output, **more):
    if not passed:
        sys.stderr.write(output)
    return emit(build, GROUP, row, ours=ours, bar=bar, passed=passed, **more)
