#!/usr/bin/env python3
"""The tests of the Python package with several versions of Python and NumPy, each in a virtual environment of its own.

    tests/python/versions.py [--work DIR] [--built BUILD] [PYTHON ...]

Each PYTHON (default: every python3.N on PATH from 3.9 on) gets the package by `pip install` of these sources, without
CUDA. Its tests then run with the oldest NumPy that has wheels for it, and with the newest NumPy, pandas, polars,
pyarrow and scikit-learn. --built adds the module of a CMake build, for /usr/bin/python3. Needs PyPI. Prints a line for each run and ends
with 1 if any failed; logs lie in DIR, which is a temporary folder by default.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(os.path.dirname(HERE))
TESTS = ("module_test.py", "fitting_test.py", "serve_test.py", "stub_test.py", "progress_test.py")
FRAMES = ("pandas", "polars", "pyarrow", "scikit-learn")
OLDEST = {9: "1.24.0", 10: "1.24.0", 11: "1.24.0", 12: "1.26.0", 13: "2.1.0", 14: "2.3.2"}  # NumPy, by Python 3.N


def pythons():
    found = [shutil.which(f"python3.{minor}") for minor in range(9, 30)]
    # A version manager's shim may be there without its Python.
    return [p for p in found if p and subprocess.run([p, "-V"], capture_output=True, check=False).returncode == 0]


class Environment:
    def __init__(self, python, work, built=None):
        version = subprocess.check_output([python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], text=True)
        self.version, self.minor = version.strip(), int(version.split(".")[1])
        self.name = f"Python {self.version}, " + ("CMake's build" if built else "pip install")
        self.folder = os.path.join(work, re.sub(r"\W+", "-", self.name))
        self.log = open(self.folder + ".log", "w", encoding="utf-8")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "HLITE_"))}
        self.run(python, "-m", "venv", "--clear", self.folder)
        programs = os.path.join(self.folder, "bin")
        self.python = os.path.join(programs, "python")
        if built:
            programs, self.environment["PYTHONPATH"] = os.path.join(built, "bin"), os.path.join(built, "python")
        else:
            # One folder, so that all but the module is compiled once for all Pythons.
            self.pip("-v", "--config-settings=cmake.define.HLITE_WITH_CUDA=OFF",
                     f"--config-settings=build-dir={work}/build", SOURCES)
        for name in ("train", "predict", "csv_prep", "criteo_prep"):
            self.environment["HLITE_" + name.upper()] = os.path.join(programs, name)

    def run(self, *command, **changes):
        self.log.write(f"$ {' '.join(command)}\n")
        self.log.flush()
        subprocess.run(command, check=True, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       env={**self.environment, **changes}, cwd=self.folder if os.path.isdir(self.folder) else None)

    def pip(self, *arguments):
        self.run(self.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", *arguments)

    def versions(self, *packages):
        listed = subprocess.check_output([self.python, "-m", "pip", "list", "--format=freeze"], text=True)
        return ", ".join(line for line in listed.split() if line.split("==")[0] in packages)

    def test(self, files):
        for file in files:
            self.run(self.python, "-W", "error::DeprecationWarning:hugectr_lite", os.path.join(HERE, file))

    def report(self, failed):
        print(f"{'FAILED' if failed else 'passed'}: {self.name}: {self.versions('numpy', *FRAMES)}", flush=True)
        return failed

    def check(self, packages, files):
        try:
            self.pip("--only-binary", ":all:", *packages)
            self.test(files)
        except subprocess.CalledProcessError as error:
            print(f"{error}; see {self.log.name}", file=sys.stderr)
            return self.report(True)
        return self.report(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", metavar="DIR")
    parser.add_argument("--built", metavar="BUILD")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    options = parser.parse_args()
    work = os.path.abspath(options.work or tempfile.mkdtemp(prefix="hugectr_lite_versions_"))
    os.makedirs(work, exist_ok=True)
    runs = [(python, None) for python in options.pythons or ([] if options.built else pythons())]
    if options.built:
        runs.append(("/usr/bin/python3", os.path.abspath(options.built)))
    failed = 0
    for python, built in runs:
        try:
            environment = Environment(python, work, built)
        except subprocess.CalledProcessError as error:
            print(f"FAILED: {python}: {error}; see the log in {work}")
            failed += 1
            continue
        failed += environment.check([f"numpy=={OLDEST.get(environment.minor, '2.3.2')}"], TESTS)
        newest = (*TESTS, "frames_test.py", "classifier_test.py", "estimator_test.py", "report_test.py")
        failed += environment.check(["--upgrade", "numpy", *FRAMES], newest)
    print(f"{len(runs)} Pythons: {failed} failures")
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
