# list, show, notes, diff, own manifests, usage errors.
set -eu
exec python3 tests/host/images.py "$1" words
