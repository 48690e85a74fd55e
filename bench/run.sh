#!/bin/sh
# bench/run.sh [GROUP]: runs every row_* of bench/GROUP (all groups without one) with the build folder as argument; a JSON line a row.
set -u
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
build=${BUILD:-build}
status=0
for folder in bench/${1:-*}/; do
    [ -d "$folder" ] || { echo "no group '${1:-}' in bench/" >&2; exit 2; }
    for row in "$folder"row_*; do
        [ -x "$row" ] || continue
        "$row" "$PWD/$build" || status=1
    done
done
exit $status
