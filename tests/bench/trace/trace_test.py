#!/usr/bin/env python3
"""libhlite_trace.so over a stand-in for CUPTI (HLITE_TRACE_LIBRARY, HLITE_STAND_IN_CUPTI; left out without), and
trace_report.py on a made trace whose numbers are known."""
import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import trace_report

LIBRARY, STAND_IN = os.environ.get("HLITE_TRACE_LIBRARY"), os.environ.get("HLITE_STAND_IN_CUPTI")
COPY = "void hlite::(anonymous namespace)::copy_kernel<float, (int)4>(float const*, long)"


def piece(start, end, stream, launch, name=0, kind="kernel", **more):
    return {"kind": kind, **({"name": name} if kind == "kernel" else {}), "start": start, "end": end, "device": 0,
            "stream": stream, "channel": stream + 10, "graph": 4, "node": 1, "launch": launch, **more}


def iteration(begin, launch):
    """Stream 1: 0-100 a, 110-150 b, 250-300 b. Stream 2: 90-200 a copy. Nothing from 200 to 250."""
    at = lambda start, end, *more, **named: piece(begin + 1000 * start, begin + 1000 * end, *more, launch, **named)
    return [at(0, 100, 1), at(110, 150, 1, name=1), at(250, 300, 1, name=1),
            at(90, 200, 2, kind="memcpy", copy="HtoD", bytes=4)]


def made(folder, iterations=4, tail="", **changes):
    lines = [{"kind": "trace", "program": "train", "pid": 1, "cupti": 130000},
             {"kind": "name", "id": 0, "name": COPY}, {"kind": "name", "id": 1, "name": "b"},
             {**piece(1, 900_000, 1, 1), "graph": 0}]  # before any graph
    for i in range(iterations):
        lines += iteration(1_000_000 * (i + 1), 50 + i)
    lines.append({"kind": "end", "records": 17, "dropped": 0, "left_out": 0})
    for line in lines:
        line.update({key: value for key, value in changes.items() if key in line})
    path = os.path.join(folder, "trace.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines) + tail)
    return path


def report(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = trace_report.main(list(words))
    return code, out.getvalue(), err.getvalue()


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.json = os.path.join(self.folder, "report.json")

    def described(self, *words):
        code, out, err = report(*words, "--json", self.json)
        self.assertEqual((code, err), (0, ""))
        with open(self.json, encoding="utf-8") as file:
            return json.load(file), out

    def test_numbers(self):
        d, out = self.described(made(self.folder))
        for key, expected in (("iterations", 2), ("span", 300), ("median", 300), ("pieces", 4), ("sum", 300), ("nothing", 50),
                              ("one", 200), ("several", 50), ("chain_pieces", 2), ("chain", 160), ("chain_gaps", 50)):
            self.assertAlmostEqual(d[key], expected, msg=key)
        self.assertEqual(d["chain_of"], ["memcpy HtoD", "b"])
        one, two = d["lanes"]
        self.assertEqual((one["lane"], one["pieces"], one["gaps"], two["lane"], two["gaps"]), ("stream 1", 3, 2, "stream 2", 0))
        for key, expected in (("busy", 190), ("gap_sum", 110), ("gap_median", 55), ("gap_max", 100)):
            self.assertAlmostEqual(one[key], expected, msg=key)
        self.assertAlmostEqual(two["busy"], 110)
        kernels = {k["name"]: (k["times"], round(k["us"]), round(k["alone"]), round(k["longest"])) for k in d["kernels"]}
        self.assertEqual(kernels, {"memcpy HtoD": (1, 110, 60, 110), "copy_kernel": (1, 100, 90, 100), "b": (2, 90, 50, 50)})
        self.assertIn("graph 4: 4 launches of 4 pieces, 3 different", out)
        self.assertIn("nothing runs         50.0 us  16.7 %", out)

    def test_a_graph_on_one_stream_has_channels(self):
        d, _ = self.described(made(self.folder, stream=9))
        self.assertEqual([s["lane"] for s in d["lanes"]], ["channel 11", "channel 12"])
        self.assertAlmostEqual(d["several"], 50)

    def test_without_graphs(self):
        path = made(self.folder, graph=0)
        code, _, err = report(path)
        self.assertEqual(code, 3)
        self.assertIn("no graph", err)
        d, _ = self.described(path, "--marker", "copy_kernel")
        self.assertAlmostEqual(d["span"], 300)
        self.assertEqual(report(path, "--marker", "nobody")[0], 3)

    def test_another_graph(self):
        code, _, err = report(made(self.folder), "--graph", "5")
        self.assertEqual(code, 3)
        self.assertIn("no graph 5, its graphs are [4]", err)

    def test_cut_off(self):
        path = made(self.folder, tail='{"kind":"kernel","na')
        self.assertEqual(self.described(path)[0]["pieces"], 4)
        with open(path, "w", encoding="utf-8") as file:
            file.write("{}}\n")
        with self.assertRaisesRegex(SystemExit, "trace.jsonl:1: expected JSON"):
            report(path)

    def test_keep(self):
        less = os.path.join(self.folder, "less.jsonl.gz")
        before, _ = self.described(made(self.folder), "--keep", "3", "--out", less)
        with gzip.open(less) as file:
            self.assertEqual(sum(b'"kernel"' in line for line in file), 9)
        code, out, err = report(less, "--json", self.json)
        self.assertEqual(code, 0)
        self.assertIn("3 launches", out)
        self.assertIn("no end", err)
        with open(self.json, encoding="utf-8") as file:
            self.assertEqual({**json.load(file), "iterations": 2}, before)

    def test_short_names(self):
        for name, expected in ((COPY, "copy_kernel"), ("b", "b"), ("sm90_xmma_gemm_bf16", "sm90_xmma_gemm_bf16"),
                               ("void cutlass::Kernel2<cutlass::gemm<int> >(cutlass::Params)", "Kernel2"),
                               ("void cub::detail::radix::Onesweep<a::b<1>, 2>(T*)", "Onesweep"),
                               ("memcpy HtoD", "memcpy HtoD")):
            self.assertEqual(trace_report.short(name), expected)


@unittest.skipUnless(LIBRARY and STAND_IN, "libhlite_trace.so is not built")
class Library(unittest.TestCase):
    def run_with(self, folder, **env):
        """(exit code, standard error, lines of the trace) of a program that calls what the driver would call."""
        path = os.path.join(folder, "trace-%p.jsonl")
        program = f"import ctypes; lib = ctypes.CDLL({LIBRARY!r}); lib.InitializeInjection(); lib.InitializeInjection()"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                              env={**os.environ, "LD_PRELOAD": STAND_IN, "HLITE_TRACE": path, **env})
        files = os.listdir(folder)
        lines = []
        for name in files:
            self.assertRegex(name, r"^trace-\d+\.jsonl$")
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                lines += [json.loads(line) for line in file]
        return done.returncode, done.stderr, lines

    def test_records(self):
        with tempfile.TemporaryDirectory() as folder:
            code, err, lines = self.run_with(folder)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(lines[0]["cupti"], 130000)
            common = {"device": 0, "channel": 5, "graph": 3, "node": (3 << 32) + 1, "launch": 77}
            kernel = {"kind": "kernel", "name": 0, **common, "stream": 7, "grid": 70000, "block": 256, "registers": 40,
                      "shared": 1024}
            self.assertEqual(lines[1:], [
                {"kind": "name", "id": 0, "name": "void hlite::copy<float>(float*)"},
                {**kernel, "start": 1000, "end": 2000},
                {"kind": "memcpy", "copy": "HtoD", "bytes": 5 << 32, "start": 1500, "end": 2500, **common, "stream": 8},
                {"kind": "memset", "bytes": 4, "start": 2600, "end": 2700, **common, "stream": 8},
                {**kernel, "start": 4000, "end": 5000},
                {"kind": "memcpy", "copy": "PtoP", "bytes": 0, "start": 6000, "end": 6500, **common, "stream": 8},
                {"kind": "end", "records": 5, "dropped": 2, "left_out": 0}])

    def test_report_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_with(folder)
            code, out, _ = report(os.path.join(folder, os.listdir(folder)[0]))
            self.assertEqual(code, 0)
            self.assertIn("graph 3: 1 launches of 5 pieces, 4 different", out)

    def test_a_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = self.run_with(folder, HLITE_TRACE_RECORDS="2")[2]
            self.assertEqual(lines[-1], {"kind": "end", "records": 2, "dropped": 2, "left_out": 3})

    def test_what_fails_is_said_once(self):
        for fault, words in (("register", "cuptiActivityRegisterCallbacks"), ("enable", "cuptiActivityEnable"),
                             ("records", "cuptiActivityGetNextRecord")):
            with tempfile.TemporaryDirectory() as folder:
                code, err, lines = self.run_with(folder, STAND_IN_CUPTI=fault)
                self.assertEqual((code, err), (0, f"libhlite_trace: {words}: CUPTI_ERROR_OF_THE_STAND_IN\n"))
                self.assertEqual([line["kind"] for line in lines], ["trace", "end"])

    def test_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            code, err, _ = self.run_with(folder, HLITE_TRACE="")
            self.assertEqual(code, 0)
            self.assertIn("HLITE_TRACE: expected the name of a file, found nothing", err)
            code, err, _ = self.run_with(folder, HLITE_TRACE=os.path.join(folder, "none/x"))
            self.assertEqual(code, 0)
            self.assertRegex(err, "^libhlite_trace: .*none/x: No such file")


if __name__ == "__main__":
    unittest.main()
