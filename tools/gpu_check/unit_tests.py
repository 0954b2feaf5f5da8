"""cuda_tests, a process for each test file: a fault on a GPU poisons its process, and the others still report."""
import re

from checks import Failed
from processes import run_limited

FIRST = "cuda_plugin_test"  # whether there is a plug-in and a GPU that computes
LIMIT = 150                 # seconds for a file


def test_files(session):
    """Names of the test files in the program; Catch2 makes tags of them."""
    listing = session.scratch("test_files")
    with open(listing, "wb") as out:
        ended = run_limited([session.program("cuda_tests"), "-#", "--list-tags"], 60, out, env=session.checks.env)
    with open(listing, encoding="utf-8", errors="replace") as text:
        names = sorted(set(re.findall(r"\[#(\w+)\]", text.read())), key=lambda name: (name != FIRST, name))
    if not names:
        raise Failed(f"cuda_tests lists no test files: {ended.how()}")
    unknown = [name for name in session.files if name not in names]
    if unknown:
        raise Failed(f"cuda_tests has no {', '.join(unknown)}; it has {', '.join(names)}")
    return [name for name in names if not session.files or name in session.files]


def command(session, name):
    return [session.program("cuda_tests"), "-#", "-w", "NoTests", "-d", "yes", f"[#{name}]"]


def run(session):
    names = []

    def list_files():
        names.extend(test_files(session))
        return [f"{len(names)} files"]

    session.checks.check("tests-list", list_files)
    for name in names:
        session.checks.check(f"tests-{name}", lambda name=name: session.checks.program(command(session, name), LIMIT))
