# The fixture matrix: every verdict as written by hand in matrix.py, each warning and failure with its source and next step.
set -eu
exec python3 tests/host/matrix.py "$1"
