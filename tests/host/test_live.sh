# The doctor on this host and in places broken on purpose; what needs root and is not, is reported as skipped.
set -eu
exec python3 tests/host/live.py "$1"
