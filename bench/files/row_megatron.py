#!/usr/bin/env python3
"""Row: Megatron's .bin and .idx. 50 random sets, every element code, with and without modes, written by a script that follows the format's facts, copied
by us byte for byte; and a set that `ljperf tokenize` wrote, read by the same script, holds the ids of each document."""
import json
import pathlib
import random
import struct
import subprocess
import sys

import numpy as np
from text_lib import HERE, folder, hf_tokenizer
from weights_lib import build_tool

DTYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.float64, 7: np.float32, 8: np.uint16}


def write_set(prefix, code, sequences, marks, modes):
    dtype, offsets, at = DTYPES[code], [], 0
    for s in sequences:
        offsets.append(at)
        at += len(s) * dtype().itemsize
    with open(f"{prefix}.bin", "wb") as f:
        for s in sequences:
            f.write(np.asarray(s, dtype=dtype).tobytes())
    with open(f"{prefix}.idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(sequences), len(marks)))
        f.write(np.asarray([len(s) for s in sequences], dtype=np.int32).tobytes() + np.asarray(offsets, dtype=np.int64).tobytes())
        f.write(np.asarray(marks, dtype=np.int64).tobytes() + (np.asarray(modes, dtype=np.int8).tobytes() if modes is not None else b""))


def read_set(prefix):
    raw = pathlib.Path(f"{prefix}.idx").read_bytes()
    assert raw[:9] == b"MMIDIDX\0\0"
    version, code, count, mark_count = struct.unpack_from("<QBQQ", raw, 9)
    assert version == 1
    lengths = np.frombuffer(raw, np.int32, count, 34)
    offsets = np.frombuffer(raw, np.int64, count, 34 + 4 * count)
    marks = np.frombuffer(raw, np.int64, mark_count, 34 + 12 * count)
    data = pathlib.Path(f"{prefix}.bin").read_bytes()
    return [np.frombuffer(data, DTYPES[code], n, o).tolist() for n, o in zip(lengths, offsets)], marks.tolist()


def random_set(rng, code):
    most = {1: 255, 2: 127, 3: 32767, 7: 1 << 24, 8: 65535}.get(code, 1 << 30)
    sequences, marks = [], [0]
    for _ in range(rng.randint(0, 12)):
        sequences += [[rng.randint(0, most) for _ in range(rng.choice([0, 1, 7, 300]))] for _ in range(rng.randint(1, 4))]
        marks.append(len(sequences))
    return sequences, marks


def main(build):
    sys.path.insert(0, str(HERE.parent))
    from lib import emit
    tool, rng, out, equal = build_tool(build, "copy_megatron"), random.Random(3), folder(build), 0
    for n in range(50):
        code = n % 8 + 1
        sequences, marks = random_set(rng, code)
        write_set(out / "in", code, sequences, marks, [rng.randint(0, 3) for _ in sequences] if n % 2 and sequences else None)
        done = subprocess.run([tool, str(out / "in"), str(out / "out")]).returncode == 0
        equal += done and all((out / f"in.{e}").read_bytes() == (out / f"out.{e}").read_bytes() for e in ("bin", "idx"))
    tokenizer, file = hf_tokenizer(build, "gpt2")
    texts = ["".join(rng.choice("the quick brown fox é你\n ") for _ in range(rng.randint(1, 400))) for _ in range(2000)]
    (out / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    subprocess.run([f"{build}/ljperf", "tokenize", "--tokenizer", str(file), "--out", str(out / "texts"), "--no-end-token", "--quiet", str(out / "texts.jsonl")],
                   check=True, stdout=sys.stderr)
    sequences, marks = read_set(out / "texts")
    written = sequences == [e.ids for e in tokenizer.encode_batch(texts)] and marks == list(range(len(texts) + 1))
    return emit(build, "files", "megatron", "the format's facts in Python", equal, None, None, "50 of 50 equal", equal == 50 and written, tokenized_set_equal=written)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
