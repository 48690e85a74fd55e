#!/usr/bin/env bash
# Sixty mistakes of a new user: each ends with exit code 1 or 2 and one line on standard error that holds the expected words.
# The last line on standard output counts them.
set -u
ljperf="$(realpath "$1")/ljperf"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export LJPERF_CACHE="$folder/cache"
unset LJPERF_THREADS LJPERF_MODEL 2>/dev/null
count=0 wrong=0

# expect CODE WORDS COMMAND...: notes (lines that begin with "note:" or "no --data") and progress are not the error line.
expect() {
    local code=$1 words=$2 out status lines
    shift 2
    count=$((count + 1))
    out=$(timeout 60 "$@" 2>&1 >/dev/null </dev/null)
    status=$?
    lines=$(printf '%s\n' "$out" | grep -c '^ljperf')
    if [ "$status" != "$code" ] || [ "$lines" != 1 ] || ! printf '%s' "$out" | grep -qF -- "$words"; then
        wrong=$((wrong + 1))
        echo "mistake $count: $* -> exit $status (expected $code), $lines error lines, expected '$words' in: $out"
    fi
}

mkdir empty numbers broken
printf '{"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}' >numbers/config.json
printf '{"model_type": "llama", "vocab_size": 64' >broken/config.json
printf 'some words\n' >text.txt
printf 'not json\n' >bad.jsonl
: >empty.txt
printf 'GGUFxxxxxxx' >bad.gguf
head -c 200 /dev/zero >zero.gguf
printf 'x' >model.pt
printf '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 3}' >triple.json
printf '{"bfoat16": {"enabled": true}}' >section.json
printf '{"fp16": {"enabled": true}}' >fp16.json
printf '{"train_micro_batch_size_per_gpu": 2}' >micro.json
printf '{"train_batch_size": 8' >open.json
printf 'step: 3\n' >unknown.yaml
printf 'lr: [1, 2]\n' >list.yaml
printf 'lr: fast\n' >word.yaml
printf 'a: b: c\n' >bad.yaml
printf '{"steps": 3, "loss": 1}\n' >metrics.txt
smol=deepspeed/smollm2-135m

expect 2 "did you mean 'train'" "$ljperf" trian
expect 2 "no command 'fly'" "$ljperf" fly
expect 2 "no command '--modle'" "$ljperf" --modle x
expect 2 "did you mean 'benchmark'" "$ljperf" --action benchmrk --model_name $smol
expect 2 "which model" "$ljperf" benchmark
expect 2 "which model" "$ljperf" train
expect 2 "which model" "$ljperf" generate --prompt hello
expect 2 "give --model" "$ljperf" eval --data text.txt
expect 2 "give --model" "$ljperf" eval --model numbers
expect 2 "which run" "$ljperf" plot
expect 2 "which shell" "$ljperf" completion
expect 2 "which shell" "$ljperf" completion tcsh
expect 2 "did you mean --batch" "$ljperf" benchmark --model $smol --bacth 4
expect 2 "did you mean --steps" "$ljperf" train --model $smol --stesp 4
expect 2 "unknown option '--gpu'" "$ljperf" benchmark --model $smol --gpu
expect 2 "unknown option '-m'" "$ljperf" benchmark -m $smol
expect 2 "needs a value" "$ljperf" benchmark --model
expect 2 "not a whole number" "$ljperf" benchmark --model $smol --batch four
expect 2 "not a whole number" "$ljperf" benchmark --model $smol --batch 1.5
expect 2 "outside 1" "$ljperf" benchmark --model $smol --batch 0
expect 2 "outside 1" "$ljperf" benchmark --model $smol --seq -3
expect 2 "not a number" "$ljperf" train --model $smol --lr fast
expect 2 "none of bf16|fp32" "$ljperf" benchmark --model $smol --dtype fp8
expect 2 "none of constant|cosine" "$ljperf" train --model $smol --schedule step
expect 2 "neither true nor false" "$ljperf" train --model $smol --shuffle=maybe
expect 2 "unexpected argument" "$ljperf" benchmark $(seq -f word%g 1 70)
expect 2 "outside 0 .. 1024" "$ljperf" benchmark --model $smol --threads 99999
expect 2 "--memory" "$ljperf" benchmark --model $smol --memory lots
expect 2 "did you mean LJPERF_THREADS" env LJPERF_TREADS=2 "$ljperf" models
expect 2 "LJPERF_" env LJPERF_XYZZY=2 "$ljperf" models
expect 2 "not a whole number" env LJPERF_THREADS=two "$ljperf" models
expect 1 "did you mean deepspeed/llama3-8b" "$ljperf" benchmark --model deepspeed/llama3-8
expect 1 "no model 'nosuch'" "$ljperf" benchmark --model nosuch
expect 1 "no model '/no/where'" "$ljperf" benchmark --model /no/where
expect 1 "empty" "$ljperf" benchmark --model empty
expect 1 "broken/config.json" "$ljperf" benchmark --model broken
expect 1 "bad.gguf" "$ljperf" generate --model bad.gguf --prompt x
expect 1 "zero.gguf" "$ljperf" generate --model zero.gguf --prompt x
expect 1 "model.pt" "$ljperf" generate --model model.pt --prompt x
expect 1 "carries no tokenizer" "$ljperf" generate --model $smol --prompt x
expect 1 "carries no tokenizer" "$ljperf" train --model $smol --data text.txt --out run
expect 1 "tokenizer" "$ljperf" generate --model numbers --prompt x
expect 1 "nosuch" "$ljperf" train --model $smol --data text.txt --out run --tokenizer nosuch
expect 1 "where to" "$ljperf" train --model numbers --data text.txt
expect 1 "nothing to do" "$ljperf" train --model numbers --data text.txt --out run --steps 0
expect 1 "--warmup 9 is more than --steps 3" "$ljperf" train --model numbers --data text.txt --out run --steps 3 --warmup 9
expect 1 "--layers 99: the model has 30" "$ljperf" benchmark --model $smol --layers 99
expect 1 "at least one step" "$ljperf" benchmark --model $smol --steps 0
expect 1 "may be used" "$ljperf" benchmark --model deepspeed/llama3-8b --memory 1GiB
expect 1 "8 != micro batch 3" "$ljperf" benchmark --model $smol --deepspeed triple.json
expect 1 "did you mean 'bf16'" "$ljperf" benchmark --model $smol --deepspeed section.json
expect 1 "fp16 training is not built" "$ljperf" benchmark --model $smol --deepspeed fp16.json
expect 1 "--batch 4 but train_micro_batch_size_per_gpu 2" "$ljperf" benchmark --model $smol --deepspeed micro.json --batch 4
expect 1 "open.json" "$ljperf" benchmark --model $smol --deepspeed open.json
expect 1 "nosuch.json" "$ljperf" benchmark --model $smol --deepspeed nosuch.json
expect 2 "unknown.yaml: line 1" "$ljperf" train --model $smol --config unknown.yaml
expect 2 "a list or an alias" "$ljperf" train --model $smol --config list.yaml
expect 2 "not a number" "$ljperf" train --model $smol --config word.yaml
expect 2 "bad.yaml: line" "$ljperf" train --model $smol --config bad.yaml
expect 1 "metrics.txt: line 1" "$ljperf" plot metrics.txt
expect 1 "empty/metrics.jsonl" "$ljperf" plot empty
expect 1 "nosuch/run" "$ljperf" plot nosuch/run --svg out.svg
echo "$((count - wrong)) of $count mistakes are answered well"
[ "$wrong" = 0 ]
