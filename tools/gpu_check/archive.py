"""One archive with all that a check needs but the driver, cuBLASLt and python3."""
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

from build import OPTIONAL, PROGRAMS, commit

LIBRARIES = ["libhlite_cuda.so", "libfake_plugin_of_other_build.so", "libfake_plugin_without_kernel.so",
             "libfake_plugin_of_other_signature.so", "libfake_plugin_without_entry.so",
             "libfake_plugin_without_device.so"]
OPTIONAL_TREE = ["tests/bench/trace/trace_report.py"]
TREE = ["tools/gpu_check.sh", "tools/gpu_check", "tests/bench/pytorch_gpu.py", "tests/bench/pytorch_dlrm.py",
        "tests/data/golden/dlrm_fused", "tests/data/golden/dlrm_plain"]
# Of the system's C library, which must be that of the system's loader.
SYSTEM = re.compile(r"/(libc|libm|libdl|librt|libpthread|libresolv|libutil|ld-linux[^/]*)\.so")
MARK = "packed_commit"  # a file in the top folder of an archive


def libraries_of(file):
    """{name: path} of all that the loader opens for the file, but the C library; None for what it does not find."""
    listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s*(\S+) => (not found|/\S+)", listed, re.MULTILINE)
    return {name: None if path == "not found" else path for name, path in found
            if not SYSTEM.search(path if path != "not found" else "/" + name)}


def onednn(programs):
    """{name: path} of the library that programs load themselves, and of those it needs; empty where it is another's."""
    try:
        with open(os.path.join(os.path.dirname(programs), "CMakeCache.txt"), encoding="utf-8") as cache:
            variables = dict(re.findall(r"^(DNNL_LIBRARY|HLITE_ONEDNN_NAME):\w+=(.+)$", cache.read(), re.MULTILINE))
    except OSError:
        variables = {}
    if len(variables) < 2:
        return {}
    path = os.path.realpath(variables["DNNL_LIBRARY"])
    return {variables["HLITE_ONEDNN_NAME"]: path, **libraries_of(path)}


def fill(root, programs, folder):
    """Puts into the folder what an archive holds, at the places of the source tree; programs into bin."""
    target = os.path.join(folder, "bin")
    os.makedirs(target)
    names = PROGRAMS + LIBRARIES + [name for name in OPTIONAL if os.path.exists(os.path.join(programs, name))]
    for name in names:
        subprocess.run(["strip", "-o", os.path.join(target, name), os.path.join(programs, name)], check=True)
    for name in names:
        for path in libraries_of(os.path.join(programs, name)).values():
            if path and not os.path.exists(os.path.join(target, os.path.basename(path))):
                shutil.copy(path, target)
    for name, path in onednn(programs).items():
        if path and not os.path.exists(os.path.join(target, name)):
            shutil.copy(path, os.path.join(target, name))
    for name in names:
        outside = {library: path for library, path in libraries_of(os.path.join(target, name)).items()
                   if not path or os.path.dirname(os.path.realpath(path)) != os.path.realpath(target)}
        if outside:
            raise RuntimeError(f"{name} does not find its libraries in its own folder: {outside}")
    for name in TREE + [name for name in OPTIONAL_TREE if os.path.exists(os.path.join(root, name))]:
        source, place = os.path.join(root, name), os.path.join(folder, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.isdir(source):
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)
    with open(os.path.join(folder, MARK), "w", encoding="utf-8") as file:
        file.write(commit(root) + "\n")


def pack(root, programs, file):
    """Writes the archive, .tar.xz or .tar.gz by its name; an older one stays until it is complete. Returns its size."""
    # The programs have much in common, which lies further apart than 8 MiB, the memory of preset 6.
    how = {"mode": "w:xz", "preset": 9} if file.endswith(".xz") else {"mode": "w:gz", "compresslevel": 9}
    with tempfile.TemporaryDirectory() as folder:
        fill(root, programs, folder)
        # By size: the largest, kernels, would push the rest out of that memory.
        paths = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
        with tarfile.open(file + ".tmp", **how) as tar:
            for path in sorted(paths, key=lambda path: (os.path.getsize(path), path)):
                tar.add(path, os.path.relpath(path, folder))
    os.replace(file + ".tmp", file)
    return os.path.getsize(file)


def unpack(file, folder):
    """Raises RuntimeError, in words for the user."""
    try:
        with tarfile.open(file) as tar:
            tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    except (OSError, tarfile.TarError) as why:
        raise RuntimeError(f"--packed: {file}: {why}") from why
    if not packed_commit(folder):
        raise RuntimeError(f"--packed: {file}: expected what --pack makes")


def packed_commit(folder):
    """Of the unpacked archive in this folder; None where there is none."""
    try:
        with open(os.path.join(folder, MARK), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None
