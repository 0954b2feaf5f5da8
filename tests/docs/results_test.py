#!/usr/bin/env python3
"""tests/bench/RESULTS.md: table and plots are what the records say, and links lead somewhere. Run by ctest."""
import importlib.util
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "tests", "bench")
SCRIPT = os.path.join(BENCH, "plot_results.py")

spec = importlib.util.spec_from_file_location("plot_results", SCRIPT)
plot_results = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(plot_results)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def pages():
    for folder in ("", "docs", "tests/bench"):
        for name in sorted(os.listdir(os.path.join(ROOT, folder))):
            if name.endswith(".md"):
                yield os.path.join(ROOT, folder, name)


class ResultsTest(unittest.TestCase):
    def test_plots_and_table_are_what_the_script_makes(self):
        done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_links_to_results_and_from_them_lead_somewhere(self):
        found = 0
        for page in pages():
            for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
                file, _, section = target.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(page), file)) if file else page
                if not path.startswith(BENCH) or "://" in target:
                    continue
                found += 1
                with self.subTest(page=os.path.relpath(page, ROOT), link=target):
                    self.assertTrue(os.path.exists(path))
                    if section:
                        headings = re.findall(r"^#+ (.*)$", read(path), re.MULTILINE)
                        self.assertIn(section, [plot_results.anchor(h) for h in headings])
        self.assertGreater(found, 40)

    def test_every_figure_has_a_place_in_the_table(self):
        for record in plot_results.records():
            with self.subTest(record["name"]):
                self.assertTrue(record["figures"])
                kinds = [kind for kind in ("bars", "points", "lines") if kind in record]
                self.assertEqual(len(kinds), 1)
                plot = record[kinds[0]]
                for group in plot.get("groups", []):
                    self.assertEqual(len(group) - 1, len(plot["series"]))
                for line in plot.get("lines", []):
                    self.assertEqual(len(line) - 1, len(plot["x"]))


if __name__ == "__main__":
    unittest.main()
