"""What the report says of the machine, and where cuBLASLt lies."""
import glob
import os
import re
import shutil
import site
import sys

from processes import output_of, run_limited, within

CUBLASLT = "libcublasLt.so.13"  # of the toolkit that builds the plug-in; half a gigabyte, so that no archive holds it

MEMORY = "/dev/shm"


def find_cublaslt():
    """The file, and the folder to add to the loader's path; None if the loader looks there anyway or there is none."""
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        if os.path.exists(os.path.join(folder, CUBLASLT)):
            return os.path.join(folder, CUBLASLT), None
    ldconfig = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    known = output_of([ldconfig, "-p"]) if ldconfig else ""
    found = re.search(rf"^\s*{re.escape(CUBLASLT)} .*=> (\S+)$", known, re.MULTILINE)
    if found:
        return found[1], None
    packages = dict.fromkeys(sys.path + site.getsitepackages() + [site.getusersitepackages()])
    for pattern in (["/usr/local/cuda/lib64", "/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib"]
                    + [os.path.join(folder, "nvidia/*/lib") for folder in packages if folder]):
        for file in sorted(glob.glob(os.path.join(pattern, CUBLASLT))):
            return file, os.path.dirname(file)
    return None, None


def graphics_card():
    """Name, driver and MB of memory of the first GPU that nvidia-smi lists, and how many there are for CUDA; None where
    there is none."""
    listed = output_of(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits"])
    lines = listed.splitlines() or [""]
    fields = [field.strip() for field in lines[0].split(",")]
    if len(fields) != 3:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # of these CUDA counts
    gpus = len(lines) if visible is None else len([gpu for gpu in visible.split(",") if gpu.strip()])
    return fields[0], fields[1], int(fields[2]) if fields[2].isdigit() else 0, gpus


def plugin_device(env, programs, root, scratch):
    """The GPU as the plug-in describes it, or None; and why not."""
    config = os.path.join(root, "tests/data/golden/dlrm_plain/config.json")
    command = [os.path.join(programs, "train"), "--config", config, "--check", "--device", "cuda"]
    with open(scratch, "w+", encoding="utf-8", errors="replace") as out:
        ended = run_limited(command, within(60), out, env=env)
        out.seek(0)
        text = out.read()
    found = re.search(r"^device memory, batch \d+: (.*)$", text, re.MULTILINE)
    if ended.code == 0 and found and found[1] != "no GPU here":
        return found[1], ""
    why = re.search(r"device cuda: (.*)", text)
    return None, why[1] if why else f"train --check: {ended.how()}: {text[-500:].strip()}"


def nvcc_version():
    for nvcc in ("nvcc", "/usr/local/cuda/bin/nvcc"):
        found = re.search(r"release .*", output_of([nvcc, "--version"]))
        if found:
            return found[0]
    return "not here"


def free_megabytes(folder):
    """0 where nothing is mounted there."""
    if not os.path.ismount(folder):
        return 0
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize >> 20


def memory_folder():
    """Size of the folder in memory, in words."""
    if not os.path.ismount(MEMORY):
        return "not here"
    stats = os.statvfs(MEMORY)
    return f"{stats.f_blocks * stats.f_frsize >> 20:,} MB, {free_megabytes(MEMORY):,} free"


def lines(card, device, cublaslt, commit):
    """The first lines of the report. device: the GPU in the plug-in's words."""
    name = os.uname()
    return [f"- kernel: {name.sysname} {name.release} {name.machine}, {os.cpu_count()} CPUs",
            f"- driver: {card[1] if card else 'no nvidia-smi'}",
            f"- nvcc: {nvcc_version()}",
            f"- cuBLASLt: {cublaslt or CUBLASLT + ' not found'}",
            f"- {MEMORY}: {memory_folder()}",
            f"- GPU: {device}",
            f"- commit: {commit}"]
