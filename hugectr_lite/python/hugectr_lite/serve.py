"""Serves scores over HTTP by running the program `serve`.

    python3 -m hugectr_lite.serve --model checkpoint --port 8080

The program answers in the KServe v2 protocol, with JSON or binary tensors: docs/serve.md. It is
searched for in pip's scripts folder, a build's bin folder, and PATH.
"""
import os
import shutil
import sys
import sysconfig


def program():
    """The program's path; None where it is not installed."""
    build = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = (sysconfig.get_path("scripts"), os.path.join(build, "bin"))
    return next((path for path in (shutil.which("serve", path=folder) for folder in folders) if path), shutil.which("serve"))


def main():
    found = program()
    if found is None:
        print("serve: expected the program serve next to the package or on PATH, found none: it is installed with the package "
              "(pip install .), or lies in the bin folder of a build", file=sys.stderr)
        return 2
    sys.stdout.flush()
    os.execv(found, [found, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
