# Case 148: each manifest states how a container must be started (devices, shared memory, limits, ports), and the doctor holds the real
# container against it: 16 MB of /dev/shm are named with the size and the option that the image wants.
set -eu
build=$1
for manifest in data/images/*.yaml; do
    for key in devices ipc shm_size ulimits ports source; do
        sed -n '/^run:/,/^[a-z]/p' "$manifest" | grep -q "^  $key:" || { echo "$manifest: run lacks $key"; exit 1; }
    done
done
unshare -m true 2>/dev/null || { echo "skipped: needs the right to make a mount namespace"; exit 77; }
report=$(unshare -m sh -c "mount -t tmpfs -o size=16m tmpfs /dev/shm && '$build/ljperf' doctor --image training-nv-pytorch:25.07 --all --data-dir data" || true)
echo "$report" | grep -A2 '^WARN shared_memory .*16.00 MiB' | grep -q -e '--shm-size=32g' || { echo "$report"; exit 1; }
# and with room enough the same row is no warning
report=$(unshare -m sh -c "mount -t tmpfs -o size=40g tmpfs /dev/shm && '$build/ljperf' doctor --image training-nv-pytorch:25.07 --all --data-dir data" || true)
if echo "$report" | grep -q '^WARN shared_memory'; then
    echo "$report"
    exit 1
fi
