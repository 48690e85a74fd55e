#!/usr/bin/env python3
"""Component tests: a table of wanted, got and tested in docs/, generated from a run. The run takes many minutes (it installs what can be had), so this row runs it only with
COMPONENTS=run; else it checks that the committed table has a row for every component of the manifests and says when it was made."""
import os
import subprocess
import sys
import tempfile

from doctor_lib import GROUP, HERE, emit, ljperf_version

build = sys.argv[1]
root = os.path.join(HERE, "..", "..")
table = os.path.join(root, "docs", "components.md")
if os.environ.get("COMPONENTS") == "run":
    folder = os.environ.get("COMPONENTS_DIR") or tempfile.mkdtemp(prefix="ljperf-components-")
    subprocess.run([os.path.join(build, "ljperf"), "image", "test", "--output-dir", folder], env=dict(os.environ, LJPERF_DATA_DIR=os.path.join(root, "data")))
    subprocess.run([sys.executable, os.path.join(HERE, "components_page.py"), folder, table], check=True)
with open(table) as f:
    text = f.read()
import json
names = set()
listed = json.loads(subprocess.run([os.path.join(build, "ljperf"), "image", "list", "--json", "-"], capture_output=True, text=True, env=dict(os.environ, LJPERF_DATA_DIR=os.path.join(root, "data"))).stdout)
for manifest in listed:
    names |= {c["name"] for c in manifest["components"]}
missing = sorted(n for n in names if f"| {n} |" not in text)
verdicts = {}
for line in text.splitlines():
    cells = [c.strip() for c in line.split("|")]
    if len(cells) > 5 and cells[1] in names:
        verdicts[cells[4]] = verdicts.get(cells[4], 0) + 1
sys.exit(emit(build, GROUP, "components", ours=verdicts, bar="a row for every component: wanted, got, tested", passed=not missing, versions={"ljperf": ljperf_version(build)}, missing=missing, ran=os.environ.get("COMPONENTS") == "run"))
