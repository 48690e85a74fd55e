#!/usr/bin/env python3
"""Makes the seed corpus of the weight and config parsers: tests/fuzz/corpus/{gguf,safetensors,hf_config,model_folder}, small valid files,
each with something the others lack. tests/formats/test_corpus.c opens every one and refuses every prefix of it. Needs numpy, gguf, safetensors.
"""
import json
import pathlib
import shutil
import struct

import gguf
import numpy as np
from safetensors.numpy import save

OUT = pathlib.Path(__file__).resolve().parent / "corpus"
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]


def folder(name):
    shutil.rmtree(OUT / name, ignore_errors=True)
    (OUT / name).mkdir(parents=True)
    return OUT / name


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_types(out):
    rng = np.random.default_rng(1)
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        writer = gguf.GGUFWriter(out / f"type_{name.lower()}.gguf", "llama")
        data = rng.integers(0, 120, (2, size * (1 if elements > 1 else 8)), dtype=np.uint8)
        if name in ("F32", "F16"):
            data = data.view(np.float32 if name == "F32" else np.float16)
        writer.add_tensor("t", data, raw_dtype=kind)
        finish(writer)


def gguf_values(out):
    writer = gguf.GGUFWriter(out / "values.gguf", "other")
    for method, value in (("uint8", 1), ("int8", -1), ("uint16", 2), ("int16", -2), ("uint32", 3), ("int32", -3), ("uint64", 1 << 40), ("int64", -(1 << 40)),
                          ("float32", 0.5), ("float64", 0.25), ("bool", True), ("string", "héllo"), ("array", ["a", "", "bc"])):
        getattr(writer, "add_" + method)("k." + method, value)
    writer.add_array("k.ints", [1, 2, 3])
    writer.add_array("k.floats", [1.0, 2.0])
    writer.add_array("k.bools", [True, False])
    finish(writer)
    finish(gguf.GGUFWriter(out / "empty.gguf", "llama"))


def llama3_divisors(head_dim, theta, factor, low, high, original):
    """What llama.cpp's converter stores for the llama3 scaling."""
    wavelengths = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    smooth = np.clip((original / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def gguf_model(path, arch, bias=False, norms=False, head=False, rope=None, window=None):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100.0 if rope == "llama3" else 500000.0)
    writer.add_token_list(["a", "b", "c"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if window:
        writer.add_sliding_window(window)
    if rope == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(1024)
    zeros = lambda *shape: np.zeros(shape, dtype=np.float32)
    tensors = {"token_embd.weight": zeros(3, 16), "output_norm.weight": zeros(16), "blk.0.attn_norm.weight": zeros(16), "blk.0.attn_q.weight": zeros(16, 16),
               "blk.0.attn_k.weight": zeros(8, 16), "blk.0.attn_v.weight": zeros(8, 16), "blk.0.attn_output.weight": zeros(16, 16), "blk.0.ffn_norm.weight": zeros(16),
               "blk.0.ffn_gate.weight": zeros(8, 16), "blk.0.ffn_up.weight": zeros(8, 16), "blk.0.ffn_down.weight": zeros(16, 8)}
    if bias:
        tensors.update({"blk.0.attn_q.bias": zeros(16), "blk.0.attn_k.bias": zeros(8), "blk.0.attn_v.bias": zeros(8)})
    if norms:
        tensors.update({"blk.0.attn_q_norm.weight": zeros(8), "blk.0.attn_k_norm.weight": zeros(8)})
    if head:
        tensors["output.weight"] = zeros(3, 16)
    if rope == "llama3":
        tensors["rope_freqs.weight"] = llama3_divisors(8, 100.0, 8.0, 1.0, 4.0, 70)
    for name, data in tensors.items():
        writer.add_tensor(name, data)
    finish(writer)


def make_gguf():
    out = folder("gguf")
    gguf_types(out)
    gguf_values(out)
    gguf_model(out / "llama.gguf", "llama")
    gguf_model(out / "llama_head.gguf", "llama", head=True, window=64)
    gguf_model(out / "llama_rope.gguf", "llama", rope="llama3")
    gguf_model(out / "qwen2.gguf", "qwen2", bias=True, rope="yarn")
    gguf_model(out / "qwen3.gguf", "qwen3", norms=True)


def raw_safetensors(header, data=b"", pad=0):
    text = json.dumps(header, separators=(",", ":")).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + data


def make_safetensors():
    out = folder("safetensors")
    (out / "none").write_bytes(save({}))
    (out / "metadata").write_bytes(save({}, metadata={"format": "pt", "näme": "välue \n\"x\""}))
    for name, kind in (("f32", np.float32), ("f16", np.float16), ("i8", np.int8), ("u8", np.uint8), ("i64", np.int64), ("bool", np.bool_), ("f64", np.float64)):
        (out / name).write_bytes(save({"t": np.zeros((2, 3), dtype=kind)}))
    (out / "bf16").write_bytes(raw_safetensors({"t": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}, bytes(6)))
    (out / "f8").write_bytes(raw_safetensors({"t": {"dtype": "F8_E4M3", "shape": [1, 2], "data_offsets": [0, 2]}, "u": {"dtype": "F8_E5M2", "shape": [1], "data_offsets": [2, 3]}}, bytes(3)))
    (out / "scalar_and_empty").write_bytes(save({"s": np.array(1, dtype=np.float32), "e": np.zeros((0, 4), dtype=np.float32)}))
    (out / "padded").write_bytes(raw_safetensors({"t": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"x", pad=11))
    (out / "rank8").write_bytes(raw_safetensors({"t": {"dtype": "U8", "shape": [1] * 8, "data_offsets": [0, 1]}}, b"x"))
    (out / "many").write_bytes(save({f"model.layers.{i}.weight": np.zeros((2, 2), dtype=np.float16) for i in range(12)}, metadata={"format": "pt"}))


SIZES = {"vocab_size": 3, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}


def make_configs():
    out = folder("hf_config")
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    configs = {
        "llama": {"model_type": "llama", "torch_dtype": "bfloat16", "rope_theta": 500000.0, "rope_scaling": llama3, "eos_token_id": [1, 2]},
        "llama_new": {"model_type": "llama", "dtype": "float16", "rope_parameters": dict(llama3, rope_theta=5e5), "tie_word_embeddings": True, "mlp_bias": True},
        "linear": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2}, "attention_bias": True, "bos_token_id": None},
        "dynamic": {"model_type": "llama", "rope_scaling": {"rope_type": "dynamic", "factor": 2.5}, "pad_token_id": 0},
        "yarn": {"model_type": "qwen2", "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "attention_factor": 1.1}},
        "mistral": {"model_type": "mistral", "sliding_window": 4096, "bos_token_id": 1, "head_dim": 16},
        "qwen2": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 100, "max_window_layers": 0, "hidden_act": "silu"},
        "qwen3": {"model_type": "qwen3", "layer_types": ["full_attention"], "head_dim": 4, "initializer_range": 0.02, "attention_dropout": 0.1},
    }
    for name, config in configs.items():
        (out / name).write_text(json.dumps({**config, **SIZES}))


def make_folders():
    out = folder("model_folder")
    config = json.dumps({"model_type": "llama", "tie_word_embeddings": False, **SIZES, "num_hidden_layers": 0}).encode()
    tied = json.dumps({"model_type": "llama", "tie_word_embeddings": True, **SIZES, "num_hidden_layers": 0}).encode()
    parts = {"model.embed_tokens.weight": np.ones((3, 8), dtype=np.float16), "model.norm.weight": np.ones(8, dtype=np.float16), "lm_head.weight": np.ones((3, 8), dtype=np.float16)}
    names = list(parts)
    index = lambda where: json.dumps({"metadata": {"total_size": 1}, "weight_map": where}).encode()
    a, b = save({n: parts[n] for n in names[:2]}), save({names[2]: parts[names[2]]})
    split = index({names[0]: "a.safetensors", names[1]: "a.safetensors", names[2]: "b.safetensors"})
    (out / "two_shards").write_bytes(b"\xff".join([split, config, a, b]))
    (out / "tied").write_bytes(b"\xff".join([split, tied, a, b]))
    (out / "one_shard").write_bytes(b"\xff".join([index({n: "a.safetensors" for n in names}), config, save(parts), b""]))
    (out / "no_config").write_bytes(b"\xff".join([split, b"", a, b]))


if __name__ == "__main__":
    make_gguf()
    make_safetensors()
    make_configs()
    make_folders()
