#!/usr/bin/env python3
"""Row: every GGUF type, 1,000 random blocks with finite scales, by every instruction set this CPU has: bit-equal to the dequantiser of PyPI's gguf,
and beside it the difference to llama.cpp's own (which may fuse), in units in the last place of the largest term."""
import ctypes
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile

import weights_lib
from lib import emit

sys.path.insert(0, str(weights_lib.ROOT / "tests" / "formats"))
import gguf
import numpy as np
import make_fixtures

BLOCKS_PER_ROW, ROWS = 4 * 256, 250  # 1,000 blocks of 256, 8,000 of 32


def llama_cpp(path):
    """{type: elements decoded by ggml} or None where llama-cpp-python is not installed."""
    spec = importlib.util.find_spec("llama_cpp")
    library = spec and next(pathlib.Path(spec.origin).parent.glob("lib/libggml-base.so*"), None)
    if not library:
        return None
    ggml, decoded = ctypes.CDLL(str(library)), {}
    for t in gguf.GGUFReader(path).tensors:
        name = t.name
        if name in ("f32", "f16", "bf16"):
            continue
        function = getattr(ggml, "dequantize_row_" + name.replace("_k", "_K"))
        out, data = np.empty(int(t.n_elements), dtype=np.float32), np.ascontiguousarray(t.data)
        function(data.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(out.size))
        decoded[name] = out
    return decoded


def main():
    build = sys.argv[1]
    tool, worst_bits, worst_ulp, bf16_wrong = weights_lib.build_tool(build, "decode_gguf"), 0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        path, out = f"{folder}/types.gguf", f"{folder}/out"
        expected = make_fixtures.make_types(path, 5, ROWS, BLOCKS_PER_ROW)
        for isa in ("generic", "avx2", "avx512"):
            subprocess.run([tool, path, out, "f32"], check=True, env={**os.environ, "LJPERF_ISA": isa})
            ours = np.fromfile(out, dtype=np.float32)
            worst_bits += int((ours.view(np.uint32) != expected.view(np.uint32)).sum())
            subprocess.run([tool, path, out, "bf16"], check=True, env={**os.environ, "LJPERF_ISA": isa})
            bits = expected.view(np.uint32).astype(np.uint64)
            rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
            bf16_wrong += int((np.fromfile(out, dtype=np.uint16) != rounded).sum())
        theirs, at = llama_cpp(path), 0
        for t in gguf.GGUFReader(path).tensors:
            mine = ours[at:at + int(t.n_elements)]
            at += int(t.n_elements)
            if theirs and t.name in theirs:
                block = 32 if t.name[-1] in "01" and "_k" not in t.name else 256
                scale = np.abs(mine).reshape(-1, block).max(axis=1).repeat(block)  # of the block: sums cancel
                difference = np.abs(mine.astype(np.float64) - theirs[t.name])
                worst_ulp = max(worst_ulp, float((difference / np.spacing(np.maximum(scale, np.float32(1e-38)))).max()))
    passed = worst_bits == 0 and bf16_wrong == 0 and worst_ulp <= 1
    return emit(build, "files", "gguf_types", peer="gguf numpy dequantiser", ours=worst_bits, bar="0 different bits", passed=passed,
                versions={"gguf": importlib.metadata.version("gguf"), "llama_cpp_python": importlib.metadata.version("llama_cpp_python") if theirs else None},
                elements=int(expected.size), types=make_fixtures.TYPES, bf16_different=bf16_wrong, llama_cpp_max_ulp=worst_ulp if theirs else None)


sys.exit(main())
