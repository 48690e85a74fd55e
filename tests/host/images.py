#!/usr/bin/env python3
"""What `ljperf image` prints and does: Kubernetes objects against schemas, start lines against podman, pulls from a registry on loopback, lint of trees and archives.

usage: images.py BUILD yaml|run|pull|lint|words"""
import http.client
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from trees import *  # noqa: F401,F403
from tools import debian_tool, python_tools  # noqa: E402

DATA = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data"))


class Skip(Exception):
    pass


def ljperf(build_folder, *arguments, env=None, timeout=120):
    return subprocess.run([os.path.join(build_folder, "ljperf"), *arguments], capture_output=True, text=True, env=dict(os.environ, LJPERF_DATA_DIR=DATA, **(env or {})), timeout=timeout)


# --- Kubernetes ---

KINDS = ["pod", "job", "pytorchjob", "mpijob", "jobset"]
VALIDATE = r"""
import json, sys, yaml, jsonschema, kubernetes_validate
data = sys.argv[1]
complaints = []
for line in sys.stdin:
    row = json.loads(line)
    objects = list(yaml.safe_load_all(row["yaml"]))
    for value in objects:
        try:
            if row["schema"]:
                jsonschema.Draft7Validator(json.load(open(f"{data}/schemas/kubernetes/{row['schema']}.schema.json"))).validate(value)
                for template in row["templates"]:
                    spec = value
                    for key in template.split("/"):
                        spec = spec[int(key)] if isinstance(spec, list) else spec[key]
                    kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", **spec.get("metadata", {})}, "spec": spec["spec"]}, "1.27", strict=True)
            else:
                kubernetes_validate.validate(value, "1.27", strict=True)
        except Exception as error:
            complaints.append(f"{row['name']}: {type(error).__name__}: {str(error)[:300]}")
    if len(objects) != 1 or objects[0] != row["json"]:
        complaints.append(f"{row['name']}: the YAML does not read back as the JSON")
print(json.dumps(complaints))
"""
TEMPLATES = {"pytorchjob": ["spec/pytorchReplicaSpecs/Master/template", "spec/pytorchReplicaSpecs/Worker/template"], "mpijob": ["spec/mpiReplicaSpecs/Launcher/template", "spec/mpiReplicaSpecs/Worker/template"],
             "jobset": ["spec/replicatedJobs/0/template/spec/template"]}


def main_template(kind, value):
    if kind == "pod":
        return value
    if kind == "job":
        return value["spec"]["template"]
    at = value
    for key in TEMPLATES[kind][-1 if kind != "pytorchjob" else 0].split("/"):
        at = at[int(key)] if isinstance(at, list) else at[key]
    return at


def facts_of(kind, value, cards, image):
    """Complaints on interface, driver, shm and limits."""
    template = main_template(kind, value)
    spec, labels = template["spec"], template["metadata"]["labels"]
    container = spec["containers"][0]
    env = {e["name"]: e["value"] for e in container["env"]}
    resource = "nvidia.com/gpu" if "nv" in image else "alibabacloud.com/ppu"
    wanted = {"interface": (env["NCCL_SOCKET_IFNAME"], "hpn0" if cards == 16 else "eth0"), "class": (labels["alibabacloud.com/compute-class"], "gpu-hpn" if cards == 16 else "gpu"),
              "model": (labels["alibabacloud.com/gpu-model-series"], "GU8TF" if "nv" in image else "PPU810E"), "driver": (labels["alibabacloud.com/gpu-driver-version"], "575" if "nv" in image else "1.5.1"),
              "limits": (container["resources"]["limits"][resource], str(cards)), "shm": ([v["emptyDir"] for v in spec["volumes"]], [{"medium": "Memory", "sizeLimit": "32Gi"}]), "mount": (container["volumeMounts"][0]["mountPath"], "/dev/shm")}
    if "xpu" in image:
        wanted["spawn"] = (env.get("VLLM_WORKER_MULTIPROC_METHOD"), "spawn")
    return [f"{kind}, {cards} card(s), {image}: {name} is {got}, not {want}" for name, (got, want) in wanted.items() if got != want]


def check_yaml(build_folder):
    python, why = python_tools(build_folder)
    if not python:
        raise Skip(f"kubernetes-validate cannot be had: {why}")
    wrong, rows = [], []
    for image in (NV, XPU):
        for cards in (1, 8, 16):
            for kind in KINDS:
                nodes = "1" if kind == "pod" else "2"
                words = ["image", "k8s", image, "--kind", kind, "--cards", str(cards), "--nodes", nodes] + (["--card-model", "GU8TF"] if image == NV else [])
                text, value = ljperf(build_folder, *words), ljperf(build_folder, *words, "--json", "-")
                if text.returncode or value.returncode:
                    wrong.append(f"{kind} {cards} {image}: {text.stderr}{value.stderr}")
                    continue
                parsed = json.loads(value.stdout)
                wrong += facts_of(kind, parsed, cards, image)
                rows.append({"name": f"{kind}, {cards} card(s), {image}", "yaml": text.stdout, "json": parsed, "schema": kind if kind in TEMPLATES else "", "templates": TEMPLATES.get(kind, [])})
    run = subprocess.run([python, "-W", "ignore", "-c", VALIDATE, DATA], input="\n".join(json.dumps(r) for r in rows), capture_output=True, text=True, timeout=200)
    wrong += json.loads(run.stdout.splitlines()[-1]) if run.returncode == 0 else [run.stderr[-400:]]
    # the schemas can refuse: a planted fault must be found
    planted = dict(rows[2], json={}, yaml=rows[2]["yaml"].replace("restartPolicy: OnFailure", "restartPolicy: Sometimes"))
    run = subprocess.run([python, "-W", "ignore", "-c", VALIDATE, DATA], input=json.dumps(planted), capture_output=True, text=True, timeout=100)
    if "Sometimes" not in run.stdout:
        wrong.append("a planted fault passed the schema")
    return wrong, f"{len(rows)} objects"


# --- start lines ---

TINY = """schema: ljperf.image/1
name: tiny
version: "1"
tags: ["1"]
vendor: cpu
source: "made by a test"
os: {name: none, version: "0"}
requires: {}
registry: {login: false, public: "localhost/test/tiny:{tag}"}
run: {devices: none, ipc: host, shm_size: 48m, ulimits: {memlock: "LOCK", stack: "67108864", nofile: "OPEN", nproc: "TASKS"}, ports: [], environment: {TINY: "yes"}}
components: []
"""
TINY_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
int main(int argc, char **argv)
{
    struct statvfs s;
    struct rlimit stack, lock;
    if (statvfs("/dev/shm", &s)) return 3;
    getrlimit(RLIMIT_STACK, &stack), getrlimit(RLIMIT_MEMLOCK, &lock);
    printf("shm %llu stack %llu memlock %lld env %s args %d %s\n", (unsigned long long)s.f_blocks * s.f_frsize, (unsigned long long)stack.rlim_cur, lock.rlim_cur == RLIM_INFINITY ? -1LL : (long long)lock.rlim_cur, getenv("TINY"), argc, argc > 1 ? argv[1] : "");
    return argc > 1 && !strcmp(argv[1], "fail");
}
"""


def tiny_image(folder):
    """An OCI archive of one static program, made here; returns the path of a tar of its root."""
    program = os.path.join(folder, "hello")
    subprocess.run(["cc", "-static", "-O1", "-x", "c", "-", "-o", program], input=TINY_PROGRAM.encode(), check=True)
    path = os.path.join(folder, "root.tar")
    with tarfile.open(path, "w") as tar:
        tar.add(program, "hello")
        for name in ("tmp", "dev", "proc", "sys", "etc"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    with open(os.path.join(folder, "tiny.yaml"), "w") as f:
        f.write(TINY.replace("LOCK", hard_limit("RLIMIT_MEMLOCK")).replace("OPEN", hard_limit("RLIMIT_NOFILE")).replace("TASKS", hard_limit("RLIMIT_NPROC")))
    return path


def hard_limit(name):
    """What a container may be given here: without CAP_SYS_RESOURCE no more than our own hard limit."""
    import resource
    hard = resource.getrlimit(getattr(resource, name))[1]
    return str(min(hard, 10000) if name == "RLIMIT_NPROC" and hard > 0 else hard)


def parsed_by_podman(podman, words):
    """podman reads the line: it gets as far as the image or a device, and complains of no option."""
    run = subprocess.run([podman, "create", "--pull=never"] + words[2:], capture_output=True, text=True, timeout=60)
    text = run.stderr
    bad = [w for w in ("unknown flag", "unknown shorthand", "invalid argument", "invalid ulimit", "cannot set shmsize", "parsing", "requires at least") if w in text.lower()]
    return [f"podman refuses {' '.join(words[:6])}...: {text.strip()[-200:]}"] if bad else []


def check_run(build_folder, install=False):
    podman = debian_tool("podman", install=install)
    debian_tool("runc", install=install)
    if not podman:
        raise Skip("no podman")
    wrong = []
    for image in (NV, XPU):
        for engine in ("docker", "podman", "nerdctl"):
            for cards in ("1", "8", "16", None):
                run = ljperf(build_folder, "image", "run", image, "--engine", engine, "--json", "-", *(["--cards", cards] if cards else []), "--", "python3", "-c", "print('a b')")
                words = json.loads(run.stdout)
                text = ljperf(build_folder, "image", "run", image, "--engine", engine, *(["--cards", cards] if cards else []), "--", "python3", "-c", "print('a b')").stdout
                import shlex
                if shlex.split(text) != words:
                    wrong.append(f"the printed line does not read back: {text}")
                need = ["--shm-size=32g", "--ulimit=memlock=-1:-1", "--ulimit=stack=67108864:67108864"]
                wrong += [f"{engine} {image}: no {n}" for n in need if n not in words]
                wrong += [f"{engine} {image}: no --ipc"] if not any(w.startswith("--ipc=") for w in words) else []
                devices = [w for w in words if "gpu" in w or "alixpu" in w]
                if not devices:
                    wrong.append(f"{engine} {image}: no devices")
                if engine == "podman" or "xpu" in image:  # docker's and nerdctl's --gpus is no option of podman
                    wrong += parsed_by_podman(podman, words)
                else:
                    plain = [w for i, w in enumerate(words) if w != "--gpus" and words[i - 1] != "--gpus"]
                    plain = ["--ipc=private" if w == "--ipc=host" else w for w in plain]
                    wrong += parsed_by_podman(podman, plain)
    if not parsed_by_podman(podman, ["podman", "run", "--no-such-option", "localhost/none"]):
        wrong.append("a planted wrong option passed podman's reader")
    started, why = start_tiny(build_folder, podman)
    return wrong + started, why


def start_tiny(build_folder, podman):
    """The line of ljperf image run --execute, with a real container of a small image made here."""
    folder = tempfile.mkdtemp(prefix="ljperf-tiny-")
    env = {"XDG_DATA_HOME": folder + "/data", "CONTAINERS_STORAGE_CONF": folder + "/storage.conf", "CONTAINERS_CONF": folder + "/containers.conf"}
    with open(folder + "/containers.conf", "w") as f:  # runc where it is installed: crun refuses hosts with both versions of cgroups
        f.write(f'[containers]\nnetns = "host"\ndefault_ulimits = ["nofile={hard_limit("RLIMIT_NOFILE")}", "nproc={hard_limit("RLIMIT_NPROC")}"]\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' + ('runtime = "runc"\n' if shutil.which("runc") else ""))
    with open(folder + "/storage.conf", "w") as f:
        f.write(f'[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/store"\n')
    try:
        tar = tiny_image(folder)
        made = subprocess.run([podman, "import", tar, "localhost/test/tiny:1"], capture_output=True, text=True, env=dict(os.environ, **env), timeout=60)
        if made.returncode:
            return [], f"started: no (podman import: {made.stderr.strip()[-120:]})"
        plain = subprocess.run([podman, "run", "--rm", "localhost/test/tiny:1", "/hello"], capture_output=True, text=True, env=dict(os.environ, **env), timeout=60)
        if plain.returncode:
            return [], f"started: no, podman itself starts no container here ({plain.stderr.strip()[-160:]})"
        run = ljperf(build_folder, "image", "run", folder + "/tiny.yaml", "--engine", "podman", "--execute", "--", "/hello", "there", env=env)
        wrong = [f"the started image says: {run.stdout}{run.stderr[-200:]}"] if f"shm 50331648 stack 67108864 memlock {hard_limit('RLIMIT_MEMLOCK')} env yes args 2 there" not in run.stdout else []
        failing = ljperf(build_folder, "image", "run", folder + "/tiny.yaml", "--engine", "podman", "--execute", "--", "/hello", "fail", env=env)
        wrong += [] if failing.returncode == 1 else [f"a failing container gives exit {failing.returncode}"]
        return wrong, "started: yes"
    finally:
        subprocess.run([podman, "rmi", "-f", "localhost/test/tiny:1"], capture_output=True, env=dict(os.environ, **env))
        shutil.rmtree(folder, ignore_errors=True)


# --- pull ---

def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Registry:
    """Debian's docker-registry on loopback, its storage in a temporary folder."""

    def __init__(self, program, folder, password=None):
        self.port = free_port()
        auth = f"auth:\n  htpasswd:\n    realm: test\n    path: {password}\n" if password else ""
        with open(f"{folder}/registry{self.port}.yml", "w") as f:
            f.write(f"version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {folder}/registry\nhttp:\n  addr: 127.0.0.1:{self.port}\n{auth}")
        self.process = subprocess.Popen([program, "serve", f"{folder}/registry{self.port}.yml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                http.client.HTTPConnection("127.0.0.1", self.port, timeout=1).request("GET", "/v2/")
                break
            except OSError:
                time.sleep(0.1)

    def __enter__(self):
        return f"127.0.0.1:{self.port}"

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def check_pull(build_folder, install=False):
    registry, skopeo = debian_tool("docker-registry", install=install), debian_tool("skopeo", install=install)
    if not registry or not skopeo:
        raise Skip("no docker-registry or skopeo")
    folder = tempfile.mkdtemp(prefix="ljperf-pull-")
    wrong = []
    try:
        layout(folder + "/layout", [{"hello": b"one"}])
        with Registry(registry, folder) as host:
            push = subprocess.run([skopeo, "copy", "--dest-tls-verify=false", f"oci:{folder}/layout:tag", f"docker://{host}/egslingjun/training-nv-pytorch:25.07-serverless"], capture_output=True, text=True, timeout=60)
            if push.returncode:
                return [push.stderr[-300:]], ""
            words = ["image", "pull", NV, "--registry-host", host, "--output-dir", folder + "/out"]
            refused = ljperf(build_folder, *words)
            wrong += [] if refused.returncode and "--no-tls-verify" in refused.stderr else [f"a plain registry: {refused.stderr}"]
            first = ljperf(build_folder, *words, "--no-tls-verify", "--json", folder + "/pull.json")
            result = json.load(open(folder + "/pull.json")) if first.returncode == 0 else {}
            digest = result.get("digest", "")
            wrong += [] if digest.startswith("sha256:") and os.path.exists(folder + "/out/index.json") else [f"pull: {first.stderr[-300:]}"]
            again = ljperf(build_folder, *words, "--no-tls-verify", "--digest", digest)
            wrong += [] if again.returncode == 0 else [f"pinned pull: {again.stderr[-300:]}"]
            layout(folder + "/layout2", [{"hello": b"two"}])
            subprocess.run([skopeo, "copy", "--dest-tls-verify=false", f"oci:{folder}/layout2:tag", f"docker://{host}/egslingjun/training-nv-pytorch:25.07-serverless"], capture_output=True, timeout=60)
            moved = ljperf(build_folder, *words, "--no-tls-verify", "--digest", digest)
            wrong += [] if moved.returncode and digest in moved.stderr else [f"a moved tag was taken: {moved.stderr}"]
            absent = ljperf(build_folder, "image", "pull", "training-nv-pytorch:25.07-none", "--registry-host", host, "--no-tls-verify", "--output-dir", folder + "/none")
            wrong += [] if absent.returncode and "no such image or tag" in absent.stderr else [f"an absent tag: {absent.stderr}"]
            login = ljperf(build_folder, "image", "pull", XPU, "--registry-host", host, "--no-tls-verify", "--output-dir", folder + "/xpu", env={"REGISTRY_AUTH_FILE": folder + "/none.json"})
            wrong += [] if login.returncode and "skopeo login" in login.stderr else [f"no login guidance: {login.stderr}"]
        vpc = ljperf(build_folder, "image", "run", NV, "--engine", "docker", "--registry", "vpc", "--region", "cn-beijing").stdout
        wrong += [] if "acs-registry-vpc.cn-beijing.cr.aliyuncs.com/egslingjun/training-nv-pytorch:25.07-serverless" in vpc else [f"VPC form: {vpc}"]
        region = ljperf(build_folder, "image", "pull", NV, "--registry", "vpc")
        wrong += [] if region.returncode and "--region" in region.stderr else [f"VPC without region: {region.stderr}"]
        return wrong, "registry on loopback"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- lint ---

def layout(folder, layers, env=()):
    """An OCI layout whose layers hold {path: bytes}."""
    import hashlib
    import io
    os.makedirs(folder + "/blobs/sha256", exist_ok=True)

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{folder}/blobs/sha256/{digest}", "wb") as f:
            f.write(data)
        return {"digest": "sha256:" + digest, "size": len(data)}

    descriptors, diffs = [], []
    for files in layers:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for path, data in files.items():
                entry = tarfile.TarInfo(path)
                if isinstance(data, Link):
                    entry.type, entry.linkname = tarfile.SYMTYPE, str(data)
                    tar.addfile(entry)
                    continue
                data = data.encode() if isinstance(data, str) else data
                entry.size, entry.mode = len(data), 0o644
                tar.addfile(entry, io.BytesIO(data))
        descriptors.append({"mediaType": "application/vnd.oci.image.layer.v1.tar", **blob(out.getvalue())})
        diffs.append(descriptors[-1]["digest"])
    config = blob(json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": list(env)}, "rootfs": {"type": "layers", "diff_ids": diffs}}).encode())
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config}, "layers": descriptors}).encode())
    with open(folder + "/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "annotations": {"org.opencontainers.image.ref.name": "tag"}, **manifest}]}, f)
    with open(folder + "/oci-layout", "w") as f:
        f.write('{"imageLayoutVersion": "1.0.0"}')


def whole(patched):
    return {k: v for k, v in patched.items() if not callable(v)}


def lint(build_folder, tree, *arguments):
    out = tempfile.mktemp(suffix=".json")
    run = ljperf(build_folder, "image", "lint", tree, "--json", out, *arguments)
    report = json.load(open(out)) if os.path.exists(out) else None
    return run, report


def expect(name, run, report, verdict, *words):
    text = json.dumps(report) if report else run.stderr
    wrong = [] if report and report["verdict"] == verdict and run.returncode == (verdict == "fail") else [f"{name}: expected {verdict}, got {report and report['summary']} {run.stderr}, exit {run.returncode}"]
    return wrong + [f"{name}: '{w}' is not said: {report and report['summary']}" for w in words if w not in text]


def check_lint(build_folder):
    from matrix import patched  # the image as shipped
    wrong = []
    folder = tempfile.mkdtemp(prefix="ljperf-lint-")
    try:
        shipped = whole(patched) | {"etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n'}
        build(folder + "/shipped", shipped)
        wrong += expect("shipped", *lint(build_folder, folder + "/shipped"), "ok", "training-nv-pytorch:25.07-serverless")
        replaced = {k: v for k, v in shipped.items() if "/torch-" not in k} | package("torch", "2.7.1")
        build(folder + "/replaced", replaced)
        wrong += expect("replaced", *lint(build_folder, folder + "/replaced"), "fail", "nv25.3", "torch 2.7.1")
        # a layer on top that removes torch's metadata by whiteout and brings another
        gone = f"{SITE}/.wh.torch-2.7.1.8+nv25.3.dist-info"
        layout(folder + "/layout", [shipped, {gone: b""} | package("torch", "2.7.1")])
        wrong += expect("layout with whiteout", *lint(build_folder, folder + "/layout"), "fail", "torch 2.7.1")
        with tarfile.open(folder + "/layout.tar", "w") as tar:
            tar.add(folder + "/layout", ".")
        wrong += expect("OCI archive", *lint(build_folder, folder + "/layout.tar"), "fail", "torch 2.7.1")
        docker_archive(folder, [shipped, {gone: b""} | package("torch", "2.7.1")])
        wrong += expect("docker save", *lint(build_folder, folder + "/docker.tar"), "fail", "torch 2.7.1")
        with tarfile.open(folder + "/root.tar", "w") as tar:
            tar.add(folder + "/replaced", ".")
        wrong += expect("tar of a root", *lint(build_folder, folder + "/root.tar"), "fail", "torch 2.7.1")
        # case 146: two majors of libcudart, both files and owners
        build(folder + "/two", shipped | runtime("12.8.57") | {f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.11.0": ""} | package("nvidia-cuda-runtime-cu11", "11.8.89", files={"nvidia/cuda_runtime/lib/libcudart.so.11.0": ""}))
        wrong += expect("case 146", *lint(build_folder, folder + "/two"), "fail", "libcudart.so.11.0", "libcudart.so.12.8.57", "nvidia_cuda_runtime_cu11", "/usr/local/cuda-12.8")
        check = ljperf(build_folder, "image", "check", NV, "--root", folder + "/two")
        wrong += [] if check.returncode == 1 and "libcudart.so.11.0" in check.stdout else [f"image check of two runtimes: {check.stdout[:300]}"]
        # case 149: the image must not pin the compatibility package; with two loader caches the resolved library differs and is recorded
        build(folder + "/pinned", shipped | nvidia(None, compat="570.86.10") | {"etc/ld.so.conf.d/compat.conf": "/usr/local/cuda-12.8/compat\n"})
        wrong += expect("case 149 pinned", *lint(build_folder, folder + "/pinned"), "fail", "compat.conf")
        wrong += resolved_library(build_folder, folder)
        wrong += hostile(build_folder, folder)
        empty = ljperf(build_folder, "image", "lint", folder + "/nothing-here")
        wrong += [] if empty.returncode == 2 else [f"lint of nothing: exit {empty.returncode}"]
        return wrong, "trees, OCI layout, OCI archive, docker save, tar"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def docker_archive(folder, layers):
    work = folder + "/docker"
    layout(work, layers)
    index = json.load(open(work + "/index.json"))
    manifest = json.load(open(f"{work}/blobs/sha256/{index['manifests'][0]['digest'][7:]}"))
    with tarfile.open(folder + "/docker.tar", "w") as tar:
        names = []
        for i, layer in enumerate(manifest["layers"]):
            tar.add(f"{work}/blobs/sha256/{layer['digest'][7:]}", f"layer{i}/layer.tar")
            names.append(f"layer{i}/layer.tar")
        tar.add(f"{work}/blobs/sha256/{manifest['config']['digest'][7:]}", "config.json")
        with open(work + "/manifest.json", "w") as f:
            json.dump([{"Config": "config.json", "RepoTags": ["x:1"], "Layers": names}], f)
        tar.add(work + "/manifest.json", "manifest.json")


def resolved_library(build_folder, folder):
    """Case 149: the same image under two container runtimes that rebuild the cache in another order; the report records which library is taken, and its path differs."""
    paths = []
    for name, conf in (("runtime-a", "/usr/local/cuda-12.8/compat\n/usr/lib/x86_64-linux-gnu\n"), ("runtime-b", "/usr/lib/x86_64-linux-gnu\n/usr/local/cuda-12.8/compat\n")):
        root = f"{folder}/{name}"
        files = nvidia("535.183.01", compat="570.86.10")
        files = {k: (provider("libcuda.so.1") if "libcuda.so." in k and not isinstance(v, Link) else v) for k, v in files.items()}
        build(root, files | {"etc/ld.so.conf": conf})
        subprocess.run(["/sbin/ldconfig", "-r", root], capture_output=True, check=True)
        _, report, _, _ = doctor(build_folder, root)
        paths.append((report["facts"]["libcuda"], report["facts"]["libcuda_by"]))
    wrong = [] if paths[0][0] != paths[1][0] and "compat" in paths[0][0] and "compat" not in paths[1][0] and all(by == "/etc/ld.so.cache" for _, by in paths) else [f"case 149: resolved libraries {paths}"]
    return wrong


def hostile(build_folder, folder):
    """A tree whose links lead out of it, loop, and whose cache and libraries are broken: no crash, nothing read outside."""
    root = folder + "/hostile"
    build(root, {"usr/lib/x86_64-linux-gnu/libcuda.so.1": Link("/../../../../etc/passwd"), "proc/driver/nvidia/version": Link("/proc/driver/nvidia/version"), "etc/ld.so.cache": b"glibc-ld.so.cache1.1" + b"\xff" * 60, "etc/ld.so.conf": "include /etc/ld.so.conf\n",
                 f"{SITE}/x/broken.so": b"\x7fELF\x02\x01\x01" + b"\xff" * 400, f"{SITE}/evil-1.0.dist-info/METADATA": "Name: evil\nVersion: 1.0\nRequires-Dist: " + "a" * 5000 + "\n", f"{SITE}/evil-1.0.dist-info/RECORD": "../../../../../../etc/passwd,sha256=x,1\n",
                 "etc/hosts": b"\xff\xfe\xfd\n", "proc/self/environ": b"A=\xff\xfe\0" + b"LD_LIBRARY_PATH=" + b"x:" * 3000})
    code, report, first, seconds = doctor(build_folder, root)
    return [] if report and seconds < 2 and "root:" not in json.dumps(report) else [f"hostile tree: exit {code}, {seconds:.2f} s, {first}"]


# --- words ---

def check_words(build_folder):
    wrong = []
    show = ljperf(build_folder, "image", "show", NV).stdout
    for word in ("12.8.0", ">= 575", "470.57", "R545", "2.7.1.8+nv25.3", "patched", "egslingjun-registry.cn-wulanchabu.cr.aliyuncs.com/egslingjun/training-nv-pytorch:25.07-serverless", "acs-registry-vpc", "multi-tenant Lingjun", "hpn0", "not single-tenant"):
        wrong += [] if word in show else [f"show lacks {word}"]
    notes = ljperf(build_folder, "image", "notes", XPU).stdout
    for word in ("1.5.1", "moe_wna16", "DeepEP", "80k", "spawn", "发布说明", "驱动", "Release notes", "w4a16"):
        wrong += [] if word in notes else [f"notes lack {word}"]
    english = ljperf(build_folder, "image", "notes", XPU, "--language", "en").stdout
    wrong += ["English notes hold Chinese"] if any("\u4e00" <= c <= "\u9fff" for c in english) else []
    diff = json.loads(ljperf(build_folder, "image", "diff", NV, XPU, "--json", "-").stdout)
    changes = {c["name"]: c["change"] for c in diff["components"]}
    wrong += [] if changes.get("vllm") == "changed" and changes.get("torch") == "removed" and changes.get("ppu-sdk") == "added" and "python" not in changes else [f"diff: {changes}"]
    listed = json.loads(ljperf(build_folder, "image", "list", "--json", "-").stdout)
    wrong += [] if {m["name"] for m in listed} >= {"training-nv-pytorch", "training-xpu-pytorch"} else ["list"]
    unknown = ljperf(build_folder, "image", "show", "training-nv-pytroch")
    wrong += [] if unknown.returncode == 2 and "did you mean training-nv-pytorch" in unknown.stderr else [f"unknown image: {unknown.stderr}"]
    for words in (["image"], ["image", "sohw"], ["image", "k8s", NV, "--cards", "3"], ["image", "k8s", NV, "--kind", "pod", "--nodes", "2"], ["doctor", "--image", "none"], ["doctor", "--merge", "/none"], ["doctor", "stray"]):
        run = ljperf(build_folder, *words)
        wrong += [] if run.returncode == 2 else [f"{words}: exit {run.returncode}"]
    return wrong + own_manifest(build_folder), "show, notes, diff, list, usage"


def own_manifest(build_folder):
    """A user's own image in --data-dir, and one that breaks the schema: an error with the place."""
    folder = tempfile.mkdtemp(prefix="ljperf-own-")
    try:
        os.mkdir(folder + "/images")
        with open(folder + "/images/mine.yaml", "w") as f:
            f.write(TINY.replace("LOCK", "-1").replace("OPEN", "1024").replace("TASKS", "1024"))
        run = subprocess.run([os.path.join(build_folder, "ljperf"), "image", "list", "--data-dir", folder], capture_output=True, text=True)
        wrong = [] if "tiny" in run.stdout and "training-nv-pytorch" in run.stdout else [f"own manifest: {run.stdout}{run.stderr}"]
        with open(folder + "/images/mine.yaml", "w") as f:
            f.write(TINY.replace("LOCK", "-1").replace("OPEN", "1024").replace("TASKS", "1024").replace('version: "1"', "version: 1.0"))
        run = subprocess.run([os.path.join(build_folder, "ljperf"), "image", "show", "tiny", "--data-dir", folder], capture_output=True, text=True)
        return wrong + ([] if run.returncode and "version" in run.stderr and "mine.yaml" in run.stderr else [f"broken manifest: {run.stderr}"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


CHECKS = {"yaml": check_yaml, "run": check_run, "pull": check_pull, "lint": check_lint, "words": check_words}


def main():
    try:
        wrong, what = CHECKS[sys.argv[2]](sys.argv[1])
    except Skip as skip:
        print(f"skipped: {skip}")
        return 77
    for line in wrong:
        print(line)
    print(f"{sys.argv[2]}: {len(wrong)} wrong ({what})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
