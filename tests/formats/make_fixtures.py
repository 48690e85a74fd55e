#!/usr/bin/env python3
"""Makes tests/fixtures/formats: small files by other people's writers, that our readers must agree with.

types.gguf, types.f32      one tensor of each GGUF type from random blocks with finite scales (gguf's writer), and what gguf's numpy
                           dequantiser makes of them, concatenated
tiny.gguf, tiny/           a two-layer Llama as transformers saves it, and the same weights in a GGUF of architecture llama (q and k
                           permuted as llama.cpp's converter does)
tiny_sharded/              the same model in three shards with an index
Needs numpy, gguf, torch, transformers. Deterministic.
"""
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from gguf.quants import dequantize

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "formats"
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(rng, name, rows, columns):
    """Random bytes whose half-precision scales are finite, tiny ones and subnormals among them."""
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    if name == "F32":
        return rng.standard_normal((rows, columns), dtype=np.float32)
    if name == "F16":
        return rng.standard_normal((rows, columns), dtype=np.float32).astype(np.float16)
    if name == "BF16":
        return (rng.standard_normal((rows, columns), dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    blocks = rng.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    for at in HALVES[name]:
        scales = rng.integers(0, 0x7C00, len(blocks), dtype=np.uint16) | (rng.integers(0, 2, len(blocks), dtype=np.uint16) << 15)
        blocks[:, at:at + 2] = scales.reshape(-1, 1).view(np.uint8)
    return blocks.reshape(rows, -1)


def make_types(path, seed, rows, columns):
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    expected = []
    for name in TYPES:
        kind, data = gguf.GGMLQuantizationType[name], random_blocks(rng, name, rows, columns)
        writer.add_tensor(name.lower(), data, raw_dtype=kind)
        expected.append(np.ascontiguousarray(dequantize(data, kind), dtype=np.float32).reshape(-1))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return np.concatenate(expected)


def permute(weights, heads):
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    if name.startswith("model.layers."):
        _, _, layer, rest = name.split(".", 3)
        part, kind = rest.rsplit(".", 1)
        return f"blk.{layer}.{NAMES[part]}.{kind}"
    return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}[name]


def make_tiny():
    config = transformers.LlamaConfig(vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(config).to(torch.float16)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p, dtype=torch.float32))
    for name, size in (("tiny", "1GB"), ("tiny_sharded", "20KB")):
        shutil.rmtree(OUT / name, ignore_errors=True)
        model.save_pretrained(OUT / name, max_shard_size=size)
    writer = gguf.GGUFWriter(OUT / "tiny.gguf", "llama")
    writer.add_block_count(2)
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(40)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, value in model.state_dict().items():
        data = value.numpy()
        for part, heads in (("q_proj", 4), ("k_proj", 2)):
            if part in name:
                data = permute(data, heads)
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(data.astype(np.float32) if data.ndim == 1 else data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    make_types(OUT / "types.gguf", 11, 2, 512).tofile(OUT / "types.f32")
    make_tiny()
    print(transformers.__version__, gguf.__name__, file=sys.stderr)
