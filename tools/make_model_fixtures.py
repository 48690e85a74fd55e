#!/usr/bin/env python3
"""Writes tests/fixtures/model/NAME/: small models of every family with what PyTorch and transformers make of them.

Each folder holds config.json, model.safetensors (weights exact in bf16) and expected.safetensors:
  tokens, targets   i32 [STEPS, B, T]   input ids and ids to predict (-1: none)
  starts, positions i32 [B, T]          only in packed ones: documents in one row
  logits            f32 [B, T, V]       of batch 0, computed in f64
  loss              f32 [1]             mean over the targets of batch 0
  grad.NAME         f32                 gradient of that loss by Hugging Face name
  losses            f32 [STEPS]         before each AdamW step (f64): lr 1e-3, betas 0.9 0.95, eps 1e-8, decay 0.1 on matrices, clip 1.0
  bf16_error        f32 [3]             PyTorch's own bf16: relative L2 of logits, of all gradients together, |loss error|
needs: torch, transformers, safetensors (tests read the committed files and need none of them)
"""
import json
import pathlib
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

STEPS, B, T = 10, 2, 16
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/model"
BASE = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
            initializer_range=0.1)
LLAMA31 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8)
MODELS = {
    "llama2": dict(model_type="llama", num_key_value_heads=4, rope_theta=10000.0),
    "llama3": dict(model_type="llama", rope_theta=500000.0),
    "llama3.1": dict(model_type="llama", rope_theta=500000.0, rope_scaling=LLAMA31),
    "smollm2": dict(model_type="llama", hidden_size=36, num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True, rope_theta=100000.0),
    "mistral": dict(model_type="mistral", sliding_window=5, rope_theta=10000.0),
    "qwen2": dict(model_type="qwen2", tie_word_embeddings=True, rope_theta=1000000.0, use_sliding_window=False),
    "qwen2.5-yarn": dict(model_type="qwen2", rope_theta=1000000.0, rope_scaling=YARN, use_sliding_window=False),
    "qwen3": dict(model_type="qwen3", head_dim=16, rope_theta=1000000.0, use_sliding_window=False),
    "gelu-linear": dict(model_type="llama", hidden_act="gelu_pytorch_tanh", mlp_bias=True, attention_bias=True, rope_theta=10000.0,
                        rope_scaling=dict(rope_type="linear", factor=2.0)),
    "packed": dict(model_type="llama", rope_theta=10000.0),
}


def documents():
    """Starts and positions of rows that hold documents of 6 and 10, and of 11 and 5 tokens."""
    starts, positions = torch.zeros(B, T, dtype=torch.int32), torch.zeros(B, T, dtype=torch.int32)
    for row, border in enumerate((6, 11)):
        starts[row, border:] = border
        positions[row] = torch.arange(T) - starts[row]
    return starts, positions


def mask_of(starts, dtype):
    i = torch.arange(T)
    seen = (i[None, None, :] <= i[None, :, None]) & (i[None, None, :] >= starts[:, :, None])
    return torch.zeros(B, 1, T, T, dtype=dtype).masked_fill(~seen[:, None], torch.finfo(dtype).min)


def forward(model, tokens, packed, dtype):
    extra = {}
    if packed:
        starts, positions = documents()
        extra = dict(attention_mask=mask_of(starts, dtype), position_ids=positions.long())
    return model(input_ids=tokens.long(), use_cache=False, **extra).logits


def loss_of(logits, targets, dtype):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).to(dtype), targets.reshape(-1).long(), ignore_index=-1)


def gradients(model):
    return {n: p.grad.detach().clone() for n, p in model.named_parameters()}


def bf16_error(config, weights, tokens, targets, packed, truth_logits, truth_loss, truth_grads):
    """PyTorch with bf16 weights and activations, loss in f32."""
    model = make(config, weights, torch.bfloat16)
    logits = forward(model, tokens, packed, torch.bfloat16)
    loss = loss_of(logits, targets, torch.float32)
    loss.backward()
    flat = lambda g: torch.cat([g[n].double().reshape(-1) for n in sorted(g)])
    g, t = flat(gradients(model)), flat(truth_grads)
    return torch.tensor([((logits.double() - truth_logits).norm() / truth_logits.norm()).item(), ((g - t).norm() / t.norm()).item(),
                         abs(loss.item() - truth_loss)], dtype=torch.float32)


def make(config, weights, dtype):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(dtype)
    model.load_state_dict({n: w.to(dtype) for n, w in weights.items()}, strict=False)
    model.tie_weights()
    return model


def train(model, tokens, targets, packed):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim == 1]
    groups = [dict(params=decay, weight_decay=0.1), dict(params=rest, weight_decay=0.0)]
    optimizer, losses = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8), []
    for step in range(STEPS):
        loss = loss_of(forward(model, tokens[step], packed, torch.float64), targets[step], torch.float64)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float32)


def main():
    for seed, (name, changes) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        packed, folder = name == "packed", OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        settings = {**BASE, **changes}
        config = AutoConfig.for_model(**settings)
        model = AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for n, p in model.named_parameters():
                p.add_(torch.randn_like(p) * 0.05)
        tied = settings["tie_word_embeddings"]
        weights = {n: w.to(torch.bfloat16).contiguous() for n, w in model.state_dict().items() if not (tied and n == "lm_head.weight")}
        tokens = torch.randint(0, BASE["vocab_size"], (STEPS, B, T), dtype=torch.int32)
        targets = torch.roll(tokens, -1, 2)
        targets[:, :, -1] = -1
        targets[:, 0, :3] = -1
        model = make(config, weights, torch.float64)
        logits = forward(model, tokens[0], packed, torch.float64)
        loss = loss_of(logits, targets[0], torch.float64)
        loss.backward()
        grads = gradients(model)
        expected = {"tokens": tokens, "targets": targets, "logits": logits.detach().float(), "loss": loss.detach().float().reshape(1)}
        expected.update({f"grad.{n}": g.float().contiguous() for n, g in grads.items()})
        expected["bf16_error"] = bf16_error(config, weights, tokens[0], targets[0], packed, logits.detach(), loss.item(), grads)
        expected["losses"] = train(make(config, weights, torch.float64), tokens, targets, packed)
        if packed:
            expected["starts"], expected["positions"] = documents()
        save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
        save_file(expected, str(folder / "expected.safetensors"))
        settings["architectures"] = [type(model).__name__]
        (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n")
        print(name, f"loss {loss.item():.6f} bf16 {expected['bf16_error'].tolist()} losses {expected['losses'].tolist()[:2]}")


if __name__ == "__main__":
    main()
