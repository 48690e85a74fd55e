#!/usr/bin/env python3
"""The doctor on this host as it is, and in places that are broken on purpose: no interfaces, 16 MB of /dev/shm, 1 GB and half a processor, a driver and a mount
that never answer. Needs root for the broken places; what cannot be made here is reported as skipped."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from trees import loaded  # noqa: E402

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data")
LIMIT_S = 2.0


def run(build, prefix, *arguments, env=None, **options):
    """(report, seconds): the seconds are the child's own, from start to end."""
    import time
    out = tempfile.mktemp(suffix=".json")
    busy = loaded()
    full = dict(os.environ, LJPERF_DATA_DIR=DATA, **(env or {}), **({"LJPERF_CHECK_TIME": "8"} if busy else {}))
    start = time.monotonic()
    subprocess.run(prefix + [os.path.join(build, "ljperf"), "doctor", "--json", out, *arguments], capture_output=True, env=full, timeout=60, **options)
    seconds = 0 if busy else time.monotonic() - start
    with open(out) as f:
        report = json.load(f)
    os.remove(out)
    return report, seconds


def verdict(report, name):
    weight = {"fail": 4, "warn": 3, "ok": 2, "not available": 1, "not applicable": 0}
    rows = [c for c in report["checks"] if c["name"] == name or c["name"].startswith(name + "/")]
    worst = max(rows, key=lambda c: weight[c["verdict"]])
    return worst["verdict"], worst["found"]


def expect(report, seconds, **expected):
    wrong = []
    for name, (want, word) in expected.items():
        got, found = verdict(report, name)
        if got != want or word not in found:
            wrong.append(f"{name}: expected {want} with '{word}', got {got}: {found}")
    if seconds > LIMIT_S:
        wrong.append(f"took {seconds:.2f} s, at most {LIMIT_S} s are allowed")
    return wrong, seconds


def this_host(build):
    report, seconds = run(build, [])
    return expect(report, seconds, cpu=("ok", ""), memory=("ok", ""), shared_memory=("ok", "") if shm_large() else ("warn", ""), mounts=("ok", ""), network=("ok", "is taken") if has_route() else ("warn", ""), compiler=("ok", ""))


def shm_large():
    s = os.statvfs("/dev/shm")
    return s.f_blocks * s.f_frsize > 1 << 27


def has_route():
    with open("/proc/net/route") as f:
        return any(line.split()[1] == "00000000" for line in f.readlines()[1:])


def no_interfaces(build):
    report, seconds = run(build, ["unshare", "-n"])
    return expect(report, seconds, network=("fail", "not even lo"))


def loopback_only(build):
    report, seconds = run(build, ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"])
    return expect(report, seconds, network=("warn", "no other host"))


def small_shm(build):
    report, seconds = run(build, ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=16m none /dev/shm; exec "$@"', "sh"], "--ranks", "8")
    return expect(report, seconds, shared_memory=("warn", "16.00 MiB"))


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


class Group:
    """A cgroup with 1 GB and half a processor, version 1 or 2, whichever this host has."""

    def __enter__(self):
        self.folders = []
        name = f"ljperf-test-{os.getpid()}"
        if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            folder = f"/sys/fs/cgroup/{name}"
            os.mkdir(folder)
            self.folders = [folder]
            write(folder + "/memory.max", str(1 << 30))
            write(folder + "/cpu.max", "50000 100000")
        else:
            for controller, file, value in (("memory", "memory.limit_in_bytes", str(1 << 30)), ("cpu", "cpu.cfs_quota_us", "50000")):
                folder = f"/sys/fs/cgroup/{controller}/{name}"
                os.mkdir(folder)
                self.folders.append(folder)
                write(f"{folder}/{file}", value)
        return self

    def enter(self):
        for folder in self.folders:
            write(folder + "/cgroup.procs", str(os.getpid()))

    def __exit__(self, *_):
        import time
        for folder in self.folders:
            for _attempt in range(50):
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.1)


def small_group(build):
    try:
        with Group() as group:
            report, seconds = run(build, [], preexec_fn=group.enter)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"no cgroup can be made here: {error}"
    return expect(report, seconds, memory=("warn", "limit of 1.00 GiB"), cpu_quota=("warn", "0.50 processors"))


def hanging_driver(build):
    with tempfile.TemporaryDirectory() as folder:
        source = """#include <unistd.h>
int nvmlInit_v2(void) { for (;;) pause(); }
int nvmlSystemGetDriverVersion(char *a, unsigned b) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *a) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned a, void **b) { return 0; }
int nvmlDeviceGetName(void *a, char *b, unsigned c) { return 0; }
int cuInit(unsigned a) { for (;;) pause(); }
int cuDriverGetVersion(int *a) { *a = 12080; return 0; }
"""
        for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
            subprocess.run(["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", f"{folder}/{name}"], input=source.encode(), check=True)
        report, seconds = run(build, [], env={"LD_LIBRARY_PATH": folder})
    return expect(report, seconds, nvml=("fail", "nvmlInit"), cuda_start=("fail", "cuInit"))


def failing_driver(build):
    """A driver library that answers 803 at once: the table's words."""
    with tempfile.TemporaryDirectory() as folder:
        source = "int cuInit(unsigned a) { return 803; } int cuDriverGetVersion(int *a) { *a = 12080; return 0; }"
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", f"{folder}/libcuda.so.1"], input=source.encode(), check=True)
        report, seconds = run(build, [], env={"LD_LIBRARY_PATH": folder})
    return expect(report, seconds, cuda_start=("fail", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"))


DEAD_MOUNT = r"""
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('/dev/fuse', os.O_RDWR)
os.makedirs(sys.argv[1], exist_ok=True)
text = f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()
if libc.mount(b'nobody', sys.argv[1].encode(), b'fuse.nobody', 0, text) != 0:
    print(os.strerror(ctypes.get_errno()), file=sys.stderr)
    sys.exit(77)
process = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL)
libc.umount2(sys.argv[1].encode(), 2)
os.close(fd)
sys.exit(process.returncode)
"""


def dead_mount(build):
    if not os.path.exists("/dev/fuse"):
        return None, "no /dev/fuse"
    with tempfile.TemporaryDirectory() as folder:
        try:
            report, seconds = run(build, ["unshare", "-m", sys.executable, "-c", DEAD_MOUNT, folder + "/dead"])
        except FileNotFoundError:
            return None, "a FUSE mount cannot be made here"
        return expect(report, max(0, seconds - 0.15), mounts=("fail", "dead mount"))  # less the start of the Python that makes the mount


PLACES = [("this host", this_host, False), ("no interfaces", no_interfaces, True), ("loopback only", loopback_only, True), ("/dev/shm of 16 MB", small_shm, True), ("1 GB and 0.5 processors", small_group, True),
          ("hanging driver", hanging_driver, False), ("driver answers 803", failing_driver, False), ("dead mount", dead_mount, True)]


def run_all(build):
    """Yields (name, complaints or None for skipped, seconds or the reason)."""
    for name, place, root in PLACES:
        if root and os.geteuid() != 0:
            yield name, None, "needs root"
            continue
        wrong, seconds = place(build)
        yield name, wrong, seconds


def main():
    bad = skipped = 0
    for name, wrong, seconds in run_all(sys.argv[1]):
        if wrong is None:
            skipped += 1
            print(f"{name}: skipped: {seconds}")
        else:
            bad += bool(wrong)
            print(f"{name}: {'wrong' if wrong else 'right'} in {seconds:.2f} s" + "".join("\n  " + w for w in wrong))
    print(f"{len(PLACES) - bad - skipped} right, {bad} wrong, {skipped} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
