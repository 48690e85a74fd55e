"""Peer: one Llama training step in PyTorch at the SmolLM2-135M shape with random weights, a step for each line on standard input.

usage: train_step_torch.py --batch B --seq T --dtype fp32|amp --mode eager|compile --threads N --layers L
After two warm-up steps it prints {"ready": true}, then for each input line runs a step (forward, backward, clip, fused AdamW) and
prints {"step_s": seconds}. needs: pip install torch transformers
"""
import argparse
import json
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

p = argparse.ArgumentParser()
for name, kind, default in [("batch", int, 4), ("seq", int, 512), ("layers", int, 30), ("threads", int, 2), ("dtype", str, "amp"), ("mode", str, "eager")]:
    p.add_argument("--" + name, type=kind, default=default)
a = p.parse_args()
torch.manual_seed(0)
torch.set_num_threads(a.threads)
model = LlamaForCausalLM(LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=a.layers, num_attention_heads=9,
                                     num_key_value_heads=3, tie_word_embeddings=True, max_position_embeddings=8192, rope_theta=100000.0,
                                     attn_implementation="sdpa"))
model.config.use_cache = False
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
run = torch.compile(model) if a.mode == "compile" else model
tokens = torch.randint(0, 49152, (a.batch, a.seq))


def step():
    begin = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "amp"):
        loss = run(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return time.perf_counter() - begin


step(), step()
print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
for _ in sys.stdin:
    print(json.dumps({"step_s": step()}), flush=True)
