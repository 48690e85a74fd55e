# Kubernetes objects: five kinds, 1, 8 and 16 cards, both images, against kubernetes-validate and our schemas (skipped where the validator cannot be had).
set -eu
exec python3 tests/host/images.py "$1" yaml
