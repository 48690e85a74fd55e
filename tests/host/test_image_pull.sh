# Pulls from Debian's docker-registry on loopback through skopeo: plain registry, digest, moved tag, absent tag, login (skipped without them).
set -eu
exec python3 tests/host/images.py "$1" pull
