#!/usr/bin/env python3
"""Row: encoding 100 MB of documents by 2 threads, `ljperf tokenize --out` (reading JSON lines and writing .bin and .idx included) against the batch
encoding of HF tokenizers on the same documents in memory; interleaved, every kind. Linear in the input: 4 times the text costs at most 5 times the time.
TEXT_MB sets the size."""
import importlib.metadata
import json
import os
import random
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"] = "2", "true"
from text_lib import HERE, code_text, folder, hf_tokenizer  # noqa: E402


def documents(megabytes):
    rng, source, out, size = random.Random(1), code_text(8_000_000), [], 0
    while size < megabytes * 1_000_000:
        at = rng.randrange(len(source))
        out.append(source[at:at + rng.randint(500, 8000)])
        size += len(out[-1].encode())
    return out, size


def write(path, docs):
    with open(path, "w", encoding="utf-8") as f:
        for text in docs:
            f.write(json.dumps({"text": text}) + "\n")


def ours(build, tokenizer, path):
    begin = time.monotonic()
    subprocess.run([os.path.join(build, "ljperf"), "tokenize", "--tokenizer", str(tokenizer), "--out", str(folder(build) / "speed"), "--threads", "2", "--quiet",
                    "--no-end-token", str(path)], check=True, capture_output=True)
    return time.monotonic() - begin


def main(build):
    sys.path.insert(0, str(HERE.parent))
    from lib import emit, geometric_mean, paired_ratio
    megabytes = int(os.environ.get("TEXT_MB", "100"))
    docs, size = documents(megabytes)
    path, quarter = folder(build) / "speed.jsonl", folder(build) / "quarter.jsonl"
    write(path, docs)
    write(quarter, docs[:len(docs) // 4])
    ratios, rates, linear = {}, {}, {}
    for name in ("gpt2", "llama3", "qwen", "llama2"):
        tokenizer, file = hf_tokenizer(build, name)
        mine, peer, small = [], [], []
        for _ in range(3):
            begin = time.monotonic()
            tokenizer.encode_batch(docs)
            peer.append(time.monotonic() - begin)
            mine.append(ours(build, file, path))
            small.append(ours(build, file, quarter))
        ratios[name] = paired_ratio(peer, mine)
        rates[name] = size / min(mine) / 1e6
        linear[name] = min(mine) / min(small)
    worst = min(r[0] for r in ratios.values())
    passed = worst >= 3 and max(linear.values()) <= 5
    return emit(build, "files", "tokenizer_speed", "HF tokenizers encode_batch, 2 threads", {k: round(v, 1) for k, v in rates.items()},
                geometric_mean([r[0] for r in ratios.values()]), list(min(ratios.values())[1:]), ">= 3x each, linear", passed,
                {"tokenizers": importlib.metadata.version("tokenizers")}, megabytes=megabytes, unit="MB/s", ratios={k: round(v[0], 2) for k, v in ratios.items()},
                four_times_the_text={k: round(v, 2) for k, v in linear.items()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
