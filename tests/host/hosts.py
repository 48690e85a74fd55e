#!/usr/bin/env python3
"""--hosts through a stand-in for ssh, --watch, --job, and the report's form."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from trees import *  # noqa: F401,F403
from images import DATA, ljperf  # noqa: E402

lo = nic("lo", "127.0.0.1/8", 65536, "unknown")


def fake_ssh(folder, build_folder):
    """An ssh that runs the command with the host's tree; host 'gone' refuses, host 'late' has a clock 100 s behind."""
    path = os.path.join(folder, "ssh")
    with open(path, "w") as f:
        f.write(f"""#!/bin/sh
while [ "$1" != "--" ]; do shift; done
host=$2
[ "$host" = gone ] && {{ echo "ssh: connect to host gone port 22: Connection refused" >&2; exit 255; }}
"{build_folder}/ljperf" doctor --root "{folder}/$host" --json - | if [ "$host" = late ]; then sed 's/"time_unix_s": 1/"time_unix_s": /'; else cat; fi
""")
    os.chmod(path, 0o755)


def ask(build_folder, folder, hosts):
    out = os.path.join(folder, "hosts.json")
    env = {"PATH": folder + ":" + os.environ["PATH"], "LJPERF_CHECK_TIME": "10" if loaded() else "1"}
    run = ljperf(build_folder, "doctor", "--hosts", hosts, "--json", out, env=env)
    return run, json.load(open(out)) if os.path.exists(out) else None


def check_hosts(build_folder, folder):
    wrong = []
    fake_ssh(folder, build_folder)
    for name, address, driver in (("a", "10.0.0.1/24", "575.51.03"), ("b", "10.0.0.2/24", "575.51.03"), ("c", "10.0.0.3/24", "535.183.01"), ("late", "10.0.0.4/24", "575.51.03")):
        build(os.path.join(folder, name), network(lo, nic("eth0", address, default=True)) | nvidia(driver) | {"etc/hostname": name + "\n", "etc/hosts": f"{address.split('/')[0]} {name}\n"})
    run, report = ask(build_folder, folder, "a,b")
    wrong += [] if run.returncode == 0 and report["verdict"] == "ok" else [f"two like hosts: {run.stdout}{run.stderr}"]
    run, report = ask(build_folder, folder, "a,c")
    wrong += [] if run.returncode == 1 and "NVIDIA driver differs" in run.stdout else [f"two drivers: {run.stdout}{run.stderr}"]
    run, report = ask(build_folder, folder, "a,gone,b")
    wrong += [] if run.returncode == 1 and "Connection refused" in run.stdout.splitlines()[0] else [f"a host that is gone: {run.stdout}{run.stderr}"]
    run, report = ask(build_folder, folder, "a,late")
    wrong += [] if run.returncode == 1 and "clocks differ" in run.stdout else [f"a clock that is behind: {run.stdout}{run.stderr}"]
    return wrong


def check_watch(build_folder, folder):
    """A verdict that changes while it watches is printed; SIGTERM ends it."""
    root = os.path.join(folder, "watched")
    build(root, mounts("1g") | meminfo())
    process = subprocess.Popen([os.path.join(build_folder, "ljperf"), "doctor", "--root", root, "--watch", "--interval", "0.3", "--ranks", "8", "--check-time", "10"], stdout=subprocess.PIPE, text=True, env=dict(os.environ, LJPERF_DATA_DIR=DATA))
    time.sleep(6 if loaded() else 2)
    build(root, mounts("16m"))
    time.sleep(10 if loaded() else 2.5)
    process.terminate()
    text = process.communicate(timeout=60)[0]
    return [] if "shared_memory: ok -> warn" in text and process.returncode == 0 else [f"watch (exit {process.returncode}): {text}"]


JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: x}
spec:
  parallelism: 2
  template:
    metadata: {labels: {alibabacloud.com/compute-class: gpu, alibabacloud.com/gpu-driver-version: "DRIVER"}}
    spec:
      containers:
        - name: main
          image: registry.example/egslingjun/training-nv-pytorch:25.07-serverless
          env: [{name: NCCL_SOCKET_IFNAME, value: @NIC@}, {name: CUDA_LAUNCH_BLOCKING, value: "@WAIT@"}]
          resources: {limits: {nvidia.com/gpu: CARDS, cpu: 32, memory: 64Gi}}
          MOUNT
      VOLUME
"""
SHM = ("volumeMounts: [{name: shm, mountPath: /dev/shm}]", "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 32Gi}}]")


def job_report(build_folder, folder, driver="575.51.03", interface="eth0", cards=8, block="0", shm=SHM):
    text = JOB
    for mark, value in (("DRIVER", driver), ("@NIC@", interface), ("CARDS", str(cards)), ("@WAIT@", block), ("MOUNT", shm[0]), ("VOLUME", shm[1])):
        text = text.replace(mark, value)
    with open(folder + "/job.yaml", "w") as f:
        f.write(text)
    root = folder + "/job-root"
    if not os.path.exists(root):
        build(root, nvidia("575.51.03", cards=16) | meminfo(256))
    _, report, first, _ = doctor(build_folder, root, "--job", folder + "/job.yaml")
    return {c["name"]: c["verdict"] for c in report["checks"] if c["name"].startswith("job") or c["name"].startswith("environment")}, report, first


def check_job(build_folder, folder):
    wrong = []
    for words, expected in (({}, {"job/interface": "ok", "job/shared_memory": "ok", "job/driver_version": "ok", "job/image": "ok"}), ({"interface": "hpn0"}, {"job/interface": "warn"}), ({"cards": 16, "interface": "eth0"}, {"job/interface": "warn", "job/compute_class": "warn"}),
                            ({"driver": "535.86"}, {"job/driver_version": "fail"}), ({"shm": ("", "")}, {"job/shared_memory": "warn"}), ({"block": "1"}, {"environment/CUDA_LAUNCH_BLOCKING": "warn"})):
        verdicts, report, _ = job_report(build_folder, folder, **words)
        wrong += [f"job {words}: {name} is {verdicts.get(name)}, not {want}" for name, want in expected.items() if verdicts.get(name) != want]
        wrong += [] if report["image"] == "training-nv-pytorch:25.07-serverless" else [f"job {words}: the image of the job file was not taken: {report['image']}"]
    with open(folder + "/no-job.yaml", "w") as f:
        f.write("just: text\n")
    run = ljperf(build_folder, "doctor", "--job", folder + "/no-job.yaml")
    return wrong + ([] if run.returncode == 2 and "no Pod, Job" in run.stderr else [f"a file that is no job: {run.stderr}"])


def check_form(build_folder, folder):
    """The report's keys, and the text form's first line."""
    root = folder + "/form"
    build(root, nvidia("535.54.03"))
    code, report, first, _ = doctor(build_folder, root, "--image", NV)
    keys = {"schema", "verdict", "summary", "counts", "checks", "facts", "host", "root", "image", "time_unix_s", "seconds", "ljperf_version"}
    wrong = [] if keys <= set(report) and report["schema"] == {"name": "ljperf.doctor", "version": 1} else [f"keys {sorted(report)}"]
    wrong += [f"check {c}" for c in report["checks"] if set(c) != {"name", "found", "wanted", "verdict", "source", "next_step"} or c["verdict"] not in ("ok", "warn", "fail", "not applicable", "not available")]
    wrong += [] if code == 1 and first == report["summary"] and first.startswith("FAIL (") and "535.54.03" in first and "575" in first else [f"first line: {first}"]
    return wrong


def main():
    folder = tempfile.mkdtemp(prefix="ljperf-hosts-")
    wrong = []
    try:
        for check in (check_form, check_job, check_hosts, check_watch):
            wrong += check(sys.argv[1], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in wrong:
        print(line)
    print(f"report, job, hosts, watch: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
