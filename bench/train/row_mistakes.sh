#!/bin/sh
exec "${PYTHON:-python3}" "$(dirname "$0")/train_rows.py" mistakes "$1"
