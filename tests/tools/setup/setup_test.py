"""tools/setup.sh and the one list of packages, with a dpkg and an apt-get that only say what they were asked."""

import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def listed():
    """(group, package, package on Debian 13) of each line of tools/packages.txt."""
    rows = [line.split() for line in read("tools", "packages.txt").splitlines() if line and not line.startswith("#")]
    return [(row[0], row[1], row[2] if len(row) > 2 else row[1]) for row in rows]


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.calls = os.path.join(self.folder.name, "calls")
        # All packages but those in MISSING are installed.
        self.program("dpkg-query", 'case " $MISSING " in *" ${!#} "*) exit 1 ;; esac; echo -n installed')
        self.program("apt-get", f'echo "apt-get $*" >>{self.calls}')
        self.program("sudo", '"$@"')

    def program(self, name, body):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/usr/bin/env bash\n{body}\n")
        os.chmod(path, 0o755)

    def setup(self, *arguments, release="ID=debian\nVERSION_ID=\"12\"\n", missing=""):
        os_release = os.path.join(self.folder.name, "os-release")
        with open(os_release, "w", encoding="utf-8") as file:
            file.write(release)
        environment = dict(os.environ, HLITE_OS_RELEASE=os_release, MISSING=missing,
                           PATH=self.folder.name + ":" + os.environ["PATH"])
        return subprocess.run([os.path.join(ROOT, "tools", "setup.sh"), *arguments], env=environment, text=True,
                              capture_output=True, check=False)

    def test_a_group_is_its_packages_under_the_names_of_the_release(self):
        for release, column in (("12", 1), ("13", 2)):
            for group in sorted({row[0] for row in listed()}):
                found = self.setup("--list", f"--{group}", release=f"ID=debian\nVERSION_ID={release}\n")
                self.assertEqual(found.returncode, 0, found.stderr)
                expected = [row[column] for row in listed() if row[0] == group and row[column] != "-"]
                self.assertEqual(found.stdout.split(), expected)
        self.assertNotEqual([row[1] for row in listed()], [row[2] for row in listed()])

    def test_what_is_missing_is_installed_and_nothing_else(self):
        result = self.setup("--programs", "--mpi", missing="cmake libopenmpi-dev curl")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.calls, encoding="utf-8") as file:
            install = file.read().splitlines()[-1]
        self.assertTrue(install.startswith("apt-get install "), install)
        self.assertEqual([word for word in install.split()[2:] if not word.startswith("-")], ["cmake", "libopenmpi-dev"])

    def test_what_is_installed_is_left_alone(self):
        result = self.setup("--programs")
        self.assertEqual(result.returncode, 0, result.stderr)
        count = len([row for row in listed() if row[0] == "programs"])
        self.assertEqual(result.stdout, f"setup: all {count} packages are installed\n")
        self.assertFalse(os.path.exists(self.calls))

    def test_another_distribution_is_told_what_it_needs(self):
        for release in ("ID=ubuntu\nVERSION_ID=24.04\n", "ID=debian\nVERSION_ID=11\n", ""):
            result = self.setup("--grpc", release=release)
            self.assertEqual(result.returncode, 2)
            self.assertIn("expected Debian 12 or 13, found ", result.stderr)
            self.assertIn("libgrpc++-dev libprotobuf-dev protobuf-compiler", result.stderr)
            self.assertIn("--no-setup", result.stderr)
        self.assertIn("found ubuntu 24.04", self.setup("--grpc", release="ID=ubuntu\nVERSION_ID=24.04\n").stderr)

    def test_an_unknown_word_is_an_error(self):
        result = self.setup("--program")
        self.assertEqual(result.returncode, 2)
        self.assertIn("unknown argument '--program'", result.stderr)
        self.assertIn("--programs", result.stderr)

    def test_what_cmake_says_to_install_is_in_the_list(self):
        names = {row[1] for row in listed()}
        # What a listed package brings along.
        names |= {"libgrpc-dev", "libabsl-dev", "openmpi-bin", "libopenblas-dev"}
        for name in sorted(os.listdir(os.path.join(ROOT, "cmake"))):
            advice = re.findall(r"\b(?:install |\(or )([a-z0-9.+-]+-dev)\b", read("cmake", name))
            advice += re.findall(r'\(([a-z0-9.+-]+-(?:dev|bin)|protobuf-compiler)\)"', read("cmake", name))
            for package in advice:
                self.assertIn(package, names, name)


if __name__ == "__main__":
    unittest.main()
