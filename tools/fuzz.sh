#!/bin/sh
# tools/fuzz.sh SECONDS [TARGET...]: builds the libFuzzer targets of tests/fuzz (clang; address and undefined behaviour sanitizers) and runs
# each for SECONDS, from its committed corpus. FUZZ_SEED=N makes a run repeatable (that seed, 20,000 inputs at most): what CI does. New inputs stay in build-fuzz/corpus; a finding is printed with its file. Exit 1 on one.
set -u
cd "$(dirname "$0")/.."
seconds=${1:?usage: tools/fuzz.sh SECONDS [TARGET...]}
shift
build=build-fuzz
command -v clang >/dev/null || { echo "fuzz: clang is not installed (tools/setup.sh full)" >&2; exit 1; }
generator=$(command -v ninja >/dev/null && echo "-G Ninja")
# shellcheck disable=SC2086
cmake -S . -B $build $generator -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DLJ_SANITIZE=ON -DLJ_FUZZ=ON -DLJ_TESTS=OFF >/dev/null || exit 1
cmake --build $build --target fuzz_all -j "${JOBS:-2}" || exit 1
repeatable=${FUZZ_SEED:+-seed=$FUZZ_SEED -runs=20000}
status=0
for target in ${*:-$(cd tests/fuzz && ls fuzz_*.c | sed 's/\.c$//')}; do
    own="tests/fuzz/corpus/${target#fuzz_}"
    mkdir -p "$build/corpus/$target" "$build/findings"
    # shellcheck disable=SC2086
    if "$build/fuzz/$target" -max_total_time="$seconds" $repeatable -timeout=20 -rss_limit_mb=3000 -max_len=65536 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" $( [ -d "$own" ] && echo "$own") 2>"$build/findings/$target.log"; then
        echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/findings/$target.log") runs in $seconds s, no finding"
    else
        status=1
        echo "$target: FINDING, see $build/findings/"
        tail -40 "$build/findings/$target.log"
    fi
done
exit $status
