# tokenize, detokenize and data show as scripts use them.
set -eu
build=$1
ljperf="$build/ljperf"
fixtures=tests/fixtures/text
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; exit 1; }

# The whole file one document, ids separated by spaces; the ids are the library's own.
"$ljperf" tokenize --tokenizer $fixtures/gpt2.json --ids $fixtures/sample.txt >"$work/ids"
cmp -s "$work/ids" $fixtures/gpt2.ids || fail "ids of a file"
"$ljperf" tokenize --tokenizer $fixtures/gpt2.json --ids --no-special - <$fixtures/sample.txt >"$work/plain"
"$ljperf" detokenize --tokenizer $fixtures/gpt2.json "$work/plain" | cmp -s - $fixtures/sample.txt || fail "round trip"
"$ljperf" detokenize --tokenizer $fixtures/gpt2.json <"$work/plain" | cmp -s - $fixtures/sample.txt || fail "round trip from standard input"

# --no-special: special strings are plain text, and vanish from the way back only as tokens.
printf 'a<|im_end|>b' >"$work/special"
[ "$("$ljperf" tokenize --tokenizer $fixtures/gpt2.json --ids "$work/special" | wc -w)" = 3 ] || fail "special strings are tokens"
[ "$("$ljperf" tokenize --tokenizer $fixtures/gpt2.json --ids --no-special "$work/special" | wc -w)" -gt 5 ] || fail "special strings are text"
"$ljperf" tokenize --tokenizer $fixtures/gpt2.json --ids "$work/special" >"$work/ids"
[ "$("$ljperf" detokenize --tokenizer $fixtures/gpt2.json --no-special "$work/ids")" = ab ] || fail "specials left out"

# An incomplete character, wrong ids, missing files: bytes or a clean error, never a crash.
printf '\346\255' | "$ljperf" tokenize --tokenizer $fixtures/gpt2.json --ids - >"$work/ids"
printf '\346\255' >"$work/broken"
"$ljperf" detokenize --tokenizer $fixtures/gpt2.json "$work/ids" | cmp -s - "$work/broken" || fail "an incomplete character comes back"
code=0; echo 999999 | "$ljperf" detokenize --tokenizer $fixtures/gpt2.json 2>"$work/error" || code=$?
[ $code = 1 ] && grep -q 999999 "$work/error" || fail "an unknown id"
code=0; echo "1 x" | "$ljperf" detokenize --tokenizer $fixtures/gpt2.json 2>"$work/error" || code=$?
[ $code = 1 ] && grep -q "'x' is no token id" "$work/error" || fail "a word among the ids"
code=0; "$ljperf" tokenize --ids x 2>"$work/error" || code=$?
[ $code = 1 ] && grep -q -- --model "$work/error" || fail "no tokenizer"
code=0; "$ljperf" tokenize --tokenizer $fixtures/gpt2.json x 2>"$work/error" || code=$?
[ $code = 2 ] || fail "neither --ids nor --out"

# A set of several files, looked at again.
printf '{"text": "the words"}\n{"prompt": "q", "completion": " a"}\n{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "yes"}]}\n' >"$work/a.jsonl"
gzip -c "$work/a.jsonl" >"$work/b.jsonl.gz"
"$ljperf" tokenize --tokenizer $fixtures/gpt2.json --chat-format chatml --out "$work/set" --json "$work/report" "$work/a.jsonl" "$work/b.jsonl.gz" >/dev/null
grep -q '"documents": 6' "$work/report" || fail "six documents"
[ ! -e "$work/set.parts" ] || fail "the parts are gone"
"$ljperf" data show --tokenizer $fixtures/gpt2.json "$work/set" >"$work/shown"
grep -q "6 documents" "$work/shown" && grep -q "the words" "$work/shown" || fail "the set is shown"
"$ljperf" data show --tokenizer $fixtures/gpt2.json --chat-format chatml --samples 9 "$work/a.jsonl" >"$work/shown"
grep -q '\[\[yes<|im_end|>\]\]' "$work/shown" || fail "the loss marks are shown"
code=0; "$ljperf" tokenize --tokenizer $fixtures/gpt2.json --out "$work/none" "$work/a.jsonl" 2>"$work/error" || code=$?
[ $code = 1 ] && grep -q -- --chat-format "$work/error" && grep -q "line 3" "$work/error" || fail "a chat without a template"
[ ! -e "$work/none.idx" ] || fail "nothing is written on failure"
