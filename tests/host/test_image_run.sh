# Start lines of docker, podman and nerdctl, read by the real podman and started with a small image made here (skipped without podman).
set -eu
exec python3 tests/host/images.py "$1" run
