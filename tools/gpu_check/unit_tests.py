"""The tests of kernels, a process for each test file: a fault on a GPU poisons its process, and the others still
report."""
import glob
import os
import re

from build import TEST_PROGRAMS
from checks import Failed
from processes import run_limited

FIRST = "cuda_plugin_test"  # whether there is a plug-in and a GPU that computes
LIMIT = 60                  # seconds for a file: many times what the slowest takes


LIST = "tests/without_gpu"  # of an archive, which has no sources


def reaches_gpu(root, file):
    """Whether a test's source, or a header of tests that it includes, asks for the machine's GPU."""
    with open(os.path.join(root, file), encoding="utf-8") as source:
        text = source.read()
    if file != "tests/support/cuda_backends.h" and re.search(r"\b(cuda_backends|gpu_or_skip)\(\)", text):
        return True
    return any(reaches_gpu(root, header) for header in re.findall(r'^#include "(tests/\S+)"', text, re.MULTILINE))


def files_without_gpu(root):
    """Names of the test files that run nothing on a GPU: they are about the emulation, or the CPU."""
    if os.path.exists(os.path.join(root, LIST)):
        with open(os.path.join(root, LIST), encoding="utf-8") as names:
            return names.read().split()
    sources = [os.path.relpath(file, root) for program in TEST_PROGRAMS
               for file in glob.glob(os.path.join(root, "tests", program.removesuffix("_tests"), "*_test.cpp"))]
    return [os.path.basename(file)[:-4] for file in sorted(sources) if not reaches_gpu(root, file)]


def listed(session, program):
    """Names of the test files in a program; Catch2 makes tags of them."""
    listing = session.scratch(f"test_files_of_{program}")
    with open(listing, "wb") as out:
        ended = run_limited([session.program(program), "-#", "--list-tags"], 60, out, env=session.checks.env)
    with open(listing, encoding="utf-8", errors="replace") as text:
        names = sorted(set(re.findall(r"\[#(\w+)\]", text.read())))
    if not names:
        raise Failed(f"{program} lists no test files: {ended.how()}")
    return names


def test_files(session):
    """[(test file, the program that has it)] of those that the session asks for."""
    files = [(name, program) for program in TEST_PROGRAMS for name in listed(session, program)]
    names = [name for name, _ in files]
    unknown = [name for name in session.files if name not in names]
    if unknown:
        raise Failed(f"no test program has {', '.join(unknown)}; they have {', '.join(names)}")
    unwanted = [] if session.files else files_without_gpu(session.root)
    files = [file for file in files if file[0] not in unwanted and (not session.files or file[0] in session.files)]
    return sorted(files, key=lambda file: (file[0] != FIRST, file))


def command(session, name, program):
    return [session.program(program), "-#", "-w", "NoTests", "-d", "yes", f"[#{name}]"]


def run(session):
    files = []

    def list_files():
        files.extend(test_files(session))
        return [f"{len(files)} files"]

    session.checks.check("tests-list", list_files)
    for name, program in files:
        session.checks.check(f"tests-{name}",
                             lambda test=command(session, name, program): session.checks.program(test, LIMIT))
