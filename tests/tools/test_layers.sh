# The order of the folders holds, and the checker can fail: a planted upward include is found.
set -eu
python3 tools/check_layers.py
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r src tools "$copy"
echo '#include "cli/command.h"' >>"$copy/src/base/clock.c"
if python3 "$copy/tools/check_layers.py" >/dev/null; then
    echo "a planted include from base to cli was not found"
    exit 1
fi
