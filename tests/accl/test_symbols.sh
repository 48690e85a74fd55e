# libaccl.so exports every function of NCCL 2.27.5 with its twin, under both file names, and nothing that is not NCCL's or ours; a program compiled against
# the vendor's own header links with it, sees the same sizes, offsets and values, and runs. The header comes from the PyPI wheel where pip can reach one
# (ACCL_VENDOR_HEADER names a copy); without it the comparison is skipped and said so.
set -eu
build=$1
test -L "$build/libnccl.so.2"
exported=$(nm -D --defined-only "$build/libaccl.so" | awk '{print $3}' | sed 's/@.*//')
strays=$(echo "$exported" | grep -v -E '^(p?nccl|accl)[A-Z]' || true)
[ -z "$strays" ] || { echo "exported and not NCCL's: $strays"; exit 1; }
for name in $(grep -v '^#' tests/accl/symbols.txt | awk '{print $1}'); do
    for twin in "$name" "p$name"; do
        echo "$exported" | grep -qx "$twin" || { echo "$twin is missing"; exit 1; }
    done
done
[ "$(grep -v '^#' tests/accl/symbols.txt | awk '$2 <= 22705' | wc -l)" = "$(echo "$exported" | grep -c '^nccl')" ] || { echo "symbols.txt and the library differ"; exit 1; }
for name in $(grep -v '^#' tests/accl/torch_symbols.txt); do
    echo "$exported" | grep -qx "$name" || { echo "$name, which PyTorch calls, is missing"; exit 1; }
done
header=${ACCL_VENDOR_HEADER:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -z "$header" ] && [ "${ACCL_FETCH_HEADER:-0}" = 1 ]; then
    python3 -m pip download -q --no-deps -d "$folder" nvidia-nccl-cu12==2.27.5 &&
        (cd "$folder" && python3 -m zipfile -e ./*.whl wheel) && header=$folder/wheel/nvidia/nccl/include/nccl.h
fi
[ -n "$header" ] || { echo "symbols agree; no vendor header (ACCL_VENDOR_HEADER, or ACCL_FETCH_HEADER=1 to download it)"; exit 0; }
mkdir -p "$folder/cuda"
# what the vendor's header wants of CUDA: the stream's type
printf '#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t;\n#define CUDART_VERSION 0\n' >"$folder/cuda/cuda_runtime.h"
: >"$folder/cuda/cuda_fp16.h"
cp "$header" "$folder/cuda/vendor_nccl.h"
cc -std=gnu17 -I"$folder/cuda" -DHEADER='"vendor_nccl.h"' tests/accl/abi_print.c -o "$folder/theirs" -L"$build" -l:libnccl.so.2 -Wl,-rpath,"$build"
cc -std=gnu17 -Iinclude -DHEADER='"accl/nccl.h"' tests/accl/abi_print.c -o "$folder/ours" -L"$build" -l:libaccl.so -Wl,-rpath,"$build"
"$folder/theirs" >"$folder/theirs.txt"
"$folder/ours" >"$folder/ours.txt"
diff "$folder/theirs.txt" "$folder/ours.txt"
echo "the vendor's header and ours agree in $(wc -l <"$folder/ours.txt") sizes, offsets and values; the program ran"
