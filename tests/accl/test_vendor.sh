# Forwarding: with ACCL_ENGINE=vendor the calls reach the vendor's library, whose own calls of its exports reach itself; our own library, a
# relative path and a missing one are refused; ACCL_ENGINE=host never looks.
set -eu
if ldd "$1/libaccl.so" 2>/dev/null | grep -q libasan; then
    echo "skipped: a plain program cannot load a sanitized library"
    exit 77
fi
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -shared -fPIC -o "$folder/libfake.so" tests/accl/fake_vendor.c
cc -std=gnu17 -Iinclude tests/accl/vendor_program.c -o "$folder/program" -L"$build" -l:libaccl.so -Wl,-rpath,"$build"
export FAKE_VENDOR_LOG="$folder/log"
expect() { # pattern, then the environment
    pattern=$1
    shift
    env "$@" "$folder/program" >"$folder/out" || true
    grep -q "$pattern" "$folder/out" || { echo "$*: expected '$pattern', got:"; cat "$folder/out"; exit 1; }
}
expect 'engine vendor version 22705 count 1 data 1002 finalize 5' ACCL_ENGINE=vendor ACCL_VENDOR_LIBRARY="$folder/libfake.so"
grep -qx 'GetUniqueId 99999' "$folder/log" || { echo "the vendor's call of its own export went astray"; cat "$folder/log"; exit 1; }
for call in CommInitRank GroupStart AllReduce GroupEnd CommDestroy; do grep -q "^$call " "$folder/log" || { echo "$call was not forwarded"; exit 1; }; done
expect 'engine vendor' ACCL_VENDOR_LIBRARY="$folder/libfake.so"
expect 'engine host version 22705 count 1 data 1 finalize 0' ACCL_ENGINE=host ACCL_VENDOR_LIBRARY="$folder/libfake.so"
expect 'is this library' ACCL_ENGINE=vendor ACCL_VENDOR_LIBRARY="$build/libnccl.so.2"
cp -l "$(readlink -f "$build/libaccl.so")" "$build/hard-link-of-accl.so" 2>/dev/null && {
    expect 'is this library' ACCL_ENGINE=vendor ACCL_VENDOR_LIBRARY="$build/hard-link-of-accl.so"
    rm -f "$build/hard-link-of-accl.so"
}
expect 'absolute path' ACCL_ENGINE=vendor ACCL_VENDOR_LIBRARY=libfake.so
expect 'vendor library' ACCL_ENGINE=vendor ACCL_VENDOR_LIBRARY=/nowhere/libnccl.so
expect 'expected auto, host or vendor' ACCL_ENGINE=gpu
