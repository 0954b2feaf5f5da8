#!/usr/bin/env python3
"""run_onnx.py MODEL.onnx CONFIG.json RECORDS.bin: prints one score per line.

Evaluates the operators in NumPy, as defined. RECORDS.bin holds raw records as the config says."""
import json
import math
import sys

import numpy as np
import onnx
from onnx import numpy_helper

OPS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "MatMul": np.matmul, "Sqrt": np.sqrt,
    "Max": np.maximum, "Tanh": np.tanh, "Erf": np.vectorize(math.erf, [np.float32]), "Less": np.less, "Greater": np.greater,
    "Equal": np.equal, "Or": np.logical_or, "Not": np.logical_not, "Where": np.where,
    "Relu": lambda x: np.maximum(x, 0), "Sigmoid": lambda x: (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32),
    "Gather": lambda x, i, axis=0: np.take(x, i, axis), "Concat": lambda *x, axis: np.concatenate(x, axis),
    "Reshape": lambda x, shape: x.reshape(shape), "Transpose": lambda x, perm: x.transpose(perm),
    "Slice": lambda x, begin, end, axis: np.take(x, range(begin[0], end[0]), axis[0]),
    "ReduceSum": lambda x, axes, keepdims: x.sum(tuple(axes), keepdims=bool(keepdims)),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)), "Exp": np.exp, "Identity": lambda x: x,
    "Cast": lambda x, to: x.astype(np.int64 if to == onnx.TensorProto.INT64 else np.float32),
    "ReduceMax": lambda x, axes, keepdims: x.max(tuple(axes), keepdims=bool(keepdims)),
    "ReduceMean": lambda x, axes, keepdims: x.mean(tuple(axes), keepdims=bool(keepdims)),
    "Softmax": lambda x, axis: (e := np.exp(x - x.max(axis, keepdims=True))) / e.sum(axis, keepdims=True),
    "GatherND": lambda x, i, batch_dims: np.take_along_axis(x, i, 1),
    "Pad": lambda x, pads: np.pad(x, ((pads[0], pads[2]), (pads[1], pads[3]))),
}


def inputs(config, path):
    data = config["layers"][0]
    dense, sparse = data["dense"], data["sparse"]
    columns = [sum(s["nnz_per_slot"]) if "nnz_per_slot" in s else s["slot_num"] * s.get("max_len", 1) for s in sparse]
    lists = data.get("async_param", {}).get("multi_hot_reader", False)
    records = np.fromfile(path, np.uint32).reshape(-1, 1 + dense["dense_dim"] + sum(columns))
    values = records[:, 1:1 + dense["dense_dim"]]
    floats = data.get("float_label_dense", False) or lists
    feed = {dense["top"]: values.view(np.float32) if floats else np.log1p(values.view(np.int32)).astype(np.float32)}
    at = 1 + dense["dense_dim"]
    for block, count in zip(sparse, columns):
        feed[block["top"]] = records[:, at:at + count].view(np.int32).astype(np.int64)  # -1: no key
        at += count
    return feed


def evaluate(graph, values):
    values = values | {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    for node in graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        given = [values[name] for name in node.input]
        values.update(zip(node.output, scan(values, *given, **attributes) if node.op_type == "Scan" else
                          [OPS[node.op_type](*given, **attributes)]))
    return values


def scan(values, state, *sequences, body, **_):
    """Over the second dimension."""
    states = []
    for step in zip(*(sequence.swapaxes(0, 1) for sequence in sequences)):
        made = evaluate(body, values | dict(zip((i.name for i in body.input), (state, *step))))
        state = made[body.output[0].name]
        states.append(made[body.output[1].name])
    return state, np.stack(states, 1)


def main():
    model_path, config_path, records = sys.argv[1:]
    graph = onnx.load(model_path).graph
    with open(config_path, encoding="utf-8") as file:
        values = inputs(json.load(file), records)
    values = evaluate(graph, values)
    print("score")
    for score in values[graph.output[0].name]:
        print(repr(float(score)))


main()
