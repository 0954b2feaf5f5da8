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
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)), "Cast": lambda x, to: x.astype(np.float32),
    "Pad": lambda x, pads: np.pad(x, ((pads[0], pads[2]), (pads[1], pads[3]))),
}


def inputs(config, path):
    data = config["layers"][0]
    dense, sparse = data["dense"], data["sparse"]
    columns = [sum(s["nnz_per_slot"]) if "nnz_per_slot" in s else s["slot_num"] for s in sparse]
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


def main():
    model_path, config_path, records = sys.argv[1:]
    graph = onnx.load(model_path).graph
    with open(config_path, encoding="utf-8") as file:
        values = inputs(json.load(file), records)
    values.update({c.name: numpy_helper.to_array(c) for c in graph.initializer})
    for node in graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = OPS[node.op_type](*(values[name] for name in node.input), **attributes)
    print("score")
    for score in values[graph.output[0].name]:
        print(repr(float(score)))


main()
