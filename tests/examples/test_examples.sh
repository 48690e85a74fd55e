# Every numbered example builds as its comment says, with each compiler that is here, and exits 0.
set -eu
build=$1
if ldd "$build/libljperf.so" 2>/dev/null | grep -q libasan; then
    echo "skipped: a plain program cannot load a sanitized library"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for source in docs/examples/*.c; do
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        $compiler -std=c17 -Wall -Wextra -Iinclude "$source" -L"$build" -lljperf -lm -o "$work/example"
        echo "$source ($compiler)"
        LD_LIBRARY_PATH="$build" timeout 50 "$work/example"
    done
done
