# A fresh network namespace: with loopback down the set-up says which interfaces it looked at; with loopback up, local ranks work.
set -eu
if ldd "$1/libaccl.so" 2>/dev/null | grep -q libasan; then
    echo "skipped: a plain program cannot load a sanitized library"
    exit 77
fi
build=$1
unshare -n true 2>/dev/null || { echo "needs the right to make a network namespace"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -std=gnu17 -Iinclude tests/accl/vendor_program.c -o "$folder/program" -L"$build" -l:libaccl.so -Wl,-rpath,"$build"
unshare -n "$folder/program" >"$folder/down" && { echo "worked with loopback down"; exit 1; }
grep -q 'no interface found, looked at: .*lo (down)' "$folder/down" || { cat "$folder/down"; exit 1; }
command -v ip >/dev/null || exit 0
unshare -n sh -c "ip link set lo up && '$folder/program'" | grep -q 'engine host version 22705 count 1 data 1'
