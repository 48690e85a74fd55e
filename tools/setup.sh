#!/bin/sh
# Installs what building and testing need, by package name (Debian 12 and 13, Ubuntu 24.04). As root, or through sudo.
set -eu
run=""
[ "$(id -u)" = 0 ] || run=sudo
packages="gcc libc6-dev make cmake ninja-build pkg-config git libdnnl-dev libjansson-dev libpcre2-dev libutf8proc-dev
 libxxhash-dev libhwloc-dev libcmocka-dev zlib1g-dev libzstd-dev libyaml-dev python3"
[ "${1:-}" = full ] && packages="$packages clang clang-format clang-tidy cppcheck"
# the compiler-rt of the clang that this distribution has: sanitizers and libFuzzer
if [ "${1:-}" = full ]; then
    rt=$(apt-cache search --names-only "^libclang-rt-[0-9]*-dev$" 2>/dev/null | cut -d" " -f1)
    version=$(apt-cache depends clang 2>/dev/null | sed -n "s/.*Depends: clang-\([0-9]*\)$/\1/p" | head -n 1)
    case "$rt" in *libclang-rt-"$version"-dev*) packages="$packages libclang-rt-$version-dev" ;; esac
fi
missing=""
for p in $packages; do
    [ "$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null)" = "install ok installed" ] || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
echo "installing:$missing" >&2
$run apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $run apt-get install -y -qq --no-install-recommends $missing >/dev/null
