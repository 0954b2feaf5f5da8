"""The tests with the tag [gpu], a process for each test file: a fault on a GPU poisons its process, and the others still
report."""
import re

from build import TEST_PROGRAMS
from checks import Failed
from processes import run_limited, within

FIRST = "cuda_plugin_test"  # whether there is a plug-in and a GPU that computes
LIMIT = 60                  # seconds for a file: many times what the slowest takes


def listed(session, program):
    """Names of the files of a program that have tests for a GPU; Catch2 makes tags of files."""
    listing = session.scratch(f"test_files_of_{program}")
    with open(listing, "wb") as out:
        ended = run_limited([session.program(program), "-#", "--list-tags", "[gpu]"], within(60), out, env=session.checks.env)
    with open(listing, encoding="utf-8", errors="replace") as text:
        names = sorted(set(re.findall(r"\[#(\w+)\]", text.read())))
    if not names:
        raise Failed(f"{program} lists no test files: {ended.how()}")
    return names


def test_files(session, wanted=()):
    """[(test file, the program that has it)] of those that the session asks for, or else of those wanted; empty: all."""
    files = [(name, program) for program in TEST_PROGRAMS for name in listed(session, program)]
    names = [name for name, _ in files]
    wanted = session.files or wanted
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise Failed(f"no test for a GPU is in {', '.join(unknown)}; they are in {', '.join(names)}")
    files = [file for file in files if not wanted or file[0] in wanted]
    return sorted(files, key=lambda file: (file[0] != FIRST, file))


def command(session, name, program):
    return [session.program(program), "-#", "-d", "yes", f"[#{name}][gpu]"]


def run_tests(session, test, limit):
    """Raises Failed also where no test was run: Catch2 3 fails then, Catch2 2 only says so."""
    before = session.checks.logged("No tests ran")
    session.checks.program(test, limit)
    if session.checks.logged("No tests ran") != before:
        raise Failed("no tests ran")


def run(session, wanted=()):
    files = []

    def list_files():
        files.extend(test_files(session, wanted))
        return [f"{len(files)} files"]

    session.checks.check("tests-list", list_files)
    for name, program in files:
        session.checks.check(f"tests-{name}",
                             lambda test=command(session, name, program): run_tests(session, test, LIMIT))
