#!/usr/bin/env python3
"""Mistakes of people who use the programs for the first time: each is refused or said, in words that say where, what was
expected, what was found and what to write. Run by ctest, which names the programs."""
import json
import os
import random
import subprocess
import unittest

from running_server import LIMIT, Server, enter_folder, run

HEADER = ["user", "item", "age", "price", "gender", "clicked"]


def clicks(n, seed):
    draw = random.Random(seed)
    for _ in range(n):
        user, item = draw.randrange(200), draw.randrange(100)
        yield [f"u{user}", f"i{item}", 18 + int(draw.gammavariate(4, 6)), round(draw.gammavariate(2, 10), 2), draw.choice("MF"),
               int((user + item) % 3 == 0)]


def write(name, header, rows, separator=","):
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(separator.join(map(str, row)) + "\n" for row in ([header] if header else []) + list(rows))


class NewcomerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        enter_folder(cls.addClassCleanup)
        write("clicks.csv", HEADER, clicks(2000, 1))
        write("test.csv", HEADER, clicks(50, 2))
        run("csv_prep", "clicks.csv", "--out", "data", "--write-config", "dcnv2")
        run("train", "--config", "data/dcnv2.json", "--set", "solver.num_epochs=1", "--save", "model", "--with-preparation", "--quiet")

    def said(self, code, command, *words):
        """The program ends with that code and says these words."""
        program, *arguments = command.split()
        with self.subTest(command):
            result = subprocess.run([os.environ["HLITE_" + program.upper()], *arguments], capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(result.returncode, code, result.stderr)
            for word in words:
                self.assertIn(word, result.stdout + result.stderr)
            return result.stderr

    def answer_works(self, error, out):
        """The command at the end of a question works as it stands."""
        command = error.strip().splitlines()[-1].removeprefix("for instance: ")
        result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(result.returncode, 0, command + "\n" + result.stderr)
        self.assertTrue(os.path.exists(os.path.join(out, "train.bin")))

    def test_a_label_that_is_not_last(self):
        write("middle.csv", ["user", "kept it", "price", "gender"], [[u, y, p, g] for u, i, a, p, g, y in clicks(500, 1)])
        error = self.said(2, "csv_prep middle.csv --out middle", "middle.csv: expected columns that say by name or values what they are",
                          "one of 2 columns of two values: --label 'kept it' (of \"0\" \"1\"), --label gender (of \"F\" \"M\")")
        self.answer_works(error, "middle")

    def test_a_label_of_three_values(self):
        write("stars.csv", ["user", "price", "stars"], [[u, p, i[-1:] < "5" and y + 1 or 3] for u, i, a, p, g, y in clicks(500, 1)])
        error = self.said(2, "csv_prep stars.csv --out stars", "stars.csv: expected a column of two values for a label, found none",
                          "--positive the values that mean 1")
        self.answer_works(error, "stars")
        self.said(2, "csv_prep stars.csv --label stars --out other", "column 2: expected two values", "found 3: \"1\", \"2\", \"3\"",
                  "as --positive 3")

    def test_ids_that_are_numbers(self):
        write("ids.csv", ["user", "item", "price", "clicked"], [[u[1:], i[1:], p, y] for u, i, a, p, g, y in clicks(2000, 1)])
        error = self.said(2, "csv_prep ids.csv --out ids", "user: 200 distinct whole numbers from 0 to 199: --categorical user if they "
                          "are ids, --dense user if they are quantities", "item: 100 distinct", "--categorical user item")
        self.answer_works(error, "ids")

    def test_numbers_with_separators_of_thousands(self):
        write("amounts.csv", ["user", "price", "clicked"], [[u, f'"{int(900 * p + 999):,}"', y] for u, i, a, p, g, y in clicks(500, 1)])
        self.said(2, "csv_prep amounts.csv --out amounts", "price: ", " of 500 values are numbers as \"", "in line 2", "read as a text",
                  "write such numbers as 1234.5")

    def test_a_column_of_dates(self):
        write("dates.csv", ["user", "when", "clicked"], [[u, f"2024-{k % 12 + 1:02}-{k % 28 + 1:02}", y]
                                                         for k, (u, i, a, p, g, y) in enumerate(clicks(500, 1))])
        self.said(0, "csv_prep dates.csv --out dates", "when: \"2024-01-01\" in line 2 is a date",
                  '{"column": "when", "date": {"format": "%Y-%m-%d", "parts": ["month", "weekday"]}} under "categorical"')
        with open("dates/schema.json", encoding="utf-8") as file:  # as the note says
            schema = json.load(file)
        schema["categorical"] = [{"column": "user"}, {"column": "when", "date": {"format": "%Y-%m-%d", "parts": ["month", "weekday"]}}]
        with open("dates.json", "w", encoding="utf-8") as file:
            json.dump(schema, file)
        self.said(0, "csv_prep --schema dates.json --train dates.csv --out parts", "train.bin")

    def test_separators(self):
        write("spaces.csv", HEADER, clicks(50, 2), " ")
        self.said(3, "csv_prep spaces.csv --out spaces", "spaces.csv: expected rows of two or more columns", ", ; tab |",
                  "found \"user item age price gender clicked\"", '"separator": " "')
        write("semicolons.csv", HEADER, clicks(50, 2), ";")
        self.said(3, "csv_prep clicks.csv --test semicolons.csv --out semicolons", "semicolons.csv:1: expected the names of the columns",
                  'this line has ";" between them, where the training file has ","')
        write("rows.csv", None, clicks(50, 2), ";")
        self.said(3, "predict --model model --input rows.csv --out scores.csv", "rows.csv:1: expected at least 6 columns",
                  'found 1: this line has ";" between them')

    def test_a_column_that_is_missing(self):
        write("lacks.csv", HEADER[:2] + HEADER[3:], [row[:2] + row[3:] for row in clicks(50, 2)])
        self.said(3, "predict --model model --input lacks.csv --out scores.csv", "lacks.csv:1: expected a column \"age\" in the header",
                  'found "user", "item", "price", "gender", "clicked"')

    def test_rows_that_were_trained_on(self):
        self.said(2, "csv_prep clicks.csv --val clicks.csv --out twice", "clicks.csv: expected a file for training or for validation",
                  "found it given as both", "give other rows")
        os.symlink("clicks.csv", "link.csv")
        self.said(2, "csv_prep clicks.csv --test link.csv --out twice", "link.csv: expected", "given as both")

    def test_files_without_rows(self):
        write("empty.csv", None, [])
        write("names.csv", HEADER, [])
        self.said(3, "csv_prep empty.csv --out empty", "empty.csv: expected rows of two or more columns", "found no row")
        self.said(2, "csv_prep names.csv --out names", "names.csv: expected a column of two values", "one line alone: the names of the")
        self.said(3, "csv_prep clicks.csv --val empty.csv --out none", "empty.csv: expected at least one row, found none")
        for name in ("empty.csv", "names.csv"):
            self.said(0, f"predict --model model --input {name} --out scores.csv", "warning", "expected rows to score, found none")

    def test_names_that_are_not_there(self):
        self.said(3, "csv_prep click.csv --out none", "click.csv: cannot open: No such file")
        self.said(2, "csv_prep clicks.csv --label click --out none", "--label: expected a column of clicks.csv (\"user\", \"item\"",
                  "found \"click\"")

    def test_data_in_the_place_of_a_model(self):
        self.said(3, "predict --model data --input test.csv --out scores.csv", "data/manifest.json: expected the manifest of a "
                  "hugectr_lite checkpoint, which train --save writes, found that of data that csv_prep")

    def test_what_is_sent_to_the_server(self):
        with open("test.csv", encoding="utf-8") as file:
            header, *rows = file.read().splitlines()
        with Server(models=("m=model",)) as server:
            self.assertEqual(server.ask("/v2/models/m/text", "\n".join(rows).encode())[0], 200)
            for body, status, *words in (
                    ("\n".join([header] + rows), 400, "text 0: expected a row, found the names of the columns: leave that line out"),
                    ("".join(rows[:3]), 400, "text 0: expected at most 6 columns as in the training file, found 16",
                     "are these several rows?", "curl sends them by --data-binary"),
                    (rows[0].replace(",", ";"), 400, "text 0: expected at least 5 columns", 'this line has ";" between them'),
                    ('u1,i2,30,"1,200",F', 400, 'text 0: column 3 (price): expected a finite number, found "1,200"'),
                    ("u1,i2,thirty,12,F", 400, 'text 0: column 2 (age): expected a finite number, found "thirty"')):
                found, _, answer = server.ask("/v2/models/m/text", body.encode())
                self.assertEqual(found, status, body)
                for word in words:
                    self.assertIn(word, json.loads(answer)["error"])
            for path, status, word in (("/v2/models/m/infer", 400, "expected JSON, found \"u1,i2,30,12,F\": lines of text go to /v2/models/m/text"),
                                       ("/v2/models/model/text", 404, 'expected a model that is served (m), found "model"'),
                                       ("/predict", 404, "such as /v2/models/m/infer")):
                found, _, answer = server.ask(path, b"u1,i2,30,12,F")
                self.assertEqual(found, status, path)
                self.assertIn(word, json.loads(answer)["error"])


if __name__ == "__main__":
    unittest.main()
