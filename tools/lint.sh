#!/bin/sh
# clang-tidy and cppcheck over the product. Prints findings; exit 1 when there are any.
set -u
cd "$(dirname "$0")/.."
status=0
for f in ${*:-$(git ls-files 'src/*.c' | grep -vE '_(avx2|avx512|avx512bf16|avx512vnni|amx)\.c$')}; do
    clang-tidy --quiet -p build "$f" -- -std=gnu17 -Isrc -Iinclude -DLJ_VERSION='"lint"' -DLJ_DATA_DIR='""' -DLJ_SOURCE_DATA_DIR='""' 2>/dev/null | grep -E 'warning:|error:' && status=1
done
cppcheck --quiet --std=c17 --enable=warning,portability --inline-suppr --error-exitcode=1 -Isrc -Iinclude src || status=1
exit $status
