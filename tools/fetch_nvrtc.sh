#!/bin/sh
# tools/fetch_nvrtc.sh FOLDER: a Python environment with NVRTC (PyPI's nvidia-cuda-nvrtc-cu12) in FOLDER; prints its python3.
set -eu
folder=$1
if [ ! -x "$folder/bin/python3" ] || ! "$folder/bin/python3" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("nvidia.cuda_nvrtc") is None)' 2>/dev/null; then
    python3 -m venv "$folder" >&2
    "$folder/bin/python3" -m pip install -q nvidia-cuda-nvrtc-cu12 >&2
fi
echo "$folder/bin/python3"
