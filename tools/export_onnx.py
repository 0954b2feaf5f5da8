#!/usr/bin/env python3
"""Writes a trained model as ONNX.

    export_onnx.py --model checkpoint --out model.onnx
    export_onnx.py --model weights.safetensors --config c.json --out model.onnx
    export_onnx.py --model checkpoint --split --out model      # model/dense.onnx and a .npy for each table

Inputs: the dense features by their name in the config, float32 [batch, dense_dim] as the network sees them (of raw
integers log(x + 1)); the keys of each sparse input by its name, int64 [batch, keys a sample], local to each slot's
table, -1 where a sample has fewer than the slot may have (never with is_fixed_length); of a history max_len for each
slot, -1 after those that there are. Any other key outside of its table becomes what the config's key_policy says;
without one the runtime refuses the sample, as hl.Predictor does: Gather gets a row beyond the table, which is an error
by ONNX's definition (onnxruntime raises it on a CPU). Output `score`: float32 [batch], the probability of label 1, or of
a model with MSELoss the value. With --split the dense part takes the vectors [batch, slots, V] of each embedding by its
name, of a history by concat [batch, max_len, slots V], and the lengths of histories, float32 [batch, 1], by theirs.
Needs Debian's python3-onnx, or onnx from PyPI. A model above 2 GB keeps its weights in a file next to it. Of a
checkpoint the weights are those that predict and serve use; --which last takes those that training goes on from.

Exit codes: 0 done, 2 usage or config, 3 files.
"""
import argparse
import math
import os
import secrets
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "export"))
try:
    import numpy as np  # noqa: E402
    import onnx  # noqa: E402
    from onnx import TensorProto, helper  # noqa: E402
except ModuleNotFoundError as missing:
    print(f"export_onnx.py: {sys.executable} has no {missing.name}: take a Python that has it (tools/setup.sh installs "
          f"Debian's, for /usr/bin/python3), or `pip install numpy onnx`", file=sys.stderr)
    sys.exit(2)

from onnx_layers import LAYERS, OPSET, Graph, Keys, Tensor, embedding, lengths_of, slot_tables  # noqa: E402
from saved_model import ModelError, add_model, exit_code_of, link_of, load  # noqa: E402

IR_VERSION = 8           # of onnx 1.12, which all since read
MOST_IN_ONE = 1 << 30    # bytes of weights that the file itself holds; protobuf ends at 2 GB


def names(value):
    return [value] if isinstance(value, str) else list(value)


def keys_of(data, sparse):
    """The Keys of a sparse input."""
    slots, nnz, max_len = sparse["slot_num"], sparse.get("nnz_per_slot"), sparse.get("max_len", 0)
    if max_len > 0:
        return Keys([max_len] * slots, True, max_len, data)
    fixed = data.get("format", "Norm") in ("Raw", "RawAsync", "Criteo")
    if nnz is None:
        nnz = sparse.get("max_nnz", sparse.get("max_feature_num_per_sample", slots) - slots + 1)
        may_lack = not fixed
    else:
        may_lack = not sparse.get("is_fixed_length", fixed)
    return Keys(nnz if isinstance(nnz, list) else [nnz] * slots, may_lack, 0, data)


def build(config, weights, split):
    """(model, names of the tables' tensors)"""
    g = Graph(weights)
    data, layers = config["layers"][0], config["layers"][1:]
    tensors, tables = {}, []
    dense = data["dense"]
    if dense.get("dense_dim", 0) > 0:
        x = g.input(dense["top"], [dense["dense_dim"]], TensorProto.FLOAT)
        if dense.get("aligned") == "Auto":
            extra = -dense["dense_dim"] % 8
            pads = g.constant(np.array([0, 0, 0, extra], np.int64))
            x = Tensor(g.node("Pad", [x.name, pads]), [dense["dense_dim"] + extra])
        tensors[dense["top"]] = x
    sparse = {s["top"]: s for s in data["sparse"]}
    lengths = {s["lengths"]: s["top"] for s in data["sparse"] if "lengths" in s}
    score = None

    def tensor(name):
        if name in tensors:
            return tensors[name]
        if name in sparse:
            tensors[name] = g.input(name, [sum(keys_of(data, sparse[name]).hotness)], TensorProto.INT64)
        elif name in lengths and split:
            tensors[name] = Tensor(g.input(name, [1], TensorProto.FLOAT).name, [1], is_lengths=True)
        elif name in lengths:
            tensors[name] = lengths_of(g, tensor(lengths[name]), sparse[lengths[name]]["max_len"])
        return tensors[name]

    for layer in layers:
        kind, bottoms = layer["type"], names(layer["bottom"])
        if "sparse_embedding_hparam" in layer:
            hparam, first = layer["sparse_embedding_hparam"], 0
            combiner = hparam.get("combiner", 0)
            combiners = combiner if isinstance(combiner, list) else [combiner] * len(bottoms)
            for bottom, top, combiner in zip(bottoms, names(layer["top"]), combiners):
                keys = keys_of(data, sparse[bottom])
                if split:
                    slots, width = len(keys.hotness), hparam["embedding_vec_size"]
                    is_history = combiner == "concat" and keys.max_len > 0
                    shape = [keys.max_len, slots * width] if is_history else [slots, width]
                    tensors[top] = g.input(top, shape, TensorProto.FLOAT)
                else:
                    tensors[top] = embedding(g, layer, tensor(bottom), keys, first, combiner)
                first += len(keys.hotness)
            tables += [f"{layer['name']}.table_{i}" for i in sorted(set(slot_tables(layer, first)))]
            continue
        if kind in ("BinaryCrossEntropyLoss", "MSELoss"):
            scores = tensors[bottoms[0]].name
            offset, scale = link_of(layer)
            for operation, number, neutral in (("Mul", scale, 1), ("Add", offset, 0)):
                if number != neutral:
                    scores = g.node(operation, [scores, g.constant(np.array(number, np.float32))])
            share = data.get("negative_share", 1)
            if share < 1:  # training had this share of the negatives
                scores = g.node("Add", [scores, g.constant(np.array(math.log(share), np.float32))])
            if kind == "BinaryCrossEntropyLoss":
                scores = g.node("Sigmoid", [scores])
            g.nodes.append(helper.make_node("Reshape", [scores, g.constant(np.array([-1], np.int64))], ["score"]))
            score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch"])
            continue
        if kind not in LAYERS:
            raise ModelError(f"layer {layer['name']}: expected one of {', '.join(sorted(LAYERS))}, found {kind}")
        if kind in ("FusedInnerProduct", "Interaction", "MLP"):  # what else these name carries no data
            bottoms = bottoms[:2 if kind == "Interaction" else 1]
        tops = names(layer["top"])
        for top, made in zip(tops, LAYERS[kind](g, layer, [tensor(b) for b in bottoms])):
            tensors[top] = made
    if score is None:
        raise ModelError("expected a BinaryCrossEntropyLoss or MSELoss, whose first bottom is what the model says, found "
                         "neither")
    graph = helper.make_graph(g.nodes, "hugectr_lite", g.inputs, [score], g.constants)
    model = helper.make_model(graph, producer_name="hugectr_lite", ir_version=IR_VERSION,
                              opset_imports=[helper.make_opsetid("", OPSET)])
    return model, tables


def write(model, path):
    """Complete or not at all, but for the weights file of a large one."""
    separate = sum(len(c.raw_data) for c in model.graph.initializer) > MOST_IN_ONE
    temporary = f"{path}.tmp.{os.getpid()}.{secrets.token_hex(8)}"
    if separate:
        onnx.save_model(model, temporary, save_as_external_data=True, location=os.path.basename(path) + ".data")
        onnx.checker.check_model(temporary)
    else:
        onnx.checker.check_model(model)
        onnx.save_model(model, temporary)
    os.replace(temporary, path)


def export(options):
    config, weights = load(options.model, options.config, options.which)
    model, tables = build(config, weights, options.split)
    if options.split:
        os.makedirs(options.out, exist_ok=True)
        for name in tables:
            if name not in weights:
                raise ModelError(f"tensor {name}: expected it among the weights, found none")
            np.save(os.path.join(options.out, name + ".npy"), weights[name])
    write(model, os.path.join(options.out, "dense.onnx") if options.split else options.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--out", required=True, metavar="FILE.onnx|DIR")
    parser.add_argument("--split", action="store_true", help="the dense part and the tables apart")
    options = parser.parse_args()
    return exit_code_of("export_onnx.py", lambda: export(options))


if __name__ == "__main__":
    sys.exit(main())
