#!/usr/bin/env python3
"""An independent client queries `serve` over gRPC: tritonclient[grpc], unmodified, and grpcio with its messages. Run by
ctest; PYTHONPATH names the folders that tools/setup.sh fetched them to."""
import json
import os
import re
import subprocess
import threading
import unittest

import grpc
import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2 as messages

from running_server import (DENSE, FOREVER, LIMIT, TABLES, ModelFolder, Server, binary_request, binary_scores, evaluation,
                            make_text_model, wait_until)

MODELS = ModelFolder()
setUpModule, tearDownModule = MODELS.set_up, MODELS.tear_down


class GrpcServer(Server):
    def __init__(self, *arguments, **more):
        super().__init__("--grpc-port", "0", *arguments, **more)
        self.target = f"127.0.0.1:{self.grpc_port}"


def inputs(dense, keys):
    tensors = [triton.InferInput("dense", dense.shape, "FP32"), triton.InferInput("keys", keys.shape, "INT64")]
    for tensor, values in zip(tensors, (dense, keys)):
        tensor.set_data_from_numpy(values)
    return tensors


def request(dense, keys, **more):
    """With typed contents, which tritonclient does not send."""
    tensor = messages.ModelInferRequest.InferInputTensor
    return messages.ModelInferRequest(model_name="demo", inputs=[
        tensor(name="dense", datatype="FP32", shape=dense.shape, contents={"fp32_contents": dense.ravel()}),
        tensor(name="keys", datatype="INT32", shape=keys.shape, contents={"int_contents": keys.ravel()})], **more)


class GrpcTest(unittest.TestCase):
    def call(self, server, method, message, answer, **more):
        with grpc.insecure_channel(server.target) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/" + method,
                                       request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
                                       response_deserializer=answer.FromString)
            return call(message, **{"timeout": LIMIT, **more})

    def infer(self, server, message, **more):
        return self.call(server, "ModelInfer", message, messages.ModelInferResponse, **more)

    def refused(self, code, words, server, message, **more):
        with self.subTest(words), self.assertRaises(grpc.RpcError) as raised:
            self.infer(server, message, **more)
        self.assertEqual(raised.exception.code(), code, raised.exception.details())
        self.assertIn(words, raised.exception.details())
        return raised.exception

    def test_tritonclient(self):
        dense, keys, scores = evaluation()
        with GrpcServer(models=("demo=ck", "clamped")) as server, triton.InferenceServerClient(server.target) as client:
            self.assertTrue(client.is_server_live() and client.is_server_ready())
            self.assertEqual(client.get_server_metadata().name, "hugectr_lite")
            for model in ("demo", "clamped"):
                self.assertTrue(client.is_model_ready(model) and client.is_model_ready(model, "1"))
                found = client.get_model_metadata(model)
                self.assertEqual((found.name, found.versions), (model, ["1"]))
                self.assertEqual([(t.name, t.datatype, t.shape) for t in found.inputs],
                                 [("dense", "FP32", [-1, DENSE]), ("keys", "INT64", [-1, len(TABLES)])])
            with self.assertRaisesRegex(triton.InferenceServerException, "expected a model that is served"):
                client.is_model_ready("other")
            for n in (1, 7, 333):
                output = triton.InferRequestedOutput("score")
                result = client.infer("demo", inputs(dense[:n], keys[:n]), outputs=[output], request_id="7")
                self.assertEqual(result.as_numpy("score").shape, (n, 1))
                self.assertEqual(result.as_numpy("score").tobytes(), scores[:n].tobytes())
                self.assertEqual((result.get_response().id, result.get_response().model_version), ("7", "1"))
                headers, body = binary_request(dense[:n], keys[:n])
                _, headers, answer = server.score(body, headers)
                self.assertEqual(binary_scores(headers, answer).tobytes(), scores[:n].tobytes())  # over HTTP
            result = client.infer("clamped", inputs(dense, np.full((1, 3), 10**6)), model_version="1", timeout=10**9)
            self.assertEqual(result.as_numpy("score").shape, (333, 1))
            self.assertIn('unknown_keys_total{model="clamped"} 999', server.ask("/metrics")[2].decode())
            for words, tensors, more in (
                    (r"INVALID_ARGUMENT.*expected shape \[-1,2\], found \[1,3\]", inputs(np.zeros((1, 3), np.float32), keys[:1]), {}),
                    ('NOT_FOUND.*expected version 1, found "2"', inputs(dense, keys), {"model_version": "2"})):
                with self.assertRaisesRegex(triton.InferenceServerException, words):
                    client.infer("demo", tensors, **more)
            with self.assertRaisesRegex(triton.InferenceServerException, "UNIMPLEMENTED.*found /inference"):
                client.get_model_config("demo")
            # A refusal is counted when it has been sent.
            wait_until(lambda: 'hugectr_lite_errors_total{status="400"} 1\n' in server.ask("/metrics")[2].decode(), "the count")
            self.assertIn('hugectr_lite_requests_total{model="demo"} 6\n', server.ask("/metrics")[2].decode())

    def test_typed_contents(self):
        dense, keys, scores = evaluation()
        with GrpcServer("--max-body-mb", "1") as server:
            answer = self.infer(server, request(dense, keys))
            self.assertEqual(np.array(answer.outputs[0].contents.fp32_contents, np.float32).tobytes(), scores.tobytes())
            self.assertEqual((list(answer.outputs[0].shape), len(answer.raw_output_contents)), ([333, 1], 0))
            unsigned = request(dense, keys)
            unsigned.inputs[1].datatype = "UINT32"
            unsigned.inputs[1].contents.Clear()
            unsigned.inputs[1].contents.uint_contents.extend(keys.ravel().tolist())
            answer = self.infer(server, unsigned)
            self.assertEqual(np.array(answer.outputs[0].contents.fp32_contents, np.float32).tobytes(), scores.tobytes())
            bad = grpc.StatusCode.INVALID_ARGUMENT
            short, both, named, output, deep, flat = (request(dense[:1], keys[:1]) for _ in range(6))
            deep.inputs[1].shape.append(1)
            flat.inputs[0].shape.pop()
            self.refused(bad, "expected shape [-1,3], found [1,3,1]", server, deep)
            self.refused(bad, "expected shape [-1,2], found [1]", server, flat)
            short.inputs[1].contents.int_contents.pop()
            both.raw_input_contents.append(b"")
            named.inputs[0].name = "denes"
            output.outputs.add().name = "scores"
            self.refused(bad, "expected 12 bytes for shape [1,3], found 8", server, short)
            self.refused(bad, "found 1 of 2 in addition to contents", server, both)
            self.refused(bad, 'expected an input of the model (dense, keys), found "denes"', server, named)
            self.refused(bad, 'outputs: expected "score", found "scores"', server, output)
            self.refused(bad, "expected input \"dense\", found none", server, messages.ModelInferRequest(model_name="demo"))
            self.refused(bad, "expected a message inference.ModelInferRequest, found 4 bytes", server, b"\xff\xff\xff\xff")
            self.refused(bad, "found -1", server, request(dense[:1], keys[:1], parameters={"timeout": {"int64_param": -1}}))
            self.refused(grpc.StatusCode.NOT_FOUND, "expected a model", server, messages.ModelInferRequest(model_name="x"))
            self.refused(grpc.StatusCode.UNIMPLEMENTED, "", server, request(dense, keys), compression=grpc.Compression.Gzip)
            self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "", server, b"\0" * (2 << 20))
            self.infer(server, request(dense[:1], keys[:1]))  # it goes on

    def test_lines_of_text(self):
        make_text_model()
        with open("lines.csv", encoding="utf-8") as file:
            lines = file.read().splitlines()
        scores = np.load("text.npy")
        with GrpcServer(models=("demo=text",)) as server, triton.InferenceServerClient(server.target) as client:
            tensor = triton.InferInput("text", [len(lines), 1], "BYTES")
            tensor.set_data_from_numpy(np.array(lines, object).reshape(-1, 1))
            self.assertEqual(client.infer("demo", [tensor]).as_numpy("score").tobytes(), scores.tobytes())
            typed = messages.ModelInferRequest(model_name="demo")
            typed.inputs.add(name="text", datatype="BYTES", shape=[100, 1], contents={"bytes_contents": [t.encode() for t in lines]})
            self.assertEqual(np.array(self.infer(server, typed).outputs[0].contents.fp32_contents, np.float32).tobytes(),
                             scores.tobytes())

    def test_a_full_queue_and_missed_deadlines(self):
        dense, keys, _ = evaluation()
        with GrpcServer("--max-queue", "2", *FOREVER) as server:
            queued = []
            asking = [threading.Thread(target=lambda: queued.append(self.infer(server, request(dense[:1], keys[:1]))))
                      for _ in range(2)]
            for thread in asking:
                thread.start()
            server.wait_for_metric("queued_samples", 2)
            for _ in range(2):
                error = self.refused(grpc.StatusCode.UNAVAILABLE, "", server, request(dense[:1], keys[:1]))
                self.assertEqual(dict(error.trailing_metadata()).get("grpc-retry-pushback-ms"), "1000")
            code, _, err = server.stop()
            for thread in asking:
                thread.join()
            self.assertEqual((code, len(queued)), (0, 2), err)
        with GrpcServer("--max-delay-us", "400000") as server:  # the time of a request is over before that of its batch
            late = grpc.StatusCode.DEADLINE_EXCEEDED
            self.refused(late, "expected to be scored within 1 ms", server,
                         request(dense[:1], keys[:1], parameters={"timeout": {"int64_param": 1000}}))
            self.assertEqual(self.scored(server), "0")
        with GrpcServer("--access-log", *FOREVER) as server:  # the client's own limit
            # On a busy machine the time may be over before the call has come: then the next one has more.
            for limit in (0.1, 1, 10, 100):
                self.refused(late, "", server, request(dense[:1], keys[:1]), timeout=limit)
                if server.metric("queued_samples") > 0:
                    break
            code, out, err = server.stop()
            calls = [line["status"] for line in map(json.loads, out.splitlines()) if line["method"] == "gRPC"]
            self.assertEqual((code, calls), (0, [504]), err)

    @staticmethod
    def scored(server):
        return re.search(r"hugectr_lite_samples_total\S* (\d+)", server.ask("/metrics")[2].decode())[1]

    def test_a_token_is_asked_for(self):
        dense, keys, _ = evaluation()
        with open("token", "w", encoding="utf-8") as file:
            file.write("secret\n")
        with GrpcServer("--token-file", "token") as server, triton.InferenceServerClient(server.target) as client:
            for metadata in ((), (("authorization", "Bearer secre"),)):
                self.refused(grpc.StatusCode.UNAUTHENTICATED, "expected the header Authorization", server,
                             request(dense[:1], keys[:1]), metadata=metadata)
            self.assertTrue(client.is_server_live() and client.is_server_ready())
            headers = {"authorization": "Bearer secret"}
            self.assertEqual(client.get_model_metadata("demo", headers=headers).name, "demo")
            client.infer("demo", inputs(dense[:1], keys[:1]), headers=headers)

    def test_a_message_that_does_not_come_and_too_many_calls(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def nothing():
            release.wait()
            yield from ()

        def slow_calls(channel):
            method = channel.stream_stream("/inference.GRPCInferenceService/ServerLive")
            return [method(nothing(), timeout=LIMIT, wait_for_ready=True) for _ in range(3)]

        def live(server):
            return self.call(server, "ServerLive", messages.ServerLiveRequest(), messages.ServerLiveResponse).live

        with GrpcServer("--max-connections", "3") as server, grpc.insecure_channel(server.target) as channel:
            slow, refusals = slow_calls(channel), []

            def refused():  # once all three have come
                try:
                    return not live(server)
                except grpc.RpcError as error:
                    refusals.append((error.code(), error.details()))
                    return True
            wait_until(refused, "a fourth call to be refused")
            code, details = refusals[0]
            self.assertEqual(code, grpc.StatusCode.UNAVAILABLE)
            self.assertIn("expected at most 3 calls at a time", details)
            for call in slow:
                call.cancel()

            def answered():  # once they have gone
                try:
                    return live(server)
                except grpc.RpcError:
                    return False
            wait_until(answered, "a call to be answered")
        with GrpcServer("--request-s", "1") as server, grpc.insecure_channel(server.target) as channel:
            for call in slow_calls(channel):
                self.assertEqual(call.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
                self.assertIn("expected a whole request within 1000 ms", call.details())
            wait_until(answered, "a call to be answered")  # a busy machine may take a second to send one

    def test_metadata_has_a_limit(self):
        with GrpcServer() as server, grpc.insecure_channel(server.target) as channel:
            live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive",
                                       request_serializer=messages.ServerLiveRequest.SerializeToString,
                                       response_deserializer=messages.ServerLiveResponse.FromString)
            self.assertTrue(live(messages.ServerLiveRequest(), metadata=[("x", "a" * 12_000)], timeout=LIMIT).live)
            with self.assertRaises(grpc.RpcError) as refused:
                live(messages.ServerLiveRequest(), metadata=[("x", "a" * 20_000)], timeout=LIMIT)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_sigterm_answers_what_has_begun(self):
        dense, keys, scores = evaluation()
        with GrpcServer("--access-log", *FOREVER) as server:
            answers = []
            asking = threading.Thread(target=lambda: answers.append(self.infer(server, request(dense[:1], keys[:1]))))
            asking.start()
            server.wait_for_metric("queued_samples", 1)
            code, out, err = server.stop()
            asking.join()
            self.assertEqual(code, 0, err)
            self.assertEqual(np.float32(answers[0].outputs[0].contents.fp32_contents[0]), scores[0])
            self.assertIn('"method":"gRPC","path":"/inference.GRPCInferenceService/ModelInfer","status":200', out)

    def test_what_cannot_be_served_is_an_error(self):
        def start(arguments, **environment):
            result = subprocess.run([os.environ["HLITE_SERVE"], "--model", "ck", "--port", "0", *arguments], capture_output=True,
                                    text=True, timeout=LIMIT, check=False, env={**os.environ, **environment})
            return result.returncode, result.stderr
        with GrpcServer() as server:
            code, error = start(["--grpc-port", str(server.grpc_port)])
            self.assertEqual(code, 2)
            self.assertIn("cannot listen", error)
        code, error = start(["--grpc-port", "0"], HLITE_GRPC_LIBRARY="/nowhere.so")
        self.assertEqual(code, 2)
        self.assertIn("cannot load the gRPC plug-in /nowhere.so", error)
        self.assertIn("tools/setup.sh installs it", error)


if __name__ == "__main__":
    unittest.main()
