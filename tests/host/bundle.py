#!/usr/bin/env python3
"""The support bundle: planted secrets must be gone, what helps must be there."""
import json
import os
import random
import shutil
import string
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from trees import *  # noqa: F401,F403
from images import ljperf  # noqa: E402

rng = random.Random(7)


def text(length, letters=string.ascii_letters + string.digits):
    return "".join(rng.choice(letters) for _ in range(length))


HEX = "0123456789abcdef"
SECRETS = {}


def secret(name, value):
    SECRETS[name] = value
    return value


def plant():
    s = secret
    pem = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(s(f"pem line {i}", text(64)) for i in range(3)) + "\n-----END RSA PRIVATE KEY-----"
    env = {
        "HF_TOKEN": s("hf", "hf_" + text(34)), "GITHUB_TOKEN": s("gh", "ghp_" + text(36)), "OPENAI_API_KEY": s("openai", "sk-" + text(48)), "AWS_SECRET_ACCESS_KEY": s("aws secret", text(38) + "/+"), "AWS_ACCESS_KEY_ID": s("aws id", "AKIA" + text(16, string.ascii_uppercase)),
        "ALIBABA_CLOUD_ACCESS_KEY_ID": s("ali id", "LTAI5t" + text(18)), "ALIBABA_CLOUD_ACCESS_KEY_SECRET": s("ali secret", text(30)), "WANDB_API_KEY": s("wandb", text(40, HEX)), "DB_PASSWORD": s("db", "correct-horse-" + text(4)), "DATABASE_URL": "postgres://user:" + s("db url", text(14)) + "@db.example:5432/x",
        "MY_SECRET": s("short", "hunter2x"), "SLACK_WEBHOOK": "https://hooks.slack.com/services/" + s("slack", "T" + text(8) + "/B" + text(8) + "/" + text(24)), "PGPASSWORD": s("pg", text(9)), "http_proxy": "http://proxyuser:" + s("proxy", text(10)) + "@10.0.0.1:3128", "JWT": s("jwt", "eyJ" + text(20) + "." + text(40) + "." + text(40)),
        "NGC_API_KEY": s("ngc", "nvapi-" + text(60)), "LUNCH": "an innocent value that holds " + SECRETS["short"], "SSH_KEY": pem, "REDIS_AUTH": s("redis", text(12)), "npm_config__authToken": s("npm", "npm_" + text(36)), "KUBE_BEARER": "Bearer " + s("bearer", text(40)),
        "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "8"}
    files = {
        "etc/pip.conf": f"[global]\nindex-url = https://reader:{s('pip', text(16))}@pypi.example/simple\nextra-index-url = https://{s('pip token', text(24))}@pypi2.example/simple\n",
        "etc/fstab": f"//server/share /mnt cifs username=a,password={s('cifs', text(11))} 0 0\n",
        "proc/cmdline": f"root=/dev/sda1 ds=nocloud;s=http://m.example/?token={s('cmdline', text(20))} quiet\n",
        "etc/docker/daemon.json": json.dumps({"runtimes": {"nvidia": {}}, "http-proxy": f"http://u:{s('daemon', text(9))}@p.example:8080", "auth": s("daemon auth", text(28))}),
        "etc/containerd/config.toml": f'[plugins."io.containerd.grpc.v1.cri".registry.configs."r.example".auth]\n  username = "u"\n  password = "{s("containerd", text(13))}"\n  identitytoken = "{s("identity", text(33))}"\n',
        "etc/environment": f"export GITLAB_TOKEN=glpat-{s('gitlab', text(20))}\nSTRIPE=sk_live_{s('stripe', text(24))}\nAZURE_CONN='DefaultEndpointsProtocol=https;AccountKey={s('azure', text(60) + '==')};'\n",
        "proc/self/mounts": f"//srv/x /mnt/x cifs rw,username=u,password={s('mounts', text(10))} 0 0\ntmpfs /dev/shm tmpfs rw,size=1g 0 0\n",
        "etc/hosts": f"10.0.0.1 node # admin password: {s('hosts', text(12))}\n",
        "etc/nccl.conf": f"NCCL_DEBUG=WARN\nMY_API_KEY={s('nccl.conf', text(18))}\n",
        "etc/hostname": "node\n",
    }
    job = f"""apiVersion: v1
kind: Secret
metadata: {{name: x}}
data: {{anything: {s("k8s data", text(24))}=}}
stringData: {{other: "{s("k8s string", text(15))}"}}
---
apiVersion: v1
kind: Pod
metadata: {{name: job}}
spec:
  containers:
    - name: main
      image: egslingjun-registry.cn-wulanchabu.cr.aliyuncs.com/egslingjun/training-nv-pytorch:25.07-serverless
      command: [bash, -c, "curl -H 'Authorization: Bearer {s("job bearer", text(30))}' https://a.example/x?sig={s("job sig", text(22))} && mysql -u root -p{s("job mysql", text(9))} && docker login -u me --password {s("job login", text(12))}"]
      env:
        - {{name: WANDB_API_KEY, value: "{s("job env", text(40, HEX))}"}}
        - {{name: PASSPHRASE, value: "{s("job phrase", "open sesame " + text(5))}"}}
        - {{name: NCCL_SOCKET_IFNAME, value: eth0}}
      resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
    files["proc/self/environ"] = "".join(f"{k}={v}\0" for k, v in env.items())
    return nvidia("575.51.03") | files, job


def main():
    files, job = plant()
    folder = tempfile.mkdtemp(prefix="ljperf-bundle-")
    wrong = []
    try:
        build(folder + "/root", files)
        with open(folder + "/job.yaml", "w") as f:
            f.write(job)
        run = ljperf(sys.argv[1], "doctor", "--root", folder + "/root", "--image", NV, "--job", folder + "/job.yaml", "--bundle", folder + "/b.tar", "--json", folder + "/r.json")
        if not os.path.exists(folder + "/b.tar"):
            print(f"no bundle: {run.stderr}")
            return 1
        with tarfile.open(folder + "/b.tar") as tar:
            members = {m.name: tar.extractfile(m).read().decode(errors="replace") for m in tar.getmembers()}
        whole = "\n".join(members.values())
        if "--show" in sys.argv:
            print(whole)
        wrong += [f"secret '{name}' is still there" for name, value in SECRETS.items() if value in whole]
        for name in ("report.json", "report.txt", "environment.txt", "python_packages.txt", "job.json", "files/proc/driver/nvidia/version"):
            wrong += [] if "ljperf-bundle/" + name in members else [f"no {name} in the bundle"]
        for word in ("575.51.03", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=8", "training-nv-pytorch", "nvidia.com/gpu", "/dev/shm tmpfs", "db.example:5432", "NCCL_SOCKET_IFNAME"):
            wrong += [] if word in whole else [f"'{word}', which helps, is gone"]
        json.loads(members["ljperf-bundle/report.json"])
        wrong += [] if len(SECRETS) >= 30 else ["fewer than 30 secrets"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in wrong:
        print(line)
    print(f"{len(SECRETS)} secrets planted, {sum('still there' in w for w in wrong)} left")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
