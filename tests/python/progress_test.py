#!/usr/bin/env python3
"""The bar of train(progress=True): in a notebook, on a terminal, and nowhere."""
import contextlib
import io
import sys
import types
import unittest

from hugectr_lite.progress import Progress

LOSS = {"event": "train", "iter": 3, "loss": 0.5, "lr": 0.1, "samples_per_s": 7.0}
EVAL = {"event": "eval", "iter": 6, "auc": 0.75, "loss": 0.25, "samples": 9}


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressTest(unittest.TestCase):
    def shown(self, stream):
        with contextlib.redirect_stderr(stream):
            bar = Progress(6)
            bar.update(3, LOSS)
            bar.update(6, EVAL)
            bar.close()
        return bar, stream.getvalue()

    def test_a_terminal_sees_a_line_that_redraws_itself(self):
        _, text = self.shown(Terminal())
        first, last = text.strip().split("\r")
        self.assertIn(f"[{'#' * 15:<30}] 3/6 iterations", first)
        self.assertIn("loss 0.50000", first)
        self.assertIn(f"[{'#' * 30}] 6/6 iterations", last)
        self.assertIn("eval auc 0.75000", last)
        self.assertIn("loss 0.50000", last)
        self.assertTrue(text.endswith("\n"))

    def test_a_file_sees_nothing(self):
        bar, text = self.shown(io.StringIO())
        self.assertEqual(text, "")
        self.assertEqual(bar.done, 6)

    def test_a_notebook_sees_html(self):
        seen = []
        handle = types.SimpleNamespace(update=lambda bar: seen.append(bar._repr_html_()))
        display = types.ModuleType("IPython.display")
        display.display = lambda bar, display_id: seen.append(bar._repr_html_()) or handle
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        before = {name: sys.modules.get(name) for name in ("IPython", "IPython.display")}
        sys.modules.update({"IPython": ipython, "IPython.display": display})
        try:
            _, text = self.shown(Terminal())
        finally:
            for name, module in before.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module
        self.assertEqual(text, "")
        self.assertEqual(len(seen), 3)
        self.assertIn('<progress value="0" max="6"', seen[0])
        self.assertIn('value="6"', seen[2])
        self.assertIn("eval auc 0.75000", seen[2])


if __name__ == "__main__":
    unittest.main()
