#!/usr/bin/env python3
"""The pages of docs/: what they quote is in the sources, what they link to is there, their commands and scripts run.
Run by ctest; HLITE_PROGRAMS names the programs' folder, PYTHONPATH the package."""
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCS = os.path.join(ROOT, "docs")
SOURCES = ("hugectr_lite", "embedding", "data_reader", "tools")
PROGRAMS = ("criteo_prep", "criteo_synth", "csv_prep", "data_inspect", "model_delta", "predict", "serve", "train",
            "train_bench")
OTHERS = {"--system-site-packages"}  # options of programs that are not of this repository
LEAST = 8  # characters of a quoted message that are worth looking for


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def files(folder, *endings):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in sorted(names)
            if name.endswith(endings)]


PAGES = [os.path.join(ROOT, "README.md"), os.path.join(ROOT, "ARCHITECTURE.md"),
         os.path.join(ROOT, "tests/bench/RESULTS.md"), *files(DOCS, ".md")]


def literals(text):
    """Source text as its strings read: adjacent literals joined, quotes bare, every {...} of a format as one {}."""
    text = re.sub(r'"\s*\n?\s*"', "", text)
    return re.sub(r"\{[^{}\n]*\}", "{}", text.replace('\\"', '"'))


def without_code(page):
    return re.sub(r"^```[\s\S]*?^```|`[^`\n]*`", "", page, flags=re.MULTILINE)


def anchors(page):
    """What #... may name: headings as GitHub writes them."""
    headings = re.findall(r"^#+ +(.*)", re.sub(r"^```[\s\S]*?^```", "", page, flags=re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def cells(row):
    return len(re.findall(r"(?<!\\)\|", row))


def script_of(page, left_out=r"$^"):
    blocks = re.findall(r"^```(sh.*)\n([\s\S]*?)^```", page, re.MULTILINE)
    return "".join(body for kind, body in blocks if not re.search(left_out, kind))


def run(script, folder):
    for part in ("configs", "tools", "tests"):
        if os.path.lexists(os.path.join(folder, part)):
            continue
        os.symlink(os.path.join(ROOT, part), os.path.join(folder, part))
    environment = dict(os.environ, PATH=os.environ["HLITE_PROGRAMS"] + os.pathsep + os.environ["PATH"])
    return subprocess.run(["/bin/bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment,
                          capture_output=True, text=True, check=False)


def commands(page):
    """(program or "", its options) of each command in a page's code; "": code that begins with an option."""
    blocks = re.findall(r"^```.*\n([\s\S]*?)^```", page, re.MULTILINE)
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```[\s\S]*?^```", "", page, flags=re.MULTILINE))
    lines = "\n".join([*blocks, *(span.replace("\n", " ") for span in spans)]).replace("\\\n", " ").splitlines()
    for command in (part for line in lines for part in re.split(r"[|;&]|\$\(", line.partition(" #")[0])):
        words = command.split()
        if words:
            program = "" if words[0].startswith("--") else os.path.basename(words[0])
            yield program, [re.match(r"--[\w-]+", word)[0] for word in words if re.match(r"--[a-z]", word)]


def zstd(data):
    """A frame of one block that is stored as it is."""
    size = len(data)
    return b"\x28\xb5\x2f\xfd\xa0" + size.to_bytes(4, "little") + (size << 3 | 1).to_bytes(3, "little") + data


def write_adult(folder):
    """adult.data and adult.test as UCI has them: with an empty line at the end, and a comment before the test set."""
    for name, first in (("adult.data", b""), ("adult.test", b"|1x3 Cross validator\n")):
        with gzip.open(os.path.join(ROOT, "tests/data/adult", name + ".gz")) as packed, \
                open(os.path.join(folder, name), "wb") as file:
            file.write(first + packed.read() + b"\n")


class DocsTest(unittest.TestCase):
    def test_quoted_messages_are_in_the_sources(self):
        sources = literals("\n".join(read(path) for part in SOURCES
                                     for path in files(os.path.join(ROOT, part), ".cpp", ".cu", ".h", ".py")))
        page = read(DOCS, "troubleshooting.md").replace("\n", " ")
        quoted = re.findall(r"\*\*`([^`]+)`", page)
        self.assertGreater(len(quoted), 25)
        for message in quoted:
            parts = [part for part in re.split(r"\.\.\.(?!Hash)", message) if len(part.strip()) >= LEAST]
            self.assertTrue(parts, message)
            for part in parts:
                with self.subTest(message):
                    self.assertTrue(part in sources, part)

    def test_verdicts_of_the_report_are_the_program_s(self):
        source = literals(read(ROOT, "hugectr_lite/trainer/report/step_verdict.cpp"))
        for words in ("half-way to its lower bound", "far from its lower bound", "random rows",
                      "too little work for the threads", "its data stay in caches", "close to what", "with waiting for others"):
            self.assertIn(words, read(DOCS, "report.md"))
            self.assertIn(words, source)

    def test_train_page_has_every_option(self):
        help_text = subprocess.run([os.path.join(os.environ["HLITE_PROGRAMS"], "train"), "--help"],
                                   capture_output=True, text=True, check=True).stdout
        options = set(re.findall(r"^ +(?:-\w,)?(--[\w-]+)", help_text, re.MULTILINE))
        self.assertGreater(len(options), 20)
        section = re.search(r"## Options of `train`([\s\S]*?)\n## ", read(DOCS, "train.md")).group(1)
        table = set(re.findall(r"--[\w-]+", "".join(re.findall(r"^\| (`--.*?) \|", section, re.MULTILINE))))
        self.assertEqual(table, options)

    def test_options_that_pages_name_are_there(self):
        helps = {program: subprocess.run([os.path.join(os.environ["HLITE_PROGRAMS"], program), "--help"], capture_output=True,
                                         text=True, check=True).stdout
                 for program in PROGRAMS if os.path.exists(os.path.join(os.environ["HLITE_PROGRAMS"], program))}
        self.assertIn("csv_prep", helps)
        scripts = "\n".join(read(path) for part in (*SOURCES, "docker", "docs", "tests")
                            for path in files(os.path.join(ROOT, part), ".cpp", ".py", ".sh"))
        seen = set()
        for path in PAGES:
            for program, options in commands(read(path)):
                known = helps.get(program, "\n".join(helps.values()) + scripts if program == "" else None)
                for option in options if known is not None else ():
                    seen.add(program)
                    with self.subTest(f"{os.path.relpath(path, ROOT)}: {program} {option}"):
                        self.assertTrue(option in OTHERS or re.search(re.escape(option) + r"(?![\w-])", known))
        self.assertLessEqual({"", "csv_prep", "predict", "serve", "train"}, seen)

    def test_formats_that_pages_name_give_the_same_scores(self):
        text = "item,price,clicked\n" + "".join(f"i{i * i % 31},{i * 7 % 53 / 4},{i * i % 5 % 2}\n" for i in range(400))
        packed = {"csv": text.encode(), "csv.gz": gzip.compress(text.encode()), "csv.zst": zstd(text.encode())}
        with tempfile.TemporaryDirectory() as folder:
            for ending, data in packed.items():
                with open(os.path.join(folder, f"a.{ending}"), "wb") as file:
                    file.write(data)
            scores = set()
            for ending, kind in (("csv", "raw"), ("csv.gz", "norm"), ("csv.zst", "raw")):
                result = run(f"csv_prep a.{ending} --out {ending} --format {kind} --write-config dcnv2 --quiet\n"
                             f"train --config {ending}/dcnv2.json --set solver.num_epochs=1 --save {ending}/model "
                             "--set layers.data.shuffle_samples=false --with-preparation\n"
                             f"predict --model {ending}/model --input a.{ending} --out {ending}.csv\n"
                             f"predict --model {ending}/model --input - --out - < a.{ending} > {ending}.again.csv", folder)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                scores |= {read(folder, f"{ending}.csv"), read(folder, f"{ending}.again.csv")}
            self.assertEqual(len(scores), 1)
            self.assertEqual(len(scores.pop().split()), 401)

    def test_events_of_metrics_are_named(self):
        source = read(ROOT, "hugectr_lite/trainer/report/metrics_file.cpp")
        events = set(re.findall(r'"event":"(\w+)"|evaluation_line\("(\w+)"', source))
        self.assertGreater(len(events), 4)
        for page in (read(DOCS, "train.md"), read(DOCS, "report.md")):
            for event in events:
                self.assertIn(f"`{''.join(event)}`", page)

    def test_links_and_images_lead_somewhere(self):
        for path in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", without_code(read(path))):
                if "://" in target:
                    continue
                file, _, anchor = target.partition("#")
                file = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
                with self.subTest(f"{os.path.relpath(path, ROOT)}: {target}"):
                    self.assertTrue(os.path.exists(file))
                    if anchor:
                        self.assertIn(anchor, anchors(read(file)))

    def test_rows_of_a_table_have_as_many_cells_as_its_head(self):
        for path in PAGES:
            tables = re.findall(r"(?:^\|.*\n)+", read(path), re.MULTILINE)
            for rows in (table.splitlines() for table in tables):
                self.assertRegex(rows[1], r"^\|(?:-+\|)+$", path)
                for row in rows:
                    with self.subTest(f"{os.path.relpath(path, ROOT)}: {row[:60]}"):
                        self.assertEqual(cells(row), cells(rows[0]))

    def test_readme_can_be_read_in_five_minutes(self):
        self.assertLessEqual(len(read(ROOT, "README.md").splitlines()), 130)

    def test_files_that_pages_name_are_there(self):
        named = r"`((?:configs|tests|tools|hugectr_lite|docs)/[\w./*<>-]+)`"
        for path in PAGES:
            for name in re.findall(named, read(path)):
                with self.subTest(f"{os.path.relpath(path, ROOT)}: {name}"):
                    self.assertTrue(glob.glob(os.path.join(ROOT, name)))

    def test_data_page_does_what_it_says(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("mkdir work\n" + script_of(read(DOCS, "data.md")), folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            for words in ("manifest.json", "key_counts.bin", "bottom", "16281", "Rome&6\nOslo&7\nRome&1\n", "[30, 65)"):
                self.assertIn(words, result.stdout + result.stderr)
            # 13 + 26 columns; 13 and 214 keys; 6 and 8 columns.
            for name, record in (("criteo/val.bin", 160), ("lists/val.bin", 912), ("adult/val.bin", 60)):
                size = os.path.getsize(os.path.join(folder, "work", name))
                self.assertEqual(size % record, 0)
                self.assertGreater(size, 1000 * record)

            sizes = {name: [os.path.getsize(os.path.join(folder, "work", name, part + ".bin")) for part in parts]
                     for name, parts in (("later", ("train", "val", "test")), ("people", ("train", "val")),
                                         ("folds/fold_4", ("train", "val")))}
            records = {name: sum(of_name) // 2000 for name, of_name in sizes.items()}
            self.assertEqual({name: sum(of_name) for name, of_name in sizes.items()},
                             {name: 2000 * record for name, record in records.items()})
            self.assertTrue(os.path.exists(os.path.join(folder, "work/folds/fold_0/dcnv2.json")))

    def test_readme_goes_from_a_csv_file_to_a_served_probability(self):
        block = next(body for kind, body in re.findall(r"^```(sh)\n([\s\S]*?)^```", read(ROOT, "README.md"), re.MULTILINE)
                     if body.startswith("csv_prep adult.data"))
        commands = block.splitlines()
        self.assertEqual(len(commands), 5)
        for command in commands:
            self.assertLessEqual(len(command), 80)
        prepare, train, predict, serve, ask = commands
        with tempfile.TemporaryDirectory() as folder:
            write_adult(folder)
            result = run("\n".join((prepare, train, predict)), folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            areas = [float(area) for area in re.findall(r"AUC (0\.\d+)", result.stderr)]
            self.assertGreater(areas[-1], 0.907)  # of adult.test, by predict
            self.assertIn("1 is \">50K\" \">50K.\"", result.stdout)
            with open(os.path.join(folder, "adult.data"), encoding="utf-8") as file:
                first = file.readline()
            with open(os.path.join(folder, "first.csv"), "w", encoding="utf-8") as file:
                file.write(first)
            expected = run("predict --model model --input first.csv --out - --quiet", folder).stdout.splitlines()[-1]
            self.assertTrue(serve.endswith(" &"))
            program = os.path.join(os.environ["HLITE_PROGRAMS"], "serve")
            # No limit of the server's is about this: a busy machine may meet one.
            command = [program, *serve[:-2].split()[1:], "--port", "0", "--deadline-ms", "3600000", "--request-s", "3600"]
            with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
                try:
                    line = server.stdout.readline()  # once it listens; its model is loaded by then
                    port = re.search(r":(\d+)$", line.strip())[1]
                    answer = run(ask.replace(":8080/", f":{port}/"), folder)
                finally:
                    server.terminate()
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(float(answer.stdout), float(expected.split(",")[-1]))

    def test_day_after_day_page_does_what_it_says(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("mkdir work\n" + script_of(read(DOCS, "day_after_day.md")), folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            events = [json.loads(line) for line in read(folder, "work/metrics.jsonl").splitlines()]
            scored = [event for event in events if event["event"] == "progressive"]
            self.assertEqual([event["file"] for event in scored], [f"day_0{day}.bin" for day in range(3)])
            self.assertGreater(scored[2]["auc"], scored[0]["auc"] + 0.05)
            days = json.loads(read(folder, "work/daily.meta.json"))["days"]
            self.assertLess(scored[2]["auc"], days[2]["bayes_auc"])

    def test_gallery_runs(self):
        expected = {"arrays.py": r"pass 4: AUC of new samples 0\.8", "files.py": r"iteration 300: AUC 0\.[78]",
                    "rates.py": r"0\.1 +0\.\d+  0\.[78]", "neighbours.py": r"same kind: (1\.00|0\.9)"}
        # tests/python/histories_test.py and yambda_test.py run the others.
        self.assertEqual(set(expected) | {"clicks.py", "histories.py", "yambda.py"}, set(os.path.basename(p) for p in files(DOCS, ".py")))
        for name, words in expected.items():
            with self.subTest(name):
                result = subprocess.run([sys.executable, os.path.join(DOCS, "gallery", name)], capture_output=True,
                                        text=True, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertRegex(result.stdout, words)


if __name__ == "__main__":
    unittest.main()
