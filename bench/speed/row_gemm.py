#!/usr/bin/env python3
"""Row: matrix products, our best provider against PyTorch's matmul, geometric mean over the shapes of the SmolLM2-135M step (2,048 rows; head in
chunks of 512) and of llama3-8b's layer (ROWS rows), forward, data gradient and weight gradient, packing included. Both sides loaded, alternating
shape by shape. usage: row_gemm.py BUILD [bf16|f32]; ROUNDS (10), ROWS (512), THREADS (2) from the environment."""
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from lib import emit, geometric_mean, paired_ratio

PACKAGES = ["jansson", "libpcre2-8", "libutf8proc", "libxxhash", "hwloc", "zlib", "libzstd", "yaml-0.1"]
THREADS = os.environ.get("THREADS", "2")
TORCH_SIDE = """
import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
print(torch.__version__, flush=True)
for line in sys.stdin:
    m, n, k, ta, tb, dtype, repeats = line.split()
    m, n, k, repeats = int(m), int(n), int(k), int(repeats)
    t = torch.bfloat16 if dtype == "bf16" else torch.float32
    a = torch.full((k, m) if ta == "1" else (m, k), 0.01, dtype=t)
    b = torch.full((n, k) if tb == "1" else (k, n), 0.01, dtype=t)
    a, b = a.t() if ta == "1" else a, b.t() if tb == "1" else b
    times = []
    for i in range(repeats + 1):
        start = time.perf_counter()
        torch.matmul(a, b)
        times.append(time.perf_counter() - start)
    print(sorted(times[1:])[repeats // 2], flush=True)
"""


def build_tool(build):
    out = pathlib.Path(build) / "bench"
    out.mkdir(exist_ok=True)
    libs = subprocess.run(["pkg-config", "--libs", *PACKAGES], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-std=gnu17", f"-I{ROOT}/src", f"-I{ROOT}/include", str(HERE / "gemm_server.c"),
                    f"{build}/libljperf_static.a", "-o", str(out / "gemm_server"), *libs, "-ldnnl", "-lgomp", "-lm", "-lpthread", "-ldl"], check=True)
    return str(out / "gemm_server")


def forms(rows, n, k):
    """Forward x W^T, data gradient dy W, weight gradient dy^T x of a layer with W [n, k]."""
    return [(rows, n, k, 0, 1), (rows, k, n, 0, 0), (n, k, rows, 1, 0)]


def shapes():
    rows = int(os.environ.get("ROWS", "512"))
    small = [(960, 576), (576, 576), (3072, 576), (576, 1536)]
    large = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)]
    return [s for n, k in small for s in forms(2048, n, k)] + forms(512, 49152, 576) + [s for n, k in large for s in forms(rows, n, k)]


def ask(process, shape, dtype):
    flops = 2 * shape[0] * shape[1] * shape[2]
    repeats = max(1, min(5, int(2e10 / flops)))
    process.stdin.write(" ".join(map(str, shape)) + f" {dtype} {repeats}\n")
    process.stdin.flush()
    return process.stdout.readline().split()


def main():
    build, dtype = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "bf16"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    ours = subprocess.Popen([build_tool(build), THREADS], **pipes)
    torch = subprocess.Popen([sys.executable, "-c", TORCH_SIDE, THREADS], **pipes)
    version, table = torch.stdout.readline().strip(), {s: ([], []) for s in shapes()}
    providers = {s: ask(ours, s, dtype)[1] for s in table}  # the first creation of a shape measures
    rates_ours, rates_torch = [], []
    for _ in range(int(os.environ.get("ROUNDS", "10"))):
        for s, (a, b) in table.items():
            flops = 2e-9 * s[0] * s[1] * s[2]
            a.append(flops / float(ask(ours, s, dtype)[0]))
            b.append(flops / float(ask(torch, s, dtype)[0]))
        rates_ours.append(geometric_mean([a[-1] for a, _ in table.values()]))
        rates_torch.append(geometric_mean([b[-1] for _, b in table.values()]))
    for process in (ours, torch):
        process.stdin.close()
        process.wait()
    ratio, low, high = paired_ratio(rates_ours, rates_torch)
    amx = "amx" in subprocess.run([f"{build}/ljperf", "version"], capture_output=True, text=True).stdout
    bar = 1.15 if amx else 1.05
    detail = {"x".join(map(str, s[:3])) + ("T" if s[3] else "N") + ("T" if s[4] else "N"):
              {"ours": round(statistics.median(a), 1), "peer": round(statistics.median(b), 1), "provider": providers[s]} for s, (a, b) in table.items()}
    return emit(build, "speed", f"gemm {dtype}", peer=statistics.median(rates_torch), ours=statistics.median(rates_ours), ratio=ratio, ci=[low, high],
                bar=f">= {bar}", passed=ratio >= bar, versions={"torch": version}, unit="GFLOPS, geometric mean", shapes=detail)


if __name__ == "__main__":
    sys.exit(main())
