"""Builds small file trees that look like hosts and images, and runs ljperf doctor on them. Shared by the tests and the bench rows of the doctor."""
import base64
import hashlib
import json
import os
import shutil
import subprocess
import tempfile

A100 = "NVIDIA A100-SXM4-80GB"
GEFORCE = "NVIDIA GeForce RTX 4090"
NV = "training-nv-pytorch:25.07-serverless"
XPU = "training-xpu-pytorch:25.05"
SITE = "usr/local/lib/python3.12/dist-packages"


class Link(str):
    """A symbolic link to this target."""


def nvidia_version(driver):
    return (f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Wed Jan  1 00:00:00 UTC 2025\n"
            "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n")


def library(folder, name, version):
    """lib.so.VERSION with its usual links."""
    return {f"{folder}/{name}.so.{version}": "", f"{folder}/{name}.so.1": Link(f"{name}.so.{version}")}


def nvidia(driver, card=A100, cards=1, compat=None, compat_at="usr/local/cuda-12.8/compat", cuda=None, libraries=True):
    files = {"dev/null": "", "dev/nvidiactl": "", "dev/nvidia-uvm": ""}
    if driver:
        files["proc/driver/nvidia/version"] = nvidia_version(driver)
    for i in range(cards):
        files[f"dev/nvidia{i}"] = ""
        files[f"proc/driver/nvidia/gpus/0000:{i + 1:02x}:00.0/information"] = f"Model: \t\t {card}\nIRQ:   \t\t 52\nGPU UUID: \t GPU-{i}\nBus Type: \t PCIe\n"
    if driver and libraries:
        files.update(library("usr/lib/x86_64-linux-gnu", "libcuda", driver))
        files.update(library("usr/lib/x86_64-linux-gnu", "libnvidia-ml", driver))
    if compat:
        files.update(library(compat_at, "libcuda", compat))
    if cuda:
        files.update(runtime(cuda))
    return files


def runtime(version, folder=None):
    major, minor = version.split(".")[:2]
    folder = folder or f"usr/local/cuda-{major}.{minor}/lib64"
    full = version if version.count(".") > 1 else version + ".99"
    return {f"{folder}/libcudart.so.{full}": "", f"{folder}/libcudart.so.{major}": Link(f"libcudart.so.{full}")}


def ppu(driver, cards=1, devices=True):
    files = {"proc/driver/alixpu/version": f"alixpu driver version {driver}\n", "dev/null": ""}
    if devices:
        files.update({"dev/alixpu": "", "dev/alixpu_ctl": ""})
        files.update({f"dev/alixpu_ppu{i}": "" for i in range(cards)})
    return files


def package(name, version, requires=(), files=None, site=SITE, installer="pip", python=None):
    folder = f"{site}/{name.replace('-', '_')}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    meta += f"Requires-Python: {python}\n" if python else ""
    meta += "".join(f"Requires-Dist: {r}\n" for r in requires) + "\ntext\n"
    out = {f"{folder}/METADATA": meta, f"{folder}/INSTALLER": installer + "\n"}
    record = ""
    for path, text in (files or {}).items():
        out[f"{site}/{path}"] = text
        data = text.encode() if isinstance(text, str) else text
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    out[f"{folder}/RECORD"] = record
    return out


def environment(**variables):
    return {"proc/self/environ": "".join(f"{k}={v}\0" for k, v in variables.items())}


def mounts(shm):
    return {"proc/self/mounts": f"overlay / overlay rw 0 0\nshm /dev/shm tmpfs rw,nosuid,nodev,size={shm} 0 0\n"}


def meminfo(total_gib=256):
    kib = total_gib * 1048576
    return {"proc/meminfo": f"MemTotal: {kib} kB\nMemFree: {kib} kB\nMemAvailable: {kib} kB\nHugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\n"}


def limits(memlock="unlimited", files="1048576", processes="unlimited", stack="67108864"):
    return {"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\n"
            f"Max stack size            {stack:<20} unlimited            bytes\nMax processes             {processes:<20} unlimited            processes\n"
            f"Max open files            {files:<20} 1048576              files\nMax locked memory         {memlock:<20} unlimited            bytes\n"}


def nic(name, address=None, mtu=1500, state="up", default=False):
    """(device line, sysfs files, routes, fib entries)"""
    return {"name": name, "address": address, "mtu": mtu, "state": state, "default": default}


def network(*nics):
    import ipaddress
    dev = "Inter-|   Receive\n face |bytes\n"
    route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    trie = "Main:\n"
    files = {}
    for n in nics:
        dev += f"  {n['name']}: 0 0 0\n"
        files[f"sys/class/net/{n['name']}/mtu"] = f"{n['mtu']}\n"
        files[f"sys/class/net/{n['name']}/operstate"] = n["state"] + "\n"
        if n["default"]:
            route += f"{n['name']}\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        if n["address"]:
            interface = ipaddress.ip_interface(n["address"])
            little = lambda ip: int(ip).to_bytes(4, "little").hex().upper()
            route += f"{n['name']}\t{little(interface.network.network_address)}\t00000000\t0001\t0\t0\t0\t{little(interface.netmask)}\t0\t0\t0\n"
            trie += f"           |-- {interface.ip}\n              /32 host LOCAL\n"
    files.update({"proc/net/dev": dev, "proc/net/route": route, "proc/net/fib_trie": trie})
    return files


def rdma(device="mlx5_0", state="4: ACTIVE", phys="5: LinkUp", rate="400 Gb/sec (4X NDR)", layer="InfiniBand", verbs=True):
    base = f"sys/class/infiniband/{device}/ports/1"
    files = {f"{base}/state": state + "\n", f"{base}/phys_state": phys + "\n", f"{base}/rate": rate + "\n", f"{base}/link_layer": layer + "\n"}
    if verbs:
        files[f"dev/infiniband/uverbs{device[-1]}"] = ""
    return files


def build(root, files):
    for path, content in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if os.path.lexists(full):
            os.remove(full)
        if isinstance(content, Link):
            os.symlink(content, full)
        elif callable(content):
            content(full)
        else:
            with open(full, "wb") as f:
                f.write(content.encode() if isinstance(content, str) else content)


def shared_object(needed=(), soname=None, runpath=None, versions=None):
    """A function that compiles a real shared object at a path. `needed`: sonames; `versions`: {soname: [version names]} whose symbols it uses."""
    versions = versions or {}

    def make(path):
        work = tempfile.mkdtemp()
        try:
            links, body = [], "int made_here(void) { return 1; }\n"
            for i, name in enumerate(list(needed) + [n for n in versions if n not in needed]):
                stub = os.path.join(work, f"stub{i}.so")
                script = os.path.join(work, f"stub{i}.map")
                text, source = "", ""
                for k, version in enumerate(versions.get(name, [])):
                    text += f"{version} {{ global: s{i}_{k}; }};\n"
                    source += f"int s{i}_{k}(void) {{ return 0; }}\n"
                    body += f"extern int s{i}_{k}(void); int u{i}_{k}(void) {{ return s{i}_{k}(); }}\n"
                with open(script, "w") as f:
                    f.write(text)
                extra = [f"-Wl,--version-script={script}"] if text else []
                compile_c(source or "int nothing_here;", stub, [f"-Wl,-soname,{name}"] + extra)
                links.append(stub)
            extra = [f"-Wl,-soname,{soname}"] if soname else []
            extra += [f"-Wl,-rpath,{runpath}"] if runpath else []
            compile_c(body, path, ["-Wl,--no-as-needed"] + links + extra)
        finally:
            shutil.rmtree(work)
    return make


def provider(soname, versions=()):
    """A shared object that defines version names, as a C library does."""
    def make(path):
        script = path + ".map"
        with open(script, "w") as f:
            f.write("".join(f"{v} {{ global: d{i}; }};\n" for i, v in enumerate(versions)))
        compile_c("".join(f"int d{i}(void) {{ return 0; }}\n" for i in range(len(versions))) or "int nothing_here;", path, [f"-Wl,-soname,{soname}"] + ([f"-Wl,--version-script={script}"] if versions else []))
        os.remove(script)
    return make


def compile_c(source, path, flags):
    subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", path, "-x", "none"] + flags, input=source.encode(), check=True)


def loaded():
    """More to do than processors: times mean nothing then, and time-outs are given more room."""
    return os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)


def doctor(build_folder, root, *arguments, environment_=None):
    """(exit code, report, first line of the text form, seconds); under load the seconds are 0, as they would be the load's."""
    env = dict(os.environ, LJPERF_DATA_DIR=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data"))
    busy = loaded()
    if busy:
        env["LJPERF_CHECK_TIME"] = "10"
    env.update(environment_ or {})
    import time
    start = time.monotonic()
    command = [os.path.join(build_folder, "ljperf"), "doctor"] + (["--root", root] if root else []) + list(arguments)
    json_file = tempfile.mktemp(suffix=".json")
    run = subprocess.run(command + ["--json", json_file], capture_output=True, text=True, env=env, timeout=60)
    seconds = 0 if busy else time.monotonic() - start
    report = None
    if os.path.exists(json_file):
        with open(json_file) as f:
            report = json.load(f)
        os.remove(json_file)
    return run.returncode, report, (run.stdout + run.stderr).splitlines()[0] if run.stdout + run.stderr else "", seconds


def judge(report, expected):
    """Compares {check: verdict}: a name matches itself and its parts; the worst of them counts. Returns a list of complaints."""
    weight = {"fail": 4, "warn": 3, "ok": 2, "not available": 1, "not applicable": 0}
    wrong = []
    for name, verdict in expected.items():
        found = [c for c in report["checks"] if c["name"] == name or c["name"].startswith(name + "/")]
        got = max((c["verdict"] for c in found), key=weight.get, default="(no such check)")
        if got != verdict:
            wrong.append(f"{name}: expected {verdict}, got {got}: {[c['found'] for c in found]}")
    for c in report["checks"]:
        if c["verdict"] in ("warn", "fail") and not (c["source"] and c["next_step"] and c["found"]):
            wrong.append(f"{c['name']}: no source, next step or finding: {c}")
        base = c["name"].split("/")[0]
        if c["verdict"] == "fail" and expected.get(c["name"]) != "fail" and expected.get(base) != "fail":
            wrong.append(f"{c['name']}: unexpected fail: {c['found']}")
    return wrong
