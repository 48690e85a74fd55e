#!/usr/bin/env bash
# ljperf convert and inspect from the command line: a GGUF to a folder, the folder to shards and back, exit codes, and complete JSON.
set -euo pipefail
ljperf="$1/ljperf"
fixtures=tests/fixtures/formats
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
expect() { # code, words in the message, command...
    local code=$1 words=$2 got=0
    shift 2
    "$@" >"$work/out" 2>"$work/err" || got=$?
    [ "$got" = "$code" ] || { echo "exit $got, expected $code: $*"; cat "$work/err"; exit 1; }
    grep -q -- "$words" "$work/err" "$work/out" || { echo "no '$words' from: $*"; cat "$work/err"; exit 1; }
}

# The GGUF has no tokenizer: a warning, and an error under --strict.
expect 0 "the file has no tokenizer" "$ljperf" convert "$fixtures/tiny.gguf" "$work/a"
expect 1 "refused under --strict" "$ljperf" convert --strict "$fixtures/tiny.gguf" "$work/strict"
expect 0 "" "$ljperf" convert --shard-size 20K "$work/a" "$work/b"
expect 0 "" "$ljperf" convert --save-dtype fp32 "$work/b/model.safetensors.index.json" "$work/c"
expect 0 "" "$ljperf" convert --save-dtype fp16 "$work/c" "$work/d"
[ -f "$work/b/model-00003-of-00003.safetensors" ] || { echo "no shards"; exit 1; }
cmp "$work/a/model.safetensors" "$work/d/model.safetensors" # fp16 -> shards -> fp32 -> fp16: the same bytes

# What is beside the weights is carried over.
echo '{"probe": 1}' >"$work/a/tokenizer.json"
expect 1 "already there; choose another folder, or --overwrite" "$ljperf" convert "$work/a" "$work/b"
expect 0 "" "$ljperf" convert --overwrite "$work/a" "$work/b"
cmp "$work/a/tokenizer.json" "$work/b/tokenizer.json"
[ ! -e "$work/b/model.safetensors.index.json" ] && [ ! -e "$work/b/model-00001-of-00003.safetensors" ] || { echo "leftovers"; exit 1; }

expect 2 "convert needs a model and a target folder" "$ljperf" convert "$work/a"
expect 2 "did you mean --shard-size" "$ljperf" convert --shard-sizes 1 "$work/a" "$work/e"
expect 1 "no such file or folder" "$ljperf" convert "$work/nothing" "$work/e"

expect 0 "model.layers.1.mlp.down_proj.weight" "$ljperf" inspect "$fixtures/tiny.gguf"
expect 0 "llama.block_count" "$ljperf" inspect "$fixtures/tiny.gguf"
"$ljperf" inspect --json - "$work/b" | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["schema"] == "ljperf.inspect/1" and r["format"] == "safetensors" and len(r["tensors"]) == 21, r
assert r["config"]["hidden_size"] == 32 and r["missing"] == 0 and r["unused"] == 0 and r["metadata"] == {"format": "pt"}, r
'
# A model that cannot be built is still shown; a damaged file is an error.
sed 's/"model_type": *"llama"/"model_type": "mamba"/' "$work/b/config.json" >"$work/x" && mv "$work/x" "$work/b/config.json"
expect 0 "cannot be built here" "$ljperf" inspect "$work/b"
expect 1 "model_type 'mamba'" "$ljperf" convert "$work/b" "$work/f"
head -c 3000 "$fixtures/tiny.gguf" >"$work/cut.gguf"
expect 1 "cut short or damaged" "$ljperf" inspect "$work/cut.gguf"
expect 2 "inspect needs one file" "$ljperf" inspect
echo "convert and inspect hold"
