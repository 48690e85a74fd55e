#!/bin/bash
# The golden kernels as CUDA C compile to PTX: with nvcc where there is one, with NVRTC where it is; neither is a reported skip.
set -u
cd "$(dirname "$0")/../.."
done=0
if command -v nvcc >/dev/null; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    for file in tests/codegen/golden/*.cu; do
        nvcc -ptx -arch=sm_80 -fmad=false -Werror all-warnings -o "$out/kernel.ptx" "$file" || { echo "nvcc: $file"; exit 1; }
    done
    echo "nvcc: $(ls tests/codegen/golden/*.cu | wc -l) files to PTX"
    done=1
fi
"${PYTHON:-python3}" tools/nvrtc_ptx.py tests/codegen/golden/*.cu
code=$?
[ $code = 0 ] && exit 0
[ $code = 77 ] && [ $done = 1 ] && exit 0
exit $code
