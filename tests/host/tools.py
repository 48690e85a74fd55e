"""Tools that tests use when they can be had: a virtual environment with kubernetes-validate, and Debian's podman, skopeo and docker-registry. A tool that cannot be had
is a reported skip, never a pass."""
import os
import shutil
import subprocess
import sys


def python_tools(build):
    """Python of an environment with kubernetes-validate, jsonschema and PyYAML, made on demand under the build folder; None and why when it cannot be."""
    folder = os.path.join(build, "host-tools")
    python = os.path.join(folder, "bin", "python")
    check = [python, "-c", "import kubernetes_validate, jsonschema, yaml"]
    if os.path.exists(python) and subprocess.run(check, capture_output=True).returncode == 0:
        return python, ""
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True, timeout=120)
        run = subprocess.run([python, "-m", "pip", "install", "--quiet", "kubernetes-validate", "jsonschema", "pyyaml"], capture_output=True, text=True, timeout=240)
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)
    return (python, "") if run.returncode == 0 else (None, run.stderr.strip()[-200:])


def debian_tool(name, package=None, install=False):
    """Path of a program; with `install` (bench rows) Debian's package is installed when it is missing and we are root."""
    path = shutil.which(name)
    if path or not install or os.geteuid() != 0 or not shutil.which("apt-get"):
        return path
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package or name], capture_output=True, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"), timeout=500)
    return shutil.which(name)
