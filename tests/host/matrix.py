#!/usr/bin/env python3
"""The fixture matrix: each row is a small tree, how the doctor is called on it, and the verdicts, written by hand."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from trees import *  # noqa: F401,F403

COMPAT = "570.86.10"
ROWS = []


def row(name, files, expected, *arguments, overall=None, says=""):
    """`overall` is the report's verdict; by default the worst of the expected ones; `says` must stand in the summary."""
    if overall is None:
        overall = "fail" if "fail" in expected.values() else "warn" if "warn" in expected.values() else "ok"
    ROWS.append((name, files, expected, arguments, overall, says))


def image(name, driver, verdict, card=A100, compat=None, overall=None, says="", order=None):
    expected = {"driver": verdict}
    if order:
        expected["compat_order"] = order
    row(name, nvidia(driver, card, compat=compat), expected, "--image", NV, overall=overall, says=says)


# --- training-nv-pytorch 25.07: every branch that its notes name, at, below and above its minimum ---
image("575-at", "575.51.03", "ok")
image("575-above", "580.65.06", "ok")
image("575-just-below", "574.99", "fail", says="575")
image("470-at-compat", "470.57", "ok", compat=COMPAT, order="warn")
image("470-above-compat", "470.256.02", "ok", compat=COMPAT, order="warn")
image("470-below-compat", "470.42.01", "fail", compat=COMPAT, says="470.57")
image("525-at-compat", "525.85", "ok", compat=COMPAT, order="warn")
image("525-above-compat", "525.147.05", "ok", compat=COMPAT, order="warn")
image("525-below-compat", "525.60.13", "fail", compat=COMPAT, says="525.85")
image("535-at-compat", "535.86", "ok", compat=COMPAT, order="warn")
image("535-above-compat", "535.183.01", "ok", compat=COMPAT, order="warn")
image("535-below-compat", "535.54.03", "fail", compat=COMPAT, says="535.86")
image("545-at-compat", "545.23", "warn", compat=COMPAT, says="contradict")
image("545-above-compat", "545.29.06", "warn", compat=COMPAT, says="contradict")
image("545-below-compat", "545.22", "fail", compat=COMPAT, says="545.23")
for branch in ("418.197.02", "440.118.02", "450.248.02", "460.106.00", "510.108.03", "520.61.05", "530.41.03", "555.58.02", "560.35.05"):
    image(f"{branch}-refused", branch, "fail", compat=COMPAT, says="not forward compatible")
# without the compatibility library
for branch in ("470.256.02", "525.147.05", "535.183.01", "545.29.06"):
    image(f"{branch}-no-compat", branch, "fail", says="compatibility package")
# consumer cards, with and without it
image("geforce-575", "575.57.08", "ok", card=GEFORCE)
image("geforce-535-compat", "535.183.01", "fail", card=GEFORCE, compat=COMPAT, says="data-centre")
image("geforce-535-no-compat", "535.183.01", "fail", card=GEFORCE, says="575")
image("geforce-470-compat", "470.256.02", "fail", card="NVIDIA GeForce GTX 1080 Ti", compat=COMPAT)
image("titan-545-compat", "545.29.06", "fail", card="NVIDIA TITAN RTX", compat=COMPAT)
image("workstation-535-compat", "535.183.01", "warn", card="NVIDIA RTX A6000", compat=COMPAT)
# data-centre names
for card in ("Tesla V100-SXM2-32GB", "Tesla T4", "NVIDIA H100 80GB HBM3", "NVIDIA H20", "NVIDIA L40S", "NVIDIA A10", "NVIDIA H800", "NVIDIA L20", "NVIDIA A800-SXM4-80GB"):
    image(f"{card}-535-compat".replace(" ", "-"), "535.183.01", "ok", card=card, compat=COMPAT, order="warn")
image("B200-535-compat", "535.183.01", "fail", card="NVIDIA B200", compat=COMPAT, says="Blackwell")
image("B200-575", "575.57.08", "ok", card="NVIDIA B200")
# branches in neither list
image("570-unlisted", "570.124.06", "fail", says="570.26")
image("570-before-12.8", "570.20", "fail")
image("550-unlisted-compat", "550.90.07", "fail", compat=COMPAT, says="neither")
image("550-unlisted-no-compat", "550.90.07", "fail")
image("515-unlisted-compat", "515.105.01", "fail", compat=COMPAT)
# the package in front: errors 803 and 804 foreseen
ahead = environment(LD_LIBRARY_PATH="/usr/local/cuda-12.8/compat:/usr/local/lib")
row("compat-first-535", nvidia("535.183.01", compat=COMPAT) | ahead, {"driver": "ok", "compat_order": "ok"}, "--image", NV)
row("compat-first-580", nvidia("580.65.06", compat=COMPAT) | ahead, {"driver": "ok", "compat_order": "fail"}, "--image", NV, says="803")
row("compat-first-geforce", nvidia("535.183.01", GEFORCE, compat=COMPAT) | ahead, {"driver": "fail", "compat_order": "fail"}, "--image", NV, says="804")
row("compat-same-version", nvidia("570.86.10", compat=COMPAT, cuda="12.8.57") | ahead, {"driver": "ok", "compat_order": "ok"})
row("compat-pinned-conf", nvidia("580.65.06", compat=COMPAT) | {"etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n", "etc/ld.so.conf.d/00-compat.conf": "/usr/local/cuda-12.8/compat\n"},
    {"driver": "ok", "compat_order": "fail"}, "--image", NV, says="803")
row("compat-pinned-old-driver", nvidia("535.183.01", compat=COMPAT) | {"etc/ld.so.conf.d/00-compat.conf": "/usr/local/cuda-12.8/compat\n"}, {"driver": "ok", "compat_order": "warn"}, "--image", NV)
# case 94: GeForce, driver 535, runtime 12.4 with the package
row("case-94", nvidia("535.183.01", GEFORCE, compat="550.54.15", compat_at="usr/local/cuda-12.4/compat", cuda="12.4.127") | environment(LD_LIBRARY_PATH="/usr/local/cuda-12.4/compat"),
    {"driver": "fail", "compat_order": "fail"}, says="data-centre")
# case 95: use, skip, skip
compat13 = dict(compat="580.65.06", compat_at="usr/local/cuda-13.0/compat", cuda="13.0.48")
row("case-95-use", nvidia("535.183.01", **compat13) | environment(LD_LIBRARY_PATH="/usr/local/cuda-13.0/compat"), {"driver": "ok", "compat_order": "ok"})
row("case-95-skip-580", nvidia("580.95.05", **compat13), {"driver": "ok", "compat_order": "ok"})
row("case-95-skip-595", nvidia("595.45.04", **compat13), {"driver": "ok", "compat_order": "ok"})
row("case-95-595-compat-first", nvidia("595.45.04", **compat13) | environment(LD_LIBRARY_PATH="/usr/local/cuda-13.0/compat"), {"driver": "ok", "compat_order": "fail"}, says="803")
row("case-95-no-compat", nvidia("535.183.01", cuda="13.0.48"), {"driver": "fail"})
row("minor-compatibility", nvidia("535.183.01", cuda="12.4.127"), {"driver": "warn"}, says="minor version")
row("native-12.4", nvidia("550.54.15", cuda="12.4.127"), {"driver": "ok"})
row("too-old-for-12", nvidia("470.256.02", cuda="12.4.127"), {"driver": "fail"})
row("rtx-5090-old-torch", nvidia("575.57.08", card="NVIDIA GeForce RTX 5090", cuda="12.4.127"), {"driver": "fail"}, says="no kernel image")
row("v100-cuda-13", nvidia("580.95.05", card="Tesla V100-SXM2-32GB", cuda="13.0.48"), {"driver": "fail"}, says="Volta")
row("visible-devices-beyond", nvidia("575.51.03", cuda="12.8.57") | environment(CUDA_VISIBLE_DEVICES="1"), {"devices": "fail"}, says="names card 1")
row("gloo-caret", environment(GLOO_SOCKET_IFNAME="^lo,docker0"), {"environment": "fail"}, says="Gloo takes names")
row("kepler-branch-11", nvidia("470.256.02", card="Tesla K80", cuda="11.4.148"), {"driver": "ok"})
# case 97: the driver cannot be read
row("case-97-devices-only", nvidia(None) | {"proc/driver/nvidia/params": "x\n"}, {"driver": "fail"}, says="driver: not found")
row("case-97-zero", {"proc/driver/nvidia/version": "0.0\n", "dev/nvidiactl": "", "dev/nvidia0": "", "dev/nvidia-uvm": ""}, {"driver": "fail"}, says="/proc/driver/nvidia/version")
row("case-97-image", {"etc/hostname": "a\n", "etc/hosts": "10.0.0.1 a\n"}, {"driver": "fail"}, "--image", NV, says="not found")
row("no-card-at-all", {"etc/hostname": "a\n", "etc/hosts": "10.0.0.1 a\n"}, {"driver": "not applicable", "ppu_driver": "not applicable", "amd_driver": "not applicable"})
row("open-module", nvidia("570.124.06", cuda="12.8.90") | {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (root@h)\n"}, {"driver": "ok"})
row("library-mismatch", nvidia("550.54.15") | library("usr/lib/x86_64-linux-gnu", "libnvidia-ml", "550.90.07"), {"driver_libraries": "fail"}, says="mismatch")
row("missing-uvm", {k: v for k, v in nvidia("575.51.03").items() if k != "dev/nvidia-uvm"}, {"devices": "fail"}, says="nvidia-uvm")
# container toolkit
row("toolkit-missing", nvidia("575.51.03") | {"usr/bin/docker": ""}, {"container_toolkit": "fail"}, says="container toolkit")
row("toolkit-there", nvidia("575.51.03") | {"usr/bin/docker": "", "usr/bin/nvidia-ctk": "", "etc/docker/daemon.json": '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}'}, {"container_toolkit": "ok"})
row("toolkit-not-configured", nvidia("575.51.03") | {"usr/bin/docker": "", "usr/bin/nvidia-ctk": "", "etc/docker/daemon.json": "{}"}, {"container_toolkit": "warn"})
row("toolkit-cdi", nvidia("575.51.03") | {"usr/bin/podman": "", "etc/cdi/nvidia.yaml": "cdiVersion: 0.5.0\n"}, {"container_toolkit": "ok"})
# PPU
row("ppu-1.0.9", ppu("1.0.9"), {"ppu_driver": "fail"}, "--image", XPU, says="1.1.0")
row("ppu-1.1.0", ppu("1.1.0"), {"ppu_driver": "warn"}, "--image", XPU, says="1.5.1")
row("ppu-1.5.1", ppu("1.5.1"), {"ppu_driver": "ok"}, "--image", XPU)
row("ppu-1.6.0", ppu("1.6.0", cards=16), {"ppu_driver": "ok"}, "--image", XPU)
row("ppu-no-devices", ppu("1.5.1", devices=False) | {"dev/alixpu": ""}, {"ppu_driver": "fail"}, "--image", XPU, says="alixpu")
row("ppu-sdk-other", ppu("1.5.1") | {"usr/local/PPU_SDK/version": "1.4.2\n"}, {"ppu_driver": "warn"}, "--image", XPU)
row("ppu-missing", {"etc/hostname": "a\n", "etc/hosts": "10.0.0.1 a\n"}, {"ppu_driver": "fail"}, "--image", XPU)
row("ppu-host-nv-image", ppu("1.5.1"), {"driver": "fail", "image": "fail"}, "--image", NV)
row("nv-host-ppu-image", nvidia("575.51.03"), {"ppu_driver": "fail", "image": "fail"}, "--image", XPU)
# AMD
row("amd-ok", {"sys/module/amdgpu/version": "6.8.5\n", "dev/kfd": "", "dev/dri/renderD128": "", "opt/rocm/.info/version": "6.2.0-66\n"}, {"amd_driver": "ok"})
row("amd-no-kfd", {"sys/module/amdgpu/version": "6.8.5\n", "dev/dri/renderD128": ""}, {"amd_driver": "fail"}, says="/dev/kfd")
row("amd-no-module", {"sys/bus/pci/devices/0000:01:00.0/vendor": "0x1002\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x038000\n"}, {"amd_driver": "fail"}, says="not found")
# runtimes
nv_wheel = f"{SITE}/nvidia/cuda_runtime/lib"
row("two-runtimes", runtime("12.8.57") | {f"{nv_wheel}/libcudart.so.11.0": ""} | package("nvidia-cuda-runtime-cu11", "11.8.89", files={"nvidia/cuda_runtime/lib/libcudart.so.11.0": ""}), {"cuda_runtimes": "fail"},
    says="nvidia_cuda_runtime_cu11 11.8.89")
row("two-minor-runtimes", runtime("12.8.57") | runtime("12.4.127"), {"cuda_runtimes": "warn"})
row("one-runtime", runtime("12.8.57"), {"cuda_runtimes": "ok"})
# case 98
row("case-98", runtime("12.4.127") | {f"{SITE}/vllm/_C.abi3.so": shared_object(["libcudart.so.11.0"])} | {"etc/ld.so.conf": "/usr/local/cuda-12.4/lib64\n"},
    {"needed_libraries": "fail"}, says="libcudart.so.11.0")
row("case-98-good", runtime("12.4.127") | {f"{SITE}/vllm/_C.abi3.so": shared_object(["libcudart.so.12"])} | {"etc/ld.so.conf": "/usr/local/cuda-12.4/lib64\n"}, {"needed_libraries": "ok"})
row("glibc-too-old", {"usr/lib/x86_64-linux-gnu/libc.so.6": provider("libc.so.6", ["GLIBC_2.2.5", "GLIBC_2.31"]), f"{SITE}/fast/_x.so": shared_object(versions={"libc.so.6": ["GLIBC_2.34"]})},
    {"symbol_versions": "fail"}, says="GLIBC_2.34")
# fabric manager
switch = {"dev/nvidia-nvswitchctl": "", "dev/nvidia-nvswitch0": ""}
row("fabric-manager-missing", nvidia("575.51.03", "NVIDIA H100 80GB HBM3") | switch, {"fabric_manager": "fail"}, says="802")
row("fabric-manager-runs", nvidia("575.51.03", "NVIDIA H100 80GB HBM3") | switch | {"proc/812/comm": "nv-fabricmanage\n"}, {"fabric_manager": "ok"})
row("fabric-manager-other", nvidia("575.51.03", "NVIDIA H100 80GB HBM3") | switch | {"proc/812/comm": "nv-fabricmanage\n", "var/lib/dpkg/status": "Package: nvidia-fabricmanager-570\nStatus: install ok installed\nVersion: 570.86.10-1\n\n"},
    {"fabric_manager": "fail"}, says="fabric manager 570.86.10")
# Xid
row("xid-79", nvidia("575.51.03") | {"var/log/kern.log": "Jan 1 h kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"}, {"kernel_log": "fail"}, says="fallen off the bus")
row("xid-13", nvidia("575.51.03") | {"var/log/dmesg": "[1.0] NVRM: Xid (PCI:0000:65:00): 13, pid=1234, Graphics Exception\n"}, {"kernel_log": "warn"})
# case 100: shared memory
row("shm-16m", mounts("16384k") | meminfo() | environment(LOCAL_WORLD_SIZE="8"), {"shared_memory": "warn"}, says="--shm-size")
row("shm-64m", mounts("65536k") | meminfo() | environment(LOCAL_WORLD_SIZE="8"), {"shared_memory": "warn"}, says="320.00 MiB")
row("shm-1g", mounts("1048576k") | meminfo() | environment(LOCAL_WORLD_SIZE="8"), {"shared_memory": "ok"})
row("shm-1g-by-flag", mounts("1g") | meminfo(), {"shared_memory": "ok"}, "--ranks", "8")
row("shm-not-mounted", {"proc/self/mounts": "overlay / overlay rw 0 0\n"} | meminfo(), {"shared_memory": "warn"}, says="not mounted")
# cgroups
v2 = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n"}
row("cgroup2-1g", meminfo() | v2 | {"sys/fs/cgroup/memory.max": "1073741824\n"}, {"memory": "warn"}, says="1.00 GiB")
row("cgroup1-1g", meminfo() | {"proc/self/cgroup": "4:memory:/docker/abc\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"}, {"memory": "warn"})
row("cgroup1-unlimited", meminfo() | {"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, {"memory": "ok"})
row("cgroup2-half-cpu", meminfo() | v2 | {"sys/fs/cgroup/cpu.max": "50000 100000\n", "proc/self/status": "Cpus_allowed_list:\t0-3\n"}, {"cpu_quota": "warn"}, says="0.50")
row("cgroup1-half-cpu", meminfo() | {"proc/self/cgroup": "1:cpu:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n", "proc/self/status": "Cpus_allowed_list:\t0-3\n"}, {"cpu_quota": "warn"})
row("cgroup2-max", meminfo() | v2 | {"sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n", "proc/self/status": "Cpus_allowed_list:\t0-3\n"}, {"cpu_quota": "ok", "memory": "ok"})
row("threads-over-quota", meminfo() | v2 | {"sys/fs/cgroup/cpu.max": "400000 100000\n", "proc/self/status": "Cpus_allowed_list:\t0-31\n"} | environment(OMP_NUM_THREADS="16"), {"cpu_quota": "warn"})
row("pids-limit", v2 | {"sys/fs/cgroup/pids.max": "256\n"} | limits(), {"process_limits": "fail"}, says="pids-limit")
# limits and RDMA
row("memlock-rdma", limits("65536") | rdma(), {"process_limits": "fail", "rdma": "ok"}, says="memlock")
row("memlock-unlimited-rdma", limits() | rdma(), {"process_limits": "ok", "rdma": "ok"})
row("rdma-down", rdma(state="1: DOWN", phys="3: Disabled"), {"rdma": "fail"}, says="DOWN")
row("rdma-mixed-rates", rdma() | rdma("mlx5_1", rate="200 Gb/sec (4X HDR)"), {"rdma": "warn"})
row("rdma-no-verbs", rdma(verbs=False) | {"dev/null": ""}, {"rdma": "fail"}, says="uverbs")
# network
lo = nic("lo", "127.0.0.1/8", 65536, "unknown")
row("network-eth0", network(lo, nic("eth0", "10.0.0.5/24", default=True)), {"network": "ok"})
row("network-only-lo", network(lo), {"network": "warn"})
row("network-only-lo-many", network(lo) | environment(WORLD_SIZE="16", LOCAL_WORLD_SIZE="8"), {"network": "fail"}, says="no other host")
row("network-none-up", network(nic("lo", None, 65536, "down")), {"network": "fail"}, says="not even lo")
row("network-wrong-name", network(lo, nic("ens3", "10.0.0.5/24", default=True)) | environment(NCCL_SOCKET_IFNAME="eth0"), {"network": "fail"}, says="ens3")
row("network-16-cards", network(lo, nic("eth0", "10.0.0.5/24", default=True), nic("hpn0", "10.1.0.5/24")), {"network": "ok"}, "--ranks", "16")
row("network-16-cards-eth0", network(lo, nic("eth0", "10.0.0.5/24", default=True), nic("hpn0", "10.1.0.5/24")) | environment(NCCL_SOCKET_IFNAME="eth0"), {"network": "warn"}, "--ranks", "16", says="hpn0")
row("host-name-loopback", {"etc/hostname": "node1\n", "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 node1\n"}, {"host_name": "warn"})
row("host-name-loopback-many", {"etc/hostname": "node1\n", "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 node1\n"} | environment(WORLD_SIZE="4", LOCAL_WORLD_SIZE="2"), {"host_name": "fail"}, says="127.0.1.1")
# patched packages
patched = package("torch", "2.7.1.8+nv25.3") | package("deepspeed", "0.16.9+ali") | package("transformers", "4.51.2+ali") | package("accelerate", "1.7.0+ali") | package("transformer_engine", "2.3.0+5de3e14")
for name, version in (("triton", "3.3.0"), ("flash-attn", "2.7.2"), ("flashattn-hopper", "3.0.0b1"), ("megatron-core", "0.12.1"), ("grouped_gemm", "1.1.4"), ("diffusers", "0.34.0"), ("mmengine", "0.10.3"), ("mmcv", "2.1.0"), ("mmdet", "3.3.0"),
                      ("opencv-python-headless", "4.11.0.86"), ("ultralytics", "8.3.96"), ("timm", "1.0.17"), ("vllm", "0.9.2"), ("flashinfer-python", "0.2.5"), ("pytorch-dynamic-profiler", "0.24.11"), ("peft", "0.16.0"), ("ray", "2.47.1")):
    patched |= package(name, version)
driver_ok = nvidia("575.51.03")
row("packages-as-shipped", driver_ok | patched, {"patched_packages": "ok"}, "--image", NV)
replaced = {k: v for k, v in patched.items() if "/torch-" not in k} | package("torch", "2.7.1")
row("torch-reinstalled", driver_ok | replaced, {"patched_packages": "fail"}, "--image", NV, says="nv25.3")
row("vllm-other", driver_ok | {k: v for k, v in patched.items() if "/vllm-" not in k} | package("vllm", "0.10.0"), {"patched_packages": "warn"}, "--image", NV)
row("torch-twice", package("torch", "2.7.1") | package("torch", "2.6.0"), {"package_requirements": "fail"}, says="twice")
row("torchvision-mismatch", package("torch", "2.6.0") | package("torchvision", "0.20.1", ["torch (==2.5.1)", "numpy"]) | package("numpy", "1.26.4"), {"package_requirements": "fail"}, says="torch")
row("requirements-fit", package("torch", "2.5.1+cu124") | package("torchvision", "0.20.1", ["torch==2.5.1", "numpy", "scipy ; extra == 'scipy'"]) | package("numpy", "1.26.4"), {"package_requirements": "ok"})
row("record-changed", package("torch", "2.7.1", files={"torch/version.py": "a = 1\n"}) | {f"{SITE}/torch/version.py": "a = 2\n"}, {"package_files": "warn"}, says="torch/version.py")
# environment
row("env-blocking", environment(CUDA_LAUNCH_BLOCKING="1"), {"environment": "warn"}, says="CUDA_LAUNCH_BLOCKING")
row("env-no-cards", environment(CUDA_VISIBLE_DEVICES=""), {"environment": "fail"}, says="CUDA_VISIBLE_DEVICES")
row("env-stubs", environment(LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs"), {"environment": "fail"}, says="stub")
row("env-spawn", ppu("1.5.1") | environment(VLLM_WORKER_MULTIPROC_METHOD="fork"), {"environment": "warn"}, "--image", XPU)
row("clock-hpet", {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"}, {"clock_source": "warn"})
row("thp-never", meminfo() | {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"}, {"huge_pages": "warn"})
row("overcommit-2", {"proc/sys/vm/overcommit_memory": "2\n"}, {"kernel_settings": "warn"})
# a FIFO stands for a driver that does not answer
row("hanging-driver-file", {"proc/driver/nvidia/version": os.mkfifo, "dev/nvidiactl": ""}, {n: "fail" for n in ("driver", "driver_libraries", "compat_order", "devices", "fabric_manager", "container_toolkit")} | {"cuda_runtimes": "not available"},
    says="no answer within")


def host_report(folder, build_folder, name, files, *arguments):
    root = os.path.join(folder, name)
    build(root, {"etc/hostname": name + "\n", "etc/hosts": f"10.0.0.1 {name}\n"} | files)
    out = os.path.join(folder, name + ".json")
    env = dict(os.environ, LJPERF_DATA_DIR=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data"), LJPERF_CHECK_TIME="10" if loaded() else "1")
    subprocess.run([os.path.join(build_folder, "ljperf"), "doctor", "--root", root, "--json", out, *arguments], capture_output=True, env=env, timeout=60)
    return out


bridge = [lo, nic("docker0", "172.17.0.1/16")]
MERGES = [
    ("mixed-drivers", network(lo, nic("eth0", "10.0.0.1/24", default=True)) | nvidia("575.51.03"), network(lo, nic("eth0", "10.0.0.2/24", default=True)) | nvidia("535.183.01"), {"hosts/nvidia_driver": "fail"}, "driver"),
    ("mixed-minor-drivers", nvidia("575.51.03"), nvidia("575.57.08"), {"hosts/nvidia_driver": "warn"}, "driver"),
    ("mixed-ppu", ppu("1.1.0"), ppu("1.5.1"), {"hosts/ppu_driver": "fail"}, "PPU driver"),
    ("mixed-cards", nvidia("575.51.03"), nvidia("575.51.03", "NVIDIA H20"), {"hosts/nvidia_cards": "warn"}, "cards"),
    ("mixed-torch", package("torch", "2.7.1.8+nv25.3"), package("torch", "2.7.1"), {"hosts/torch": "fail"}, "torch"),
    ("mixed-runtime", runtime("12.8.57"), runtime("12.4.127"), {"hosts/cuda_runtime": "fail"}, "CUDA runtime"),
    ("mixed-mtu", network(lo, nic("eth0", "10.0.0.1/24", 9000, default=True)), network(lo, nic("eth0", "10.0.0.2/24", 1500, default=True)), {"hosts/mtu": "warn"}, "MTU"),
    ("case-101", network(*bridge, nic("eth0", "10.0.0.1/24", default=True)), network(*bridge, nic("eth0", "10.0.0.2/24", default=True)), {"hosts/docker0": "warn"}, "^docker0"),
    ("case-101-same-eth", network(lo, nic("eth0", "10.0.0.1/24", default=True)), network(lo, nic("eth0", "10.0.0.1/24", default=True)), {"hosts/eth0": "fail"}, "same address"),
    ("agree", network(lo, nic("eth0", "10.0.0.1/24", default=True)) | nvidia("575.51.03"), network(lo, nic("eth0", "10.0.0.2/24", default=True)) | nvidia("575.51.03"), {"hosts/nvidia_driver": "(no such check)", "hosts/clock": "ok"}, ""),
    ("rdma-on-one", rdma(), {"etc/x": ""}, {"hosts/rdma": "fail"}, "RDMA"),
]


def run_merge(folder, build_folder, name, a, b, expected, says):
    base = os.path.join(folder, name)
    paths = [host_report(base, build_folder, "one", a), host_report(base, build_folder, "two", b)]
    out = os.path.join(base, "merged.json")
    run = subprocess.run([os.path.join(build_folder, "ljperf"), "doctor", "--merge", *paths, "--json", out], capture_output=True, text=True, timeout=30)
    if not os.path.exists(out):
        return [run.stderr]
    with open(out) as f:
        report = json.load(f)
    wrong = judge(report, {**expected, **{c["name"]: c["verdict"] for c in report["checks"] if not c["name"].startswith("hosts/")}})
    if says and says not in json.dumps(report):
        wrong.append(f"'{says}' stands nowhere in the merged report")
    if run.returncode != (1 if report["verdict"] == "fail" else 0):
        wrong.append(f"exit {run.returncode} for verdict {report['verdict']}")
    return wrong


def run_all(build_folder):
    """Yields (name, complaints) for every row."""
    folder = tempfile.mkdtemp(prefix="ljperf-matrix-")
    try:
        for name, files, expected, arguments, overall, says in ROWS:
            root = os.path.join(folder, name.replace("/", "-"))
            build(root, files)
            code, report, first, seconds = doctor(build_folder, root, *arguments)
            if report is None:
                yield name, [f"no report: exit {code}: {first}"]
                continue
            wrong = judge(report, expected)
            if report["verdict"] != overall:
                wrong.append(f"verdict {report['verdict']}, expected {overall}: {report['summary']}")
            if code != (1 if overall == "fail" else 0):
                wrong.append(f"exit {code}")
            if says and says not in json.dumps([c for c in report["checks"] if c["verdict"] in ("warn", "fail")]):
                wrong.append(f"no warning or failure says '{says}'")
            if seconds > 2:
                wrong.append(f"{seconds:.2f} s")
            shutil.rmtree(root)
            yield name, wrong
        for name, a, b, expected, says in MERGES:
            yield "merge-" + name, run_merge(folder, build_folder, name, a, b, expected, says)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    bad = count = 0
    for name, wrong in run_all(sys.argv[1]):
        count += 1
        if wrong:
            bad += 1
            print(f"{name}:\n  " + "\n  ".join(wrong))
    print(f"{count} fixtures, {bad} wrong")
    return 1 if bad or count < 80 else 0


if __name__ == "__main__":
    sys.exit(main())
