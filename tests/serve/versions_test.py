#!/usr/bin/env python3
"""Versions of a model under load: newer ones are swapped in, damaged ones are refused, requests are answered by exactly one.
Run by ctest, which names the programs."""
import json
import os
import shutil
import threading
import time
import unittest

import numpy as np

from running_server import (Server, ask_on, binary_request, binary_scores, enter_folder, evaluation, json_request, json_scores,
                            make_models, run, wait_until)

SWAPS = int(os.environ.get("HLITE_SWAPS", 12))


def publish(source, version, damage=None):
    """A checkpoint as version `version`: complete at once, by a rename."""
    work = f"work_{version}"
    shutil.copytree(source, work)
    if damage:
        damage(work)
    os.rename(work, f"models/{version}")


def flip_a_bit(folder, name="weights.safetensors"):
    with open(os.path.join(folder, name), "r+b") as file:
        file.seek(-5, os.SEEK_END)
        byte = file.read(1)
        file.seek(-5, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))


def cut_short(folder):
    path = os.path.join(folder, "weights.safetensors")
    os.truncate(path, os.path.getsize(path) // 2)


def without_weights(folder):
    os.remove(os.path.join(folder, "weights.safetensors"))


def write_in_place(source, folder, names=("weights.safetensors", "manifest.json")):
    """As cp does over files that are there."""
    for name in names:
        shutil.copyfile(os.path.join(source, name), os.path.join(folder, name))


class Clients:
    """Threads that ask a server for scores until the block ends or one of them returns a failure."""

    def __init__(self, server, dense, keys, check, count=3):
        self.server, self.request, self.check = server, binary_request(dense, keys), check
        self.failures, self.stopped = [], threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(count)]

    def ask(self):
        headers, body = self.request
        with self.server.connection() as connection:
            while not self.stopped.is_set() and not self.failures:
                failure = self.check(*ask_on(connection, "/v2/models/demo/infer", body, headers))
                if failure:
                    self.failures.append(failure)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


class VersionsTest(unittest.TestCase):
    def setUp(self):
        enter_folder(self.addCleanup)
        make_models()
        run("train", "--config", "config.json", "--save", "other", "--quiet", "--set", "solver.seed=8")
        run("predict", "--model", "other", "--input", "eval.bin", "--out", "other.npy", "--quiet")
        os.mkdir("models")

    def wait_for(self, server, version):
        wait_until(lambda: json.loads(server.ask("/v2/models/demo")[2])["versions"] == [version], f"version {version}")

    def wait_for_refusal(self, server, version):
        wait_until(lambda: self.index(server).get(str(version), {}).get("reason", "not loaded") not in ("", "not loaded"),
                   f"a refusal of version {version}")

    def index(self, server):
        return {state["version"]: state for state in json.loads(server.ask("/v2/repository/index", b"")[2])}

    def test_swaps_under_load_fail_no_request(self):
        dense, keys, scores = evaluation()
        of_version = {0: np.load("other.npy"), 1: scores}  # by parity
        publish("ck", 1)
        with Server("--poll-ms", "10", models=("demo=models",)) as server:
            stop, answers, failures, counting = threading.Event(), [0], [], threading.Lock()

            def client(rows):
                with server.connection() as connection:
                    headers, body = binary_request(dense[rows], keys[rows])
                    while not stop.is_set():
                        status, found, answer = ask_on(connection, "/v2/models/demo/infer", body, headers)
                        head = json.loads(answer[:int(found["Inference-Header-Content-Length"])]) if status == 200 else {}
                        version = int(head.get("model_version", 0))
                        if status != 200 or binary_scores(found, answer).tobytes() != of_version[version % 2][rows].tobytes():
                            failures.append((status, answer))
                            return
                        with counting:
                            answers[0] += 1
            threads = [threading.Thread(target=client, args=(np.arange(i, 333, 3 ** i),)) for i in range(4)]
            for thread in threads:
                thread.start()
            damages = [flip_a_bit, cut_short, without_weights]
            version = 1
            for swap in range(SWAPS):
                version += 1
                if swap % 2:
                    publish("ck", version, damages[swap // 2 % len(damages)])
                    self.wait_for_refusal(server, version)
                    version += 1
                publish("ck" if version % 2 else "other", version)
                self.wait_for(server, str(version))
                before = answers[0]  # each version answers some
                wait_until(lambda: failures or answers[0] > before, "an answer")
            stop.set()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            self.assertGreater(answers[0], SWAPS)
            states = self.index(server)
            self.assertEqual([v for v, state in states.items() if state["state"] == "READY"], [str(version)])
            metrics = server.ask("/metrics")[2].decode()
            self.assertIn(f'hugectr_lite_model_version{{model="demo"}} {version}\n', metrics)
            code, _, err = server.stop()
            self.assertIn("model demo: now serving version 2 (was 1)\n", err)
            self.assertEqual(code, 0)
            self.assertIn("is refused: models/3/", err)

    def test_a_start_with_a_damaged_version_falls_back_or_refuses(self):
        publish("ck", 1)
        publish("other", 2, flip_a_bit)
        with Server("--poll-ms", "10", models=("demo=models",)) as server:
            self.wait_for_refusal(server, 2)
            self.wait_for(server, "1")
            self.assertEqual(server.ask("/v2/health/ready")[0], 200)
        with Server(models=("demo=models/2",)) as server:
            wait_until(lambda: server.ask("/v2/health/ready")[0] == 503, "the model to be refused")
            status, _, answer = server.score(b"{}")
            self.assertEqual(status, 503)
            self.assertIn("it is damaged", json.loads(answer)["error"])
        with Server("--no-verify", models=("demo=models/2",)) as server:
            self.assertEqual(server.ask("/v2/health/ready")[0], 200)

    def error_of(self, server):
        status, _, answer = server.score(b"{}")
        return status, json.loads(answer)["error"]

    def test_weights_written_in_their_place_give_scores_of_one_model_or_none(self):
        dense, keys, scores = evaluation()
        whole = [scores.tobytes(), np.load("other.npy").tobytes()]
        shutil.copytree("ck", "served")
        with Server("--poll-ms", "10", models=("demo=served",)) as server:
            seen = [0, 0]

            def check(status, found, answer):
                given = binary_scores(found, answer).tobytes() if status == 200 else b""
                if given in whole:
                    seen[whole.index(given)] += 1
                elif status != 503:
                    return status, answer
                return None

            with Clients(server, dense, keys, check) as clients:
                failures = clients.failures

                def wait_for_scores(model):
                    before = seen[model]
                    wait_until(lambda: failures or seen[model] > before, f"scores of model {model}")
                wait_for_scores(0)
                for turn in range(10):
                    write_in_place("ck" if turn % 2 else "other", "served")
                    wait_for_scores(1 - turn % 2)
                write_in_place("other", "served", ("weights.safetensors",))  # with the other's manifest
                wait_until(lambda: failures or self.error_of(server)[0] == 503, "a refusal")
                os.truncate("served/weights.safetensors", 0)
                wait_until(lambda: failures or self.error_of(server)[0] == 503, "a refusal")
                write_in_place("ck", "served")
                wait_for_scores(0)
            self.assertEqual(failures, [])
            code, _, err = server.stop()
            self.assertEqual(code, 0)
            self.assertIn("model demo: version 1 is refused: served/weights.safetensors: the file has changed", err)

    def test_a_version_whose_file_was_cut_gives_way_to_an_older_one(self):
        publish("ck", 1)
        publish("other", 2)
        with Server("--poll-ms", "10", models=("demo=models",)) as server:
            self.wait_for(server, "2")
            os.truncate("models/2/weights.safetensors", 100)
            wait_until(lambda: self.index(server)["1"]["state"] == "READY", "version 1")
            self.assertEqual(server.score(json_request(*evaluation()[:2]))[0], 200)
            self.assertNotEqual(self.index(server)["2"]["reason"], "")
            self.assertEqual(server.ask("/v2/health/ready")[0], 200)

    def test_exported_weights_that_were_changed_are_loaded_again_on_demand(self):
        dense, keys, scores = evaluation()
        shutil.copyfile("ck/weights.safetensors", "weights.safetensors")
        with Server("--poll-ms", "10", "--config", "config.json", models=("demo=weights.safetensors",)) as server:
            np.testing.assert_array_equal(json_scores(server.score(json_request(dense, keys))[2]), scores)
            shutil.copyfile("other/weights.safetensors", "weights.safetensors")
            status, error = self.error_of(server)
            self.assertEqual((status, error), (503, "weights.safetensors: the file has changed since it was opened"))
            wait_until(lambda: self.index(server)["1"]["state"] != "READY", "the index to say so")
            self.assertEqual(server.ask("/v2/repository/models/demo/load", b"{}")[0], 400)
            body = json.dumps({"parameters": {"version": "1"}}).encode()
            self.assertEqual(server.ask("/v2/repository/models/demo/load", body)[0], 200)
            np.testing.assert_array_equal(json_scores(server.score(json_request(dense, keys))[2]), np.load("other.npy"))

    def test_damaged_versions_are_named_and_a_rollback_stays(self):
        publish("ck", 1)
        publish("other", 2)
        publish("ck", 3, flip_a_bit)
        with Server("--poll-ms", "10", models=("demo=models",)) as server:
            self.wait_for_refusal(server, 3)
            self.wait_for(server, "2")
            states = self.index(server)
            self.assertEqual({v: state["state"] for v, state in states.items()},
                             {"1": "UNAVAILABLE", "2": "READY", "3": "UNAVAILABLE"})
            self.assertIn("it is damaged", states["3"]["reason"])
            self.assertEqual(states["1"]["reason"], "not loaded")

            def load(version):
                body = json.dumps({"parameters": {"version": version}} if version else {}).encode()
                status, _, answer = server.ask("/v2/repository/models/demo/load", body)
                return status, json.loads(answer).get("error", "")
            self.assertEqual(load("1"), (200, ""))
            self.wait_for(server, "1")
            publish("ck", 4)
            time.sleep(0.2)  # a newer one does not undo what was asked for
            self.wait_for(server, "1")
            for version, words in (("3", "it is damaged"), ("9", "found nothing"), ("x", 'found "x"')):
                status, error = load(version)
                self.assertEqual(status, 400)
                self.assertIn(words, error)
            self.wait_for(server, "1")
            self.assertEqual(load(None), (200, ""))
            self.wait_for(server, "4")
            self.assertEqual(server.ask("/v2/repository/models/demo/unload", b"")[0], 400)
            # A refused version that is replaced is tried again.
            publish("ck", 5, without_weights)
            self.wait_for_refusal(server, 5)
            shutil.move("models/5", "bad")
            publish("ck", 5)
            self.wait_for(server, "5")

    def test_a_version_that_is_copied_into_its_place_is_served_once_it_is_whole(self):
        publish("ck", 1)
        with Server("--poll-ms", "10", models=("demo=models",)) as server:
            os.mkdir("models/2")
            shutil.copyfile("other/manifest.json", "models/2/manifest.json")
            with open("other/weights.safetensors", "rb") as file:
                weights = file.read()
            with open("models/2/weights.safetensors", "wb") as file:
                file.write(weights[:len(weights) // 2])
                file.flush()
                self.wait_for_refusal(server, 2)
                file.write(weights[len(weights) // 2:])
            self.wait_for(server, "2")

    def test_a_version_that_stays_damaged_is_named_once(self):
        publish("ck", 1)
        publish("ck", 2, flip_a_bit)
        with Server("--poll-ms", "10", models=("demo=models",)) as server:
            self.wait_for_refusal(server, 2)
            self.wait_for(server, "1")
            os.utime("models/2/weights.safetensors")
            for version in range(3, 7):  # a poll for each of them, so that 2 has been tried again
                publish("ck", version, without_weights)
                self.wait_for_refusal(server, version)
            _, _, err = server.stop()
            self.assertEqual(err.count("version 2 is refused"), 1, err)

    def test_a_link_that_is_copied_into_its_place_is_served_once_it_is_whole(self):
        run("train", "--config", "config.json", "--resume", "ck", "--save", "ck_90", "--save-delta", "training", "--set",
            "solver.max_iter=90", "--quiet")
        os.makedirs("chain/0000000090")
        with open("training/0000000090/delta.safetensors", "rb") as file:
            delta = file.read()
        shutil.copyfile("training/0000000090/manifest.json", "chain/0000000090/manifest.json")
        with open("chain/0000000090/delta.safetensors", "wb") as file:
            file.write(delta[:len(delta) // 2])
            file.flush()
            with Server("--poll-ms", "10", "--deltas", "demo=chain", models=("demo=ck",)) as server:
                self.wait_for_refusal(server, "1.90")
                file.write(delta[len(delta) // 2:])
                file.flush()
                self.wait_for(server, "1.90")

    def test_deltas_of_a_training_are_swapped_in_and_damaged_ones_are_refused(self):
        dense, keys, scores = evaluation()
        of_version = {"1": scores}
        for before, after in ((60, 90), (90, 120), (120, 150), (150, 180)):
            run("train", "--config", "config.json", "--resume", "ck" if before == 60 else f"ck_{before}", "--save", f"ck_{after}",
                "--save-delta", "training", "--set", f"solver.max_iter={after}", "--quiet")
            run("predict", "--model", f"ck_{after}", "--input", "eval.bin", "--out", f"{after}.npy", "--quiet")
            of_version[f"1.{after}"] = of_version[f"2.{after}"] = np.load(f"{after}.npy")
        of_version["2"] = of_version["1.150"]
        os.mkdir("chain")

        def link(iteration, damage=None):
            shutil.copytree(f"training/{iteration:010}", "work_link")
            if damage:
                damage("work_link")
            os.rename("work_link", f"chain/{iteration:010}")

        def flip_a_bit_of_a_delta(folder):
            flip_a_bit(folder, "delta.safetensors")
        publish("ck", 1)
        link(90)
        with Server("--poll-ms", "10", "--deltas", "demo=chain", models=("demo=models",)) as server:
            seen = set()

            def check_scores(status, found, answer):
                head = json.loads(answer[:int(found["Inference-Header-Content-Length"])]) if status == 200 else {}
                version = head.get("model_version")
                seen.add(version)
                right = status == 200 and binary_scores(found, answer).tobytes() == of_version[version].tobytes()
                return None if right else (status, version, answer)
            clients = Clients(server, dense, keys, check_scores)

            def load(version):
                request = json.dumps({"parameters": {"version": version}} if version else {}).encode()
                status, _, answer = server.ask("/v2/repository/models/demo/load", request)
                return status, json.loads(answer).get("error", "")

            def wait_for(version):
                """Until it is served, and a client has had an answer of it."""
                self.wait_for(server, version)
                wait_until(lambda: clients.failures or version in seen, f"an answer of version {version}")

            def check():
                wait_for("1.90")  # a start takes the newest state
                link(120)
                wait_for("1.120")
                parameters = json.loads(server.ask("/v2/models/demo/versions/1.120")[2])["parameters"]
                with open("ck_120/manifest.json", encoding="utf-8") as file:
                    weights = json.load(file)["files"][0]
                self.assertEqual(parameters, {"iteration": 120, "weights_xxh3_64": weights["xxh3_64"]})
                metrics = server.ask("/metrics")[2].decode()
                self.assertIn('hugectr_lite_model_version{model="demo"} 1\n', metrics)
                self.assertIn('hugectr_lite_model_iteration{model="demo"} 120\n', metrics)

                link(150, flip_a_bit_of_a_delta)
                self.wait_for_refusal(server, "1.150")
                link(180)  # needs the damaged one
                self.wait_for_refusal(server, "1.180")
                for version in ("1.150", "1.180"):
                    self.assertIn("chain/0000000150/delta.safetensors: it is damaged", self.index(server)[version]["reason"])
                self.wait_for(server, "1.120")
                shutil.move("chain/0000000150", "bad")
                link(150)  # mends both
                wait_for("1.180")

                self.assertEqual(load("1.90"), (200, ""))
                self.wait_for(server, "1.90")
                self.assertEqual(load("1"), (200, ""))
                wait_for("1")
                publish("ck_150", 2)  # from the middle of the chain
                time.sleep(0.2)
                self.wait_for(server, "1")
                for version, words in (("1.91", "chain/0000000091"), ("2.120", "expected a chain with a delta from"),
                                       ("1.", 'found "1."')):
                    status, error = load(version)
                    self.assertEqual(status, 400)
                    self.assertIn(words, error)
                self.assertEqual(load(None), (200, ""))
                self.wait_for(server, "2.180")
                self.assertEqual(sorted(self.index(server)), ["1", "1.120", "1.150", "1.180", "1.90", "2", "2.180"])
            with clients:
                check()
            self.assertEqual(clients.failures, [])
            self.assertLessEqual({"1.90", "1.120", "1.180", "1"}, seen)
        # One checkpoint with a chain, and a chain of another model.
        with Server("--poll-ms", "10", "--deltas", "chain", models=("demo=ck_150",)) as server:
            self.wait_for(server, "1.180")
        with Server("--poll-ms", "10", "--deltas", "chain", models=("demo=other",)) as server:
            self.wait_for(server, "1")
            self.assertIn("expected a chain with a delta from other/weights", self.index(server)["1.180"]["reason"])


if __name__ == "__main__":
    unittest.main()
