#!/usr/bin/env python3
"""What the script of trainer/report/page.html draws. Run by ctest."""
import html.parser
import json
import os
import re
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from pages import HAS_NODE, drawn  # noqa: E402

with open(os.path.join(ROOT, "hugectr_lite/trainer/report/page.html"), encoding="utf-8") as template:
    TEMPLATE = template.read()


class Parsed(html.parser.HTMLParser):
    """Fails where an element is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.outside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href") and value != "data:,"]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class PageTest(unittest.TestCase):
    def test_the_template_refers_to_nothing_outside(self):
        page = Parsed(TEMPLATE)
        self.assertEqual((page.open, page.outside), (["html", "body"], []))
        for words in ("@import", "url(", "fetch", "innerHTML", "eval("):
            self.assertNotIn(words, TEMPLATE)
        self.assertEqual(re.findall("https?://[^']*", TEMPLATE), ["http://www.w3.org/2000/svg"])  # the name of SVG, not a place
        self.assertIn("prefers-color-scheme:dark", TEMPLATE)

    @unittest.skipUnless(HAS_NODE, "skipped: no node")
    def drawing(self, *body, **more):
        with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
            file.write(TEMPLATE + '<script type="application/json" id="page">' +
                       json.dumps({"title": "t", "body": body, **more}).replace("<", "\\u003c") + "</script></body></html>\n")
            file.flush()
            main, title = drawn(file.name)
        self.assertEqual((title, Parsed(main).open), ("t", []))
        return main

    def chart(self, *lines, **more):
        return self.drawing(["chart", {"title": "a", "x": "n", "lines": lines, **more}])

    def test_what_comes_from_outside_is_text(self):
        evil = "</script><img src='http://x/y' onerror='a'>&\""
        main = self.drawing(["h1", evil], ["table", [evil], [[evil], [None], [0], [False]]], ["tiles", [evil, evil]],
                            ["chart", {"title": evil, "x": evil, "y": evil, "lines": [
                                {"name": evil, "points": [[1, 2, evil]]}, {"name": evil, "points": [[1, 2]]}]}])
        self.assertNotIn("<img", main)
        self.assertNotIn("script", Parsed(main).tags)
        text = main.replace("&lt;", "<").replace("&quot;", '"').replace("&amp;", "&")
        self.assertEqual(text.count(evil), 1 + 2 + 2 + 4 + 2 + 4)  # and in the read-out x, both names, words of a point
        self.assertIn("<td></td></tr><tr><td>0</td></tr><tr><td>false</td>", main)

    def test_elements_have_classes_and_properties(self):
        self.assertIn('<p class="soft big" id="x">one <b>two</b></p>', self.drawing(["p.soft.big", {"id": "x"}, "one ", ["b", "two"]]))
        main = self.drawing(["table", ["a", "b", "c"], [["1", 2, ["bar", {"fill": 30, "rest": 20}]]], [2]])
        self.assertIn('<th>a</th><th>b</th><th class="left">c</th></tr><tr><td>1</td><td>2</td><td class="left"><svg class="bar"', main)
        self.assertIn('<rect class="rest" x="30" y="0" width="20" height="12">', main)

    def test_a_chart_draws_what_is_finite_and_keeps_spikes_of_long_lines(self):
        main = self.chart({"points": [[i, 50 if i == 54321 else i % 2] for i in range(100000)]})
        self.assertLess(len(main), 40000)
        # The spike is the highest point: 6 % of the values' range below the top of 204 units from 14 on.
        self.assertIn(f",{14 + 204 * 3 / 56:.1f}", main)
        # Pieces of three points, each of which begins with two that are missing.
        numbers = {"train": [{"iter": i, "y": i if i % 3 == 2 else None} for i in range(1500)]}
        main = self.drawing(["chart", {"title": "a", "x": "n", "lines": [{"of": "train", "y": "y"}]}], numbers=numbers)
        self.assertEqual(re.search('<path[^>]* d="([^"]*)"', main)[1].count(","), 500)
        path = re.search('<path[^>]* d="([^"]*)"', self.chart({"points": [[0, 1], [1, None], [2, 3], [3, 4]]}))[1]
        self.assertRegex(path, r"^M[\d.,]+M[\d.,]+L[\d.,]+$")
        self.assertIn("nothing yet", self.chart({"points": []}))
        for one in (0, -3, 1e12):
            main = self.chart({"points": [[5, one]]})
            self.assertIn("<path", main)
            self.assertNotIn("NaN", main)

    def test_lines_are_columns_of_the_numbers_or_points(self):
        numbers = {"train": [{"iter": 10, "share": 0.25}, {"iter": 20, "share": None}, {"iter": 30}], "eval": []}
        main = self.drawing(["chart", {"title": "a", "x": "iteration", "lines": [
            {"name": "b", "of": "train", "y": "share", "times": 100}, {"name": "c", "of": "eval", "y": "auc", "kind": "marks"},
            {"kind": "dash", "points": [[10, 20], [20, 20]]}]}], numbers=numbers)
        self.assertIn("iteration 10: b 25<", main)
        self.assertIn('<span class="key s0">b </span><span class="key s1">c </span>', main)
        self.assertEqual(re.findall('<path class="([^"]*)" d="(.)', main), [("s0", "M"), ("s1", '"'), ("dash", "M")])

    def test_a_chart_has_axes_a_legend_and_what_follows(self):
        main = self.drawing(["chart", {"title": "a", "x": "right", "y": "up", "zero": True, "lines": [
            {"name": f"GPU {i}", "kind": "marks", "points": [[0, 12000], [4, 24000 + i]]} for i in range(8)]}, ["p", "below"]])
        for words in ("right</text>", "up</text>", ">GPU 7 <", "</svg><p>below</p></figure>", ">20k</text>", ">0</text>"):
            self.assertIn(words, main)
        self.assertEqual(main.count("<circle"), 16)
        bars = self.chart({"kind": "bars", "points": [[0.5, 1.5], [1, 1]]}, zero=True)
        widths = [float(width) for width in re.findall('<rect class="s0" [^>]*width="([^"]*)"', bars)]
        self.assertEqual(widths, [(560 - 62 - 14) / 2 - 6] * 2)


if __name__ == "__main__":
    unittest.main()
