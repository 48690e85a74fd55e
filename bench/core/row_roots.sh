#!/usr/bin/env bash
# Fresh roots of Debian 12 and 13 (mmdebstrap): `make demo` and `make test` in a clone of this tree, seconds each. Needs root.
# usage: row_roots.sh BUILD [SUITE...]
set -u
build=$1
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
status=0
[ $# -eq 0 ] && set -- bookworm trixie
for suite in "$@"; do
    root=$(mktemp -d)
    mmdebstrap --quiet --variant=apt --include=ca-certificates,git "$suite" "$root" || { status=1; continue; }
    git clone -q "$here" "$root/root/ljperf"
    for place in proc dev sys; do mount --rbind "/$place" "$root/$place"; done
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    for file in /etc/pip.conf /etc/apt/apt.conf.d/*; do [ -e "$file" ] && cp "$file" "$root$file" 2>/dev/null; done
    inside() {
        chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEMO_OUT=/root/demo-out sh -c "cd /root/ljperf && $1"
    }
    for what in demo test; do
        begin=$(date +%s)
        # fetching through pip is the machine's own configuration; where it has none the demo's step fails and so does the row
        inside "make $what" >"$root/root/$what.log" 2>&1
        code=$?
        seconds=$(($(date +%s) - begin))
        bar=$([ $what = demo ] && echo 600 || echo 720)
        [ $code -eq 0 ] && [ $seconds -le "$bar" ] && passed=True || { passed=False; status=1; tail -n 5 "$root/root/$what.log" >&2; }
        python3 - "$build" <<PY
import sys
sys.path.insert(0, "$here/bench")
from lib import emit
emit("$build", "core", "make $what in a fresh root of $suite", ours=$seconds, bar="passes within $bar s", passed=$passed, exit_code=$code)
PY
    done
    for place in sys dev proc; do umount -R -l "$root/$place"; done
    rm -rf "$root"
done
exit $status
