#!/usr/bin/env python3
"""Rows of the group train.

usage: train_rows.py steps20|resume|finetune100|chat|parts|benchmark8b|kill9|generate10|mistakes BUILD
PYTHON, TEXT, SMOLLM2_GGUF as for bench/core/model_rows.py.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "peers"), str(HERE.parent / "core")]
import lib  # noqa: E402
import model_rows  # noqa: E402
from model_rows import ljperf, text_bytes  # noqa: E402


def steps20(build):
    """Each of 20 losses from the real weights on the same tokens."""
    import gguf_model
    path, failed = gguf_model.smollm2_path(), 0
    for dtype, bar in (("fp32", 1e-4), ("bf16", 1e-2)):
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "text.txt")
            open(text, "wb").write(text_bytes()[:60000])
            rows, result = model_rows.ours_steps(build, folder, path, text, dtype, 2, 128, 20, 0)
            shutil.copy(os.path.join(result["checkpoint"], "tokenizer.json"), folder)
            peer = model_rows.peer_steps(path, folder, text, dtype, 2, 128, 20, 0)
        differences = [a["loss"] / b - 1 for a, b in zip(rows, peer["losses"])]
        worst, mean = max(map(abs, differences)), sum(differences) / len(differences)
        passed = worst <= bar and (dtype == "fp32" or abs(mean) <= 2e-3)
        failed |= lib.emit(build, "train", f"20 steps from the real weights, {dtype}, each loss", peer="PyTorch", ours=worst, bar=bar, passed=passed,
                           signed_mean=mean, grad_norm_worst=max(abs(a["grad_norm"] / b - 1) for a, b in zip(rows, peer["norms"])),
                           versions={"torch": peer["torch"]})
    return failed


def tiny_model(folder):
    """A one-layer model of 49,152 words: seconds a run, megabytes a checkpoint."""
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 49152, "hidden_size": 64,
              "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "tie_word_embeddings": True, "max_position_embeddings": 512, "bos_token_id": 0, "eos_token_id": 0}
    model = os.path.join(folder, "tiny")
    os.makedirs(model)
    json.dump(config, open(os.path.join(model, "config.json"), "w"))
    text = os.path.join(folder, "text.txt")
    open(text, "wb").write(text_bytes()[:20000])
    return ["--model", model, "--random-weights", "--tokenizer", __import__("gguf_model").smollm2_path(), "--data", text, "--seq", "32", "--batch", "2"]


def resume(build):
    """Stopped at step 13 and resumed to 20: accumulation 3, shuffled, over an epoch's end, fp32 and bf16."""
    failed = 0
    for dtype in ("fp32", "bf16"):
        with tempfile.TemporaryDirectory() as folder:
            base = tiny_model(folder)
            open(os.path.join(folder, "text.txt"), "wb").write(text_bytes()[:9000])  # about 70 rows: the epoch ends in step 12
            base += ["--steps", "20", "--accum", "3", "--dtype", dtype, "--warmup", "3"]
            whole, halves = os.path.join(folder, "whole"), os.path.join(folder, "halves")
            ljperf(build, "train", *base, "--out", whole)
            ljperf(build, "train", *base, "--out", halves, "--stop-after", 13)
            ljperf(build, "train", *base, "--out", halves, "--resume")
            same = {name: open(f"{whole}/step-000020/{name}", "rb").read() == open(f"{halves}/step-000020/{name}", "rb").read()
                    for name in ("model.safetensors", "optimizer.safetensors")}
            keys = ("step", "loss", "lr", "grad_norm", "tokens")
            lines = [[{k: r[k] for k in keys} for r in map(json.loads, open(f"{d}/metrics.jsonl")) if "loss" in r] for d in (whole, halves)]
            same["loss, lr, grad norm"] = lines[0] == lines[1] and len(lines[0]) == 20
        failed |= lib.emit(build, "train", f"stop at 13, resume to 20, {dtype}", ours=same, bar="bit-equal", passed=all(same.values()))
    return failed


def finetune100(build):
    return model_rows.finetune(build, steps=100, batch=2, seq=128, row="fine-tune on the real text, 100 steps", group="train")


def chat(build):
    """Chats with loss marks: the held-out loss of the assistant's words falls."""
    import gguf_model
    path = gguf_model.smollm2_path()
    with tempfile.TemporaryDirectory() as folder:
        for name, first in (("train", 0), ("held", 400)):
            with open(os.path.join(folder, name + ".jsonl"), "w") as out:
                for i in range(first, first + (400 if name == "train" else 60)):
                    a, b = i * 7919 % 97, i * 104729 % 89
                    messages = [{"role": "user", "content": f"Add {a} and {b}."}, {"role": "assistant", "content": f"The sum of {a} and {b} is {a + b}."}]
                    out.write(json.dumps({"messages": messages}) + "\n")
        result = os.path.join(folder, "r.json")
        ljperf(build, "train", "--model", path, "--data", f"{folder}/train.jsonl", "--eval-data", f"{folder}/held.jsonl", "--out", f"{folder}/run",
               "--steps", 30, "--batch", 2, "--seq", 256, "--lr", "2e-4", "--json", result)
        r = json.load(open(result))
    fall = r["eval_first"]["loss"] - r["eval_last"]["loss"]
    return lib.emit(build, "train", "chat data with masks, 30 steps", ours=fall, bar="held-out loss of the answers falls by >= 0.5", passed=fall >= 0.5,
                    eval_before=r["eval_first"]["loss"], eval_after=r["eval_last"]["loss"], eval_tokens=r["eval_first"]["tokens"])


def measured(build, folder, model, *more):
    out = os.path.join(folder, "b.json")
    ljperf(build, "benchmark", "--model", model, "--json", out, *more)
    return json.load(open(out))


def parts(build):
    """The sum of the parts, and the extrapolation from 1, 2 and 4 layers, against the whole step; interleaved, three times."""
    failed = 0
    for model, layers, size in (("deepspeed/smollm2-135m", 30, ("--batch", 4, "--seq", 512)), ("deepspeed/qwen2.5-0.5b", 24, ("--batch", 1, "--seq", 512))):
        wholes, sums, lines = [], [], []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(3):
                some = (*size, "--steps", 3, "--warmup", 1)
                wholes.append(measured(build, folder, model, *some)["step_s_median"])
                sums.append(measured(build, folder, model, *some, "--parts")["step_s_median"])
                t = {n: measured(build, folder, model, *some, "--layers", n)["step_s_median"] for n in (1, 2, 4)}
                slope = ((t[4] - t[1]) / 3 + (t[4] - t[2]) / 2 + (t[2] - t[1])) / 3
                lines.append(sum(t[n] - n * slope for n in t) / 3 + layers * slope)
        for name, values, bar in (("sum of parts", sums, 0.05), ("extrapolation from 1, 2, 4 layers", lines, 0.08)):
            ratio, low, high = lib.paired_ratio(values, wholes)
            failed |= lib.emit(build, "train", f"{name} / whole, {model}", peer=sorted(wholes)[1], ours=sorted(values)[1], ratio=ratio, ci=[low, high],
                               bar=bar, passed=abs(ratio - 1) <= bar)
    return failed


def benchmark8b(build):
    with tempfile.TemporaryDirectory() as folder:
        begin = time.time()
        r = measured(build, folder, "deepspeed/llama3-8b", "--threads", 2)
        seconds = time.time() - begin
        keys = ("model dtype batch seq accum threads mode layers_total layers_measured tokens_per_s tokens_per_s_full step_s_median step_s_p90 first_step_s "
                "compile_s compiles new_primitives flops_per_token achieved_flops gemm_peak_flops isa_peak_flops mfu hfu predicted_peak_bytes "
                "measured_peak_bytes peak_rss_bytes loss_first loss_last warnings versions seed").split()
        missing = [k for k in keys if k not in r]
    return lib.emit(build, "train", "benchmark deepspeed/llama3-8b", ours={"seconds": seconds, "peak_rss_bytes": r["peak_rss_bytes"], "mfu": r["mfu"]},
                    bar="< 180 s, <= 16 GiB, mfu stated, every key", passed=seconds < 180 and r["peak_rss_bytes"] <= 16 << 30 and r["mfu"] > 0 and not missing,
                    missing_keys=missing, sum_check=r["sum_check"], tokens_per_s_full=r["tokens_per_s_full"])


def kill9(build, rounds=50):
    """kill -9 at random moments of a run that saves after every step: there is always a checkpoint, and it resumes."""
    rng, bad = random.Random(4), []
    with tempfile.TemporaryDirectory() as folder:
        base = tiny_model(folder) + ["--steps", "100000", "--save-every", "1", "--schedule", "constant", "--out", os.path.join(folder, "run"), "--quiet"]
        command = [os.path.join(build, "ljperf"), "train", *base]
        newest = 0
        for n in range(rounds):
            run = subprocess.Popen(command + (["--resume"] if newest else []), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            deadline = time.time() + 60
            while not newest and time.time() < deadline and not os.path.exists(os.path.join(folder, "run", "step-000001")):
                time.sleep(0.05)
            time.sleep(rng.uniform(0.2, 2.0))
            if run.poll() is not None:
                bad.append({"round": n, "ended": run.stderr.read()[-300:]})
                break
            run.send_signal(signal.SIGKILL)
            run.wait()
            steps = sorted(int(d[5:]) for d in os.listdir(os.path.join(folder, "run")) if d.startswith("step-"))
            if not steps or steps[-1] < newest:
                bad.append({"round": n, "steps": steps, "newest_before": newest})
                break
            newest = steps[-1]
        check = subprocess.run(command + ["--resume", "--stop-after", str(newest + 1)], capture_output=True, text=True)
        if check.returncode:
            bad.append({"resume": check.stderr[-300:]})
    return lib.emit(build, "train", f"{rounds} kill -9 at random moments", ours={"reached_step": newest, "failures": bad}, bar="always a complete checkpoint",
                    passed=not bad)


def generate10(build):
    prompts = ["The capital of France is", "Once upon a time", "def fibonacci(n):", "Water boils at", "The Debian project", "2 + 2 =", "My favourite colour is",
               "In 1969 the first", "To install a package,", "Dear Sir or Madam,"]
    return model_rows.greedy(build, prompts, 64, "generate greedy fp32, 10 prompts x 64 tokens")


def mistakes(build):
    run = subprocess.run(["bash", str(HERE.parent.parent / "tests/cli/test_mistakes.sh"), build], capture_output=True, text=True)
    return lib.emit(build, "train", "60 mistakes of a new user", ours=(run.stdout.splitlines() or [""])[-1], bar="one line each, exit code 1 or 2",
                    passed=run.returncode == 0, output=run.stdout[-1500:] if run.returncode else "")


ROWS = {f.__name__: f for f in (steps20, resume, finetune100, chat, parts, benchmark8b, kill9, generate10, mistakes)}

if __name__ == "__main__":
    sys.exit(ROWS[sys.argv[1]](sys.argv[2]))
