#!/usr/bin/env python3
"""A stranger's view: 20 broken hosts and images from public issue threads, put in our own words as trees. The first line of the doctor's answer must name the cause.

Each row: the thread, what was wrong there, the tree, the arguments, and words that the first line must hold."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from trees import *  # noqa: F401,F403

CONDA = "home/user/miniconda3/envs/llm/lib/python3.10/site-packages"
WORLD = environment(WORLD_SIZE="16", LOCAL_WORLD_SIZE="8")
lo = nic("lo", "127.0.0.1/8", 65536, "unknown")
eth = nic("eth0", "10.0.0.5/24", default=True)
H100 = "NVIDIA H100 80GB HBM3"


def replaced_library(driver, other):
    """The kernel module is `driver`, the user-space libraries are `other`."""
    return nvidia(driver, libraries=False) | library("usr/lib/x86_64-linux-gnu", "libcuda", other) | library("usr/lib/x86_64-linux-gnu", "libnvidia-ml", other)


STRANGERS = [
    ("lyulyul/shine-cluster#30", "an unattended upgrade replaced the driver's libraries under the loaded module",
     replaced_library("460.56", "460.73.01") | network(lo, eth), (), ["mismatch", "460.73.01", "460.56"]),
    ("k4yt3x/video2x#1226", "an image brings its own driver libraries, of another version than the host's driver",
     replaced_library("535.183.01", "565.57.01") | {".dockerenv": ""}, (), ["mismatch", "565.57.01", "535.183.01"]),
    ("NVlabs/BundleSDF#184", "docker cannot hand out cards: no container toolkit on the host",
     nvidia("550.120", card="NVIDIA GeForce RTX 3090") | {"usr/bin/docker": "", "usr/bin/dockerd": "", "etc/docker/daemon.json": "{}\n"}, (), ["container toolkit"]),
    ("Dao-AILab/flash-attention#1122", "flash-attn was compiled for CUDA 11, the environment has 12",
     runtime("12.1.105", CONDA + "/nvidia/cuda_runtime/lib") | package("flash_attn", "2.5.0", site=CONDA) | {CONDA + "/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so": shared_object(["libcudart.so.11.0"])}, (), ["libcudart.so.11.0", "flash_attn_2_cuda"]),
    ("deepseek-ai/DeepSeek-OCR#70", "torch of CUDA 11.8 with a flash-attn of CUDA 12",
     runtime("11.8.89", CONDA + "/nvidia/cuda_runtime/lib") | package("torch", "2.6.0+cu118", site=CONDA) | {CONDA + "/flash_attn_2_cuda.so": shared_object(["libcudart.so.12"])}, (), ["libcudart.so.12"]),
    ("aws-samples/aws-deep-learning-ami-ubuntu-dcv-desktop#33", "an NVSwitch machine without fabric manager: error 802",
     nvidia("570.133.20", H100, cards=8) | {"dev/nvidia-nvswitchctl": ""} | {f"dev/nvidia-nvswitch{i}": "" for i in range(4)}, (), ["fabric manager"]),
    ("NVlabs/BundleSDF#185", "a wheel needs a newer C++ library than the image has",
     {"usr/lib/x86_64-linux-gnu/libstdc++.so.6": provider("libstdc++.so.6", ["GLIBCXX_3.4", "GLIBCXX_3.4.28"]), "opt/conda/envs/py38/lib/python3.8/site-packages/scipy/spatial/_ckdtree.so": shared_object(versions={"libstdc++.so.6": ["GLIBCXX_3.4.29"]})}, (), ["GLIBCXX_3.4.29", "_ckdtree"]),
    ("ali-vilab/videocomposer#18", "an extension needs a newer C library than the image has",
     {"usr/lib/x86_64-linux-gnu/libc.so.6": provider("libc.so.6", ["GLIBC_2.2.5", "GLIBC_2.31"]), f"{SITE}/motion/_ext.so": shared_object(versions={"libc.so.6": ["GLIBC_2.32"]})}, (), ["GLIBC_2.32"]),
    ("meta-pytorch/monarch#4394", "the host's name leads to 127.0.1.1, which is then told to the other hosts",
     network(lo, eth) | {"etc/hostname": "node-a\n", "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 node-a\n"} | WORLD, (), ["node-a", "127.0.1.1"]),
    ("aws-samples/aws-do-eks#51", "NCCL's exclusion list was given to Gloo",
     network(lo, nic("ens5", "10.0.0.5/24", default=True)) | environment(GLOO_SOCKET_IFNAME="^lo,docker,veth,eni", NCCL_SOCKET_IFNAME="^lo,docker,veth,eni", WORLD_SIZE="16", LOCAL_WORLD_SIZE="8"), (), ["GLOO_SOCKET_IFNAME"]),
    ("NVIDIA/nccl-tests#206", "locked memory limited to 8 MiB where RDMA registers memory",
     nvidia("535.161.08") | rdma() | limits(memlock="8388608") | network(lo, eth), (), ["memlock"]),
    ("NVIDIA/nccl-tests#163", "the container's shared memory is docker's default",
     nvidia("535.161.08", cards=2) | mounts("65536k") | meminfo(), (), ["/dev/shm", "64.00 MiB"]),
    ("pytorch/torchtitan#3022", "only torch was updated: torchvision is of the version before",
     package("torch", "2.12.0.dev20260417+cu128") | package("torchvision", "0.26.0", ["torch (==2.11.0)", "numpy"]) | package("numpy", "2.2.6"), (), ["torchvision", "2.12.0"]),
    ("pytorch/vision#9174", "two versions of torch are mixed in one environment",
     package("torch", "2.6.0", site=CONDA) | package("torch", "2.8.0", site=CONDA) | package("torchvision", "0.23.0", ["torch==2.8.0"], site=CONDA), (), ["torch", "twice"]),
    ("willsheffler/worms#2", "512 processes at most: BLAS cannot start its threads",
     limits(processes="512") | meminfo() | {"proc/self/status": "Cpus_allowed_list:\t0-63\n"}, (), ["processes"]),
    ("NVIDIA/NVSentinel#155", "a card fell off the bus without an Xid line",
     nvidia("570.158.01", "NVIDIA L40S") | {"var/log/kern.log": "kernel: [ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\nkernel: NVRM: (PCI ID: 10de:26b5) installed in this system has\nkernel: NVRM: fallen off the bus and is not responding to commands.\nkernel: [ 1843.4] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"}, (), ["fallen off the bus"]),
    ("NVIDIA/open-gpu-kernel-modules#789", "the card's firmware does not start",
     nvidia("550.144.03", "NVIDIA GeForce RTX 3090") | {"var/log/dmesg": "[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM\n[  903.610907] NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)\n[  903.611884] NVRM: GPU 0000:98:00.0: rm_init_adapter failed, device minor number 0\n"}, (), ["RmInitAdapter failed"]),
    ("ROCm/legacy-rocm-build#1798", "a ROCm container without /dev/kfd",
     {"sys/module/amdgpu/version": "5.16.9\n", "opt/rocm/.info/version": "5.2.0-65\n", "dev/null": "", "dev/dri/renderD128": "", ".dockerenv": ""}, (), ["/dev/kfd"]),
    ("Grace9994/CoMoSVC#6", "CUDA_VISIBLE_DEVICES names the second card of a machine with one",
     nvidia("535.161.08", "NVIDIA GeForce RTX 3060", cuda="12.1.105") | environment(CUDA_VISIBLE_DEVICES="1"), (), ["CUDA_VISIBLE_DEVICES=1"]),
    ("ayulockin/neurips-llm-efficiency-challenge#12", "flash-attn was compiled for another torch: an undefined symbol",
     package("torch", "2.1.0", site=CONDA) | package("flash_attn", "2.5.5", site=CONDA) | {CONDA + "/torch/lib/libc10_cuda.so": None, CONDA + "/flash_attn_2_cuda.so": None}, (), ["undefined symbol", "_ZN3c104cuda9SetDeviceEi"]),
]


def symbol_object(defined, needed):
    """A shared object that defines and needs these symbols."""
    def make(path):
        text = "".join(f"int {name}(int x) {{ return x; }}\n" for name in defined)
        text += "".join(f"extern int {name}(int); int use_{i}(void) {{ return {name}(1); }}\n" for i, name in enumerate(needed))
        compile_c(text, path, ["-Wl,--unresolved-symbols=ignore-all"])
    return make


STRANGERS[-1][2][CONDA + "/torch/lib/libc10_cuda.so"] = symbol_object(["_ZN3c104cuda9SetDeviceEa"], [])
STRANGERS[-1][2][CONDA + "/flash_attn_2_cuda.so"] = symbol_object([], ["_ZN3c104cuda9SetDeviceEi"])


def run_all(build_folder):
    """Yields (thread, what was wrong, the first line, words that it lacks)."""
    folder = tempfile.mkdtemp(prefix="ljperf-strangers-")
    try:
        for thread, wrong, files, arguments, words in STRANGERS:
            root = os.path.join(folder, thread.replace("/", "-"))
            build(root, files)
            _, report, first, seconds = doctor(build_folder, root, *arguments)
            lacking = [w for w in words if w not in first]
            if seconds > 2:
                lacking.append(f"an answer within 2 s ({seconds:.2f} s)")
            yield thread, wrong, first, lacking
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    named = count = 0
    for thread, wrong, first, lacking in run_all(sys.argv[1]):
        count += 1
        named += not lacking
        if lacking:
            print(f"{thread} ({wrong}):\n  {first}\n  lacks {lacking}")
    print(f"{named} of {count} causes named in the first line")
    return 0 if count >= 20 and named >= 18 else 1


if __name__ == "__main__":
    sys.exit(main())
