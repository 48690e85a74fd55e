# Lint of trees, OCI layouts and archives; cases 146 and 149; hostile trees.
set -eu
exec python3 tests/host/images.py "$1" lint
