#!/usr/bin/env python3
"""Row: safetensors, 200 random files: written by the safetensors package, read and written again by us, read by the package: bit-equal, metadata kept."""
import importlib.metadata
import random
import subprocess
import sys
import tempfile

import weights_lib
from lib import emit

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]


def random_tensor(rng, generator):
    kind, rank = rng.choice(TYPES), rng.randrange(0, 5)
    shape = [rng.choice([0, 1, 2, 3, 7, 16]) for _ in range(rank)]
    raw = torch.randint(0, 256, (int(np.prod(shape, dtype=int)) * kind.itemsize,), dtype=torch.uint8, generator=generator)
    if kind == torch.bool:
        raw &= 1
    return raw.view(kind).reshape(shape) if raw.numel() else torch.zeros(shape, dtype=kind)


def main():
    build, rng, generator = sys.argv[1], random.Random(3), torch.Generator().manual_seed(3)
    tool, wrong, tensors_seen = weights_lib.build_tool(build, "copy_safetensors"), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for n in range(200):
            tensors = {f"t{rng.randrange(10**6)}.{i}.weight" + rng.choice(["", "ü", " \"x\""]): random_tensor(rng, generator) for i in range(rng.randrange(0, 20))}
            metadata = {rng.choice("abcdef") * rng.randrange(1, 9): rng.choice(["pt", "", "ß\n\"\\", "x" * 300]) for _ in range(rng.randrange(0, 5))} or None
            save_file(tensors, f"{folder}/in", metadata=metadata)
            subprocess.run([tool, f"{folder}/in", f"{folder}/out"], check=True)
            with safe_open(f"{folder}/out", "pt") as back:
                wrong += (back.metadata() or None) != metadata or sorted(back.keys()) != sorted(tensors)
                for name, value in tensors.items():
                    other = back.get_tensor(name)
                    same = other.dtype == value.dtype and other.shape == value.shape
                    same = same and torch.equal(other.contiguous().reshape(-1).view(torch.uint8), value.contiguous().reshape(-1).view(torch.uint8))
                    wrong += not same
                    tensors_seen += 1
    return emit(build, "files", "safetensors", peer="safetensors package", ours=wrong, bar="0 differences", passed=wrong == 0 and tensors_seen > 500,
                versions={"safetensors": importlib.metadata.version("safetensors"), "torch": torch.__version__}, files=200, tensors=tensors_seen)


sys.exit(main())
