# `ljperf comm bench` in both modes and `comm tune`: right results, complete JSON, an SVG, usage errors.
set -eu
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LJPERF_CACHE="$folder/cache"
"$build/ljperf" comm bench --collective all --ranks 2 --max-bytes 65536 --effort 0.01 --json "$folder/out.json" --svg "$folder/out.svg" >"$folder/table"
python3 - "$folder/out.json" <<'PY'
import json, sys
rows = json.load(open(sys.argv[1]))
want = {"collective", "bytes", "ranks", "time_us_min", "time_us_mean", "time_us_p99", "algbw", "busbw", "wrong", "algorithm"}
assert len(rows) == 6 * 14, len(rows)
for row in rows:
    assert want <= row.keys(), want - row.keys()
    assert row["wrong"] == 0 and row["ranks"] == 2 and 0 < row["time_us_min"] <= row["time_us_p99"], row
assert {r["collective"] for r in rows} == {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"}
PY
grep -q '<svg' "$folder/out.svg" && grep -q '</svg>' "$folder/out.svg"
"$build/ljperf" comm bench --ranks 3 --threads --max-bytes 4096 --effort 0.01 --buffers shared --in-place --json - | python3 -c 'import json,sys; t=sys.stdin.read(); rows=json.loads(t[t.index("\n["):]); assert all(r["mode"]=="threads" and r["wrong"]==0 for r in rows)'
"$build/ljperf" comm tune --max-bytes 32768 --effort 0.02 >"$folder/tune" 2>"$folder/notes"
head -1 "$folder"/cache/accl-costs-*.txt | grep -qx 'accl-costs 1'
"$build/ljperf" comm bench --ranks 2 --max-bytes 64 --effort 0.01 >/dev/null 2>&1
for bad in "comm" "comm race" "comm bench --collective all_sum" "comm bench --ranks 2 --compare nccl"; do
    # shellcheck disable=SC2086
    if "$build/ljperf" $bad >/dev/null 2>"$folder/error"; then echo "accepted: $bad"; exit 1; fi
    test -s "$folder/error"
done
