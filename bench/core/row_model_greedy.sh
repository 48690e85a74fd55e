#!/bin/sh
exec "${PYTHON:-python3}" "$(dirname "$0")/model_rows.py" greedy "$1"
