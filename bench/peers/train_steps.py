"""Peer: PyTorch fine-tunes the GGUF's model on the same rows in the same order as `ljperf train --no-shuffle --schedule constant`.

usage: train_steps.py GGUF TOKENIZER.json TEXT --batch B --seq T --accum A --steps N --lr X --dtype fp32|amp --eval-fraction F [--threads N]
Prints one JSON object: losses and gradient norms of each step, held-out loss before and after.
needs: pip install torch transformers tokenizers gguf
"""
import argparse
import json

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import gguf_model

p = argparse.ArgumentParser()
p.add_argument("gguf"), p.add_argument("tokenizer"), p.add_argument("text")
for name, kind, default in [("batch", int, 4), ("seq", int, 512), ("accum", int, 1), ("steps", int, 20), ("lr", float, 1e-4), ("dtype", str, "fp32"),
                            ("eval-fraction", float, 0.05), ("threads", int, 2)]:
    p.add_argument("--" + name, type=kind, default=default)
a = p.parse_args()
torch.set_num_threads(a.threads)


def rows_of(ids):
    count = (len(ids) - 1) // a.seq
    return [(ids[i * a.seq:(i + 1) * a.seq], ids[i * a.seq + 1:(i + 1) * a.seq + 1]) for i in range(count)]


def losses_of(model, rows):
    x, y = (torch.tensor([r[k] for r in rows]) for k in (0, 1))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "amp"):
        logits = model(input_ids=x, use_cache=False).logits
    return F.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), y.reshape(-1), reduction="sum")


def evaluate(model, rows):
    with torch.no_grad():
        return sum(losses_of(model, rows[i:i + a.batch]).item() for i in range(0, len(rows), a.batch)) / (len(rows) * a.seq)


ids = Tokenizer.from_file(a.tokenizer).encode(open(a.text, encoding="utf-8").read()).ids
held = int(a.eval_fraction * len(ids))
held = held if held > a.seq else 0
train, test = rows_of(ids[:len(ids) - held]), rows_of(ids[len(ids) - held:]) if held else []
model = gguf_model.load(a.gguf).train()
groups = [dict(params=[w for w in model.parameters() if w.ndim > 1], weight_decay=0.1),
          dict(params=[w for w in model.parameters() if w.ndim == 1], weight_decay=0.0)]
optimizer = torch.optim.AdamW(groups, lr=a.lr, betas=(0.9, 0.95), eps=1e-8)
out = {"losses": [], "norms": [], "eval_before": evaluate(model, test) if test else None, "torch": torch.__version__}
at = 0
for step in range(a.steps):
    total = 0.0
    for _ in range(a.accum):
        batch = [train[(at + i) % len(train)] for i in range(a.batch)]
        at += a.batch
        loss = losses_of(model, batch) / (a.batch * a.accum * a.seq)
        loss.backward()
        total += loss.item()
    out["norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    out["losses"].append(total)
out["eval_after"] = evaluate(model, test) if test else None
print(json.dumps(out))
