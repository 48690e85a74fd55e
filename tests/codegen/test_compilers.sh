#!/bin/bash
# The golden kernels compile without a warning with every C compiler that is installed, for the baseline and the widest instruction set.
set -u
cd "$(dirname "$0")/../.."
flags="-std=gnu17 -O3 -c -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno -fno-trapping-math"
avx512="-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512"
golden=$PWD/tests/codegen/golden
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
case $(uname -m) in x86_64) sets=("" "$avx512") ;; *) sets=("") ;; esac
declare -A seen
count=0
for compiler in gcc gcc-{12..16} clang clang-{14..22} cc; do
    path=$(command -v "$compiler") || continue
    real=$(readlink -f "$path")
    [ -z "${seen[$real]:-}" ] || continue
    seen[$real]=1
    for set in "${sets[@]}"; do
        # shellcheck disable=SC2086
        (cd "$out" && "$compiler" $flags $set "$golden"/*.c) || { echo "$compiler $set"; exit 1; }
        count=$((count + 1))
    done
    echo "$("$compiler" --version | head -1): no warnings"
done
[ $count -gt 0 ] || { echo "no C compiler"; exit 1; }
