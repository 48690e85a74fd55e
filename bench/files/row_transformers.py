#!/usr/bin/env python3
"""Row: models of every family, saved by transformers, converted by us (whole and in shards), load in transformers 5.x and 4.51 with the logits of the
original; and the SmolLM2 GGUF converted loads in both with equal logits. Runs itself under the older version as `row_transformers.py logits FOLDER...`."""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
MODELS = {
    "llama": ("LlamaConfig", dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    "llama_rope": ("LlamaConfig", dict(rope_parameters=dict(LLAMA3, rope_theta=500000.0), tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "llama_linear": ("LlamaConfig", dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=10000.0), head_dim=16)),
    "llama_yarn": ("LlamaConfig", dict(rope_parameters=dict(YARN, rope_theta=10000.0))),
    "mistral": ("MistralConfig", dict(sliding_window=5, rope_parameters=dict(rope_type="default", rope_theta=1000000.0), head_dim=8)),
    "qwen2": ("Qwen2Config", dict(use_sliding_window=True, sliding_window=4, max_window_layers=0, rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "qwen2_mixed": ("Qwen2Config", dict(use_sliding_window=True, sliding_window=4, max_window_layers=1, rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "qwen3": ("Qwen3Config", dict(head_dim=16, tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
}


# 4.51 masks every layer of a Qwen2 by the window, also those below max_window_layers: its own fault, so it cannot judge this one.
ONLY_NEW = {"qwen2_mixed"}


def logits(folder):
    import torch
    import transformers
    torch.set_num_threads(2)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, torch_dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        out = model(torch.arange(1, 40).reshape(1, -1) % model.config.vocab_size).logits
    faults = sum(len(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return {"version": transformers.__version__, "faults": faults, "logits": out.double().reshape(-1).tolist()[:4096], "sum": float(out.double().sum())}


def logits_of(folders, path):
    env = {**os.environ, "PYTHONPATH": path, "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    out = subprocess.run([sys.executable, __file__, "logits", *folders], check=True, capture_output=True, text=True, env=env).stdout
    return json.loads(out.splitlines()[-1])


def make_models(folder):
    import torch
    import transformers
    for name, (config_class, more) in MODELS.items():
        torch.manual_seed(len(name))
        config = getattr(transformers, config_class)(**{**SMALL, **more})
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn_like(p) * 0.3)
        model.save_pretrained(f"{folder}/{name}")
        yield name


def main():
    import weights_lib
    from lib import emit
    build, worst, faults, compared, by_model = sys.argv[1], 0.0, 0, 0, {}
    with tempfile.TemporaryDirectory() as folder:
        names = list(make_models(folder))
        originals = [f"{folder}/{n}" for n in names]
        written = []
        for n in names:
            for kind, options in (("whole", []), ("shards", ["--shard-size", "20K"])):
                subprocess.run([f"{build}/ljperf", "convert", "--quiet", *options, f"{folder}/{n}", f"{folder}/{n}_{kind}"], check=True)
                written.append(f"{folder}/{n}_{kind}")
        subprocess.run([f"{build}/ljperf", "convert", "--quiet", "--save-dtype", "fp32", weights_lib.smollm2(), f"{folder}/smollm2"], check=True)
        paths = {"new": "", "old": weights_lib.older_transformers(build)}
        truth = logits_of(originals, "")
        smol = {kind: logits_of([f"{folder}/smollm2"], path)[0] for kind, path in paths.items()}
        for kind, path in paths.items():
            for i, result in enumerate(logits_of(written, path)):
                if kind == "old" and names[i // 2] in ONLY_NEW:
                    continue
                difference = max(abs(a - b) for a, b in zip(result["logits"], truth[i // 2]["logits"]))
                by_model[f"{names[i // 2]}/{kind}"] = max(difference, by_model.get(f"{names[i // 2]}/{kind}", 0.0))
                worst = max(worst, difference)
                faults += result["faults"]
                compared += 1
        smol_difference = max(abs(a - b) for a, b in zip(smol["new"]["logits"], smol["old"]["logits"]))
        faults += smol["new"]["faults"] + smol["old"]["faults"]
    passed = worst <= 1e-5 and faults == 0 and smol_difference <= 1e-3 and compared == 4 * len(MODELS) - 2 * len(ONLY_NEW)
    return emit(build, "files", "transformers", peer="transformers", ours=worst, bar="logits within 1e-5, no missing or unexpected keys", passed=passed,
                versions={"transformers": [smol["new"]["version"], smol["old"]["version"]], "torch": importlib.metadata.version("torch")}, folders=compared,
                faults=faults, by_model=by_model, smollm2_gguf_difference_between_versions=smol_difference)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "logits":
        print(json.dumps([logits(f) for f in sys.argv[2:]]))
    else:
        sys.exit(main())
