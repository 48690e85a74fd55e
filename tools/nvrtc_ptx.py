#!/usr/bin/env python3
"""Compiles CUDA C files to PTX with NVRTC, without a GPU or a toolkit: nvrtc_ptx.py FILE.cu... Exit 77 when libnvrtc is not to be found.

libnvrtc comes from the Python package nvidia-cuda-nvrtc-cu12 (pip install nvidia-cuda-nvrtc-cu12, in any environment whose python3 runs this),
from NVRTC=/path/libnvrtc.so, or from the system.
"""
import ctypes
import ctypes.util
import glob
import os
import site
import sys

OPTIONS = [b"--gpu-architecture=compute_80", b"--fmad=false", b"--std=c++17"]


def find():
    if os.environ.get("NVRTC"):
        return os.environ["NVRTC"]
    folders = site.getsitepackages() + [site.getusersitepackages()]
    for folder in folders:
        found = sorted(glob.glob(os.path.join(folder, "nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.*")) +
                       glob.glob(os.path.join(folder, "nvidia", "cu*", "lib", "libnvrtc.so.*")))
        found = [path for path in found if "builtins" not in path]
        if found:
            return found[-1]
    return ctypes.util.find_library("nvrtc")


def compile_file(nvrtc, path):
    program = ctypes.c_void_p()
    source = open(path, "rb").read()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, path.encode(), 0, None, None)
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    status = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    words = log.value.decode().strip()
    ptx = 0
    if status == 0:
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        ptx = size.value
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if words:
        print(f"{path}: {words}")
    return status == 0 and not words and ptx > 1


def main():
    name = find()
    if not name:
        print("skipped: no libnvrtc (pip install nvidia-cuda-nvrtc-cu12, or NVRTC=/path/libnvrtc.so)")
        return 77
    nvrtc = ctypes.CDLL(name)
    bad = [path for path in sys.argv[1:] if not compile_file(nvrtc, path)]
    print(f"{len(sys.argv) - 1 - len(bad)} of {len(sys.argv) - 1} files to PTX by {os.path.basename(name)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
