#!/usr/bin/env python3
"""Weights to and from the files that HugeCTR saves and loads.

    hugectr_model.py to --model checkpoint --prefix out/dlrm --iteration 1000
    hugectr_model.py from --config c.json --like t.safetensors --prefix out/dlrm --iteration 1000 --out w.safetensors

    <prefix>_dense_<iteration>.model             float32, no header: the layers in order, of each its tensors
    <prefix>_dense_<iteration>.model.ntp.json    running means and variances of BatchNorm layers
    <prefix><i>_sparse_<iteration>.model         embedding i: a folder of `key` (int64), `emb_vector` (float32) and, of
                                                 localized types, `slot_id` (uint64); --layout file: one file of records
                                                 key (uint32, or int64 with input_key_type I64), slot id, vector, as
                                                 versions before 3.1 had it

HugeCTR's losses have no base_score: there the bias of the last layer has its log odds. A key counts on over the tables
of its embedding, as HugeCTR's do. `--like`: weights that `train --export` wrote of the config, for names and shapes;
what it then holds of a hash embedding does not matter. HugeCTR cannot save a HybridSparseEmbedding: it is written, and
read, as a localized one. Of a checkpoint the weights are those that predict and serve use; --which last takes those
that training goes on from. Needs numpy.

Exit codes: 0 done, 2 usage or config, 3 files.
"""
import argparse
import json
import os
import secrets
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "export"))
try:
    import numpy as np  # noqa: E402
except ModuleNotFoundError:
    print(f"hugectr_model.py: {sys.executable} has no numpy: take a Python that has it (tools/setup.sh installs "
          f"Debian's, for /usr/bin/python3), or `pip install numpy`", file=sys.stderr)
    sys.exit(2)

from saved_model import ModelError, add_model, exit_code_of, link_of, load  # noqa: E402

RUNNING = {".running_mean": "mean", ".running_variance": "var"}


class Embedding:
    """One embedding block: where its tables' keys begin, and what a file of it holds."""

    def __init__(self, layer, data, solver, weights):
        self.name, hparam = layer["name"], layer["sparse_embedding_hparam"]
        self.localized = not layer["type"].startswith("Distributed")
        self.key_type = np.int64 if solver.get("input_key_type") == "I64" else np.uint32
        bottoms = layer["bottom"] if isinstance(layer["bottom"], list) else [layer["bottom"]]
        if len(bottoms) > 1:
            raise ModelError(f"embedding {self.name}: expected one bottom, as HugeCTR has, found {', '.join(bottoms)}")
        slots = next(s["slot_num"] for s in data["sparse"] if s["top"] == bottoms[0])
        if len(set(hparam.get("slot_tables", range(slots)))) < slots:
            raise ModelError(f"embedding {self.name}: expected a table for each slot, as HugeCTR has, found slot_tables "
                             f"{hparam['slot_tables']}")
        self.width = hparam["embedding_vec_size"]
        self.tables = [f"{self.name}.table_{s}" for s in range(slots)]
        sizes = hparam.get("slot_size_array", data.get("slot_size_array"))
        if isinstance(sizes, str):  # a manifest: the tables have those sizes
            sizes = [len(weights[t]) for t in self.tables if t in weights and t + ".keys" not in weights]
        if not isinstance(sizes, list) or len(sizes) != slots:
            if slots > 1 or isinstance(sizes, list):
                raise ModelError(f"embedding {self.name}: expected a slot_size_array of {slots} numbers, found {sizes}")
            sizes = [1 << 62]
        if 0 in sizes:
            raise ModelError(f"embedding {self.name}: expected a slot_size_array without 0, found {sizes}: slots that "
                             "share a vocabulary share a table")
        self.sizes = sizes
        self.first = np.cumsum([0] + sizes[:-1], dtype=np.int64)

    def rows(self, weights):
        """(keys, slots, vectors) of all tables."""
        keys, slots, vectors = [], [], []
        for slot, name in enumerate(self.tables):
            if name not in weights:
                raise ModelError(f"tensor {name}: expected it among the weights, found none")
            local = weights.get(name + ".keys", np.arange(len(weights[name])))
            keys.append(local.astype(np.int64) + self.first[slot])
            slots.append(np.full(len(local), slot, np.uint64))
            vectors.append(weights[name])
        return np.concatenate(keys), np.concatenate(slots), np.concatenate(vectors)

    def record(self):
        slot = [("slot", "<u8")] if self.localized else []
        return np.dtype([("key", np.dtype(self.key_type).newbyteorder("<")), *slot, ("vector", "<f4", self.width)])

    def write(self, weights, path, layout):
        keys, slots, vectors = self.rows(weights)
        if layout == "file":
            records = np.zeros(len(keys), self.record())
            records["key"], records["vector"] = keys, vectors
            if self.localized:
                records["slot"] = slots
            return records.tofile(path)
        os.makedirs(path, exist_ok=True)
        keys.astype("<i8").tofile(os.path.join(path, "key"))
        vectors.astype("<f4").tofile(os.path.join(path, "emb_vector"))
        if self.localized:
            slots.astype("<u8").tofile(os.path.join(path, "slot_id"))

    def read(self, path, like):
        """{tensor: values} of a file or folder; full tables where `like` has such."""
        if os.path.isdir(path):
            keys = np.fromfile(os.path.join(path, "key"), "<i8")
            vectors = np.fromfile(os.path.join(path, "emb_vector"), "<f4")
        else:
            if os.path.getsize(path) % self.record().itemsize:
                raise ModelError(f"{path}: expected records of {self.record().itemsize} bytes, found "
                                 f"{os.path.getsize(path)} bytes")
            records = np.fromfile(path, self.record())
            keys, vectors = records["key"].astype(np.int64), records["vector"].reshape(-1)
        if len(vectors) != len(keys) * self.width:
            raise ModelError(f"{path}: expected {self.width} numbers for each of {len(keys)} keys, found {len(vectors)}")
        if len(keys) and not 0 <= keys.min() <= keys.max() < self.first[-1] + self.sizes[-1]:
            raise ModelError(f"{path}: expected keys below {self.first[-1] + self.sizes[-1]}, found {keys.min()} to "
                             f"{keys.max()}")
        order = np.argsort(keys, kind="stable")
        keys, vectors = keys[order], vectors.reshape(-1, self.width)[order]
        twice = np.flatnonzero(keys[1:] == keys[:-1])
        if len(twice):
            raise ModelError(f"{path}: expected each key once, found {keys[twice[0]]} again")
        found = {}
        for slot, name in enumerate(self.tables):
            here = (keys >= self.first[slot]) & (keys < self.first[slot] + self.sizes[slot])
            local, rows = keys[here] - self.first[slot], vectors[here]
            if name + ".keys" in like:
                found[name], found[name + ".keys"] = rows, local.astype(np.uint32)
            elif len(local) != self.sizes[slot]:
                raise ModelError(f"{path}: expected all {self.sizes[slot]} keys of slot {slot}, found {len(local)}")
            else:
                found[name] = rows
        return found


def embeddings(config, weights):
    data = config["layers"][0]
    return [Embedding(layer, data, config["solver"], weights)
            for layer in config["layers"][1:] if "Embedding" in layer["type"]]


def dense_names(weights, tables):
    """(trained, running) tensors of the network, in the order of the layers."""
    own = [name for name in weights if not any(name in (t, t + ".keys") for e in tables for t in e.tables)]
    running = [name for name in own if name.endswith(tuple(RUNNING))]
    return [name for name in own if name not in running], running


def add_base_score(config, weights, sign):
    """Adds sign times the offset of the loss to the bias of the InnerProduct below it, or of one that an Add takes."""
    layers, loss = config["layers"], config["layers"][-1]
    offset, scale = link_of(loss)
    if scale != 1:
        raise ModelError(f"layer {loss['name']}: expected no score_scale, as HugeCTR has none, found {scale}")
    if offset == 0:
        return
    below, tensors = {layer["top"]: layer for layer in layers if isinstance(layer.get("top"), str)}, [loss["bottom"][0]]
    for layer in (below.get(tensor, {}) for tensor in tensors):
        if layer.get("type") == "Add":
            tensors += layer["bottom"]
        elif layer.get("type") == "InnerProduct" and f"{layer['name']}.bias" in weights:
            bias = f"{layer['name']}.bias"
            weights[bias] = weights[bias] + np.float32(sign * offset)
            return
    raise ModelError(f"layer {loss['name']}: expected an InnerProduct with a bias below it, to which HugeCTR's file adds the "
                     f"base_score {loss['base_score']}, found none")


def paths(options, index=""):
    kind = "sparse" if index != "" else "dense"
    return f"{options.prefix}{index}_{kind}_{options.iteration}.model"


def write(options):
    config, weights = load(options.model, options.config, options.which)
    tables = embeddings(config, weights)
    add_base_score(config, weights, 1)
    trained, running = dense_names(weights, tables)
    os.makedirs(os.path.dirname(os.path.abspath(options.prefix)), exist_ok=True)
    with open(paths(options), "wb") as file:
        for name in trained:
            file.write(np.ascontiguousarray(weights[name], "<f4").tobytes())
    if running:
        layers = [{"type": "BatchNorm", **{short: weights[name[:name.rindex(".")] + end].tolist()
                                           for end, short in RUNNING.items()}}
                  for name in running if name.endswith(".running_mean")]
        with open(paths(options) + ".ntp.json", "w", encoding="utf-8") as file:
            json.dump({"layers": layers}, file, indent=1)
    for index, table in enumerate(tables):
        table.write(weights, paths(options, index), options.layout)


def read_dense(options, like, trained, running):
    path = paths(options)
    flat = np.fromfile(path, "<f4")
    expected = sum(like[name].size for name in trained)
    if len(flat) != expected:
        raise ModelError(f"{path}: expected {expected} numbers ({4 * expected} bytes) for the config's dense layers, "
                         f"found {os.path.getsize(path)} bytes")
    found, at = {}, 0
    for name in trained:
        found[name] = flat[at:at + like[name].size].reshape(like[name].shape)
        at += like[name].size
    if running:
        with open(path + ".ntp.json", encoding="utf-8") as file:
            layers = json.load(file)["layers"]
        means = [name for name in running if name.endswith(".running_mean")]
        if len(layers) != len(means):
            raise ModelError(f"{path}.ntp.json: expected {len(means)} layers, found {len(layers)}")
        for name, layer in zip(means, layers):
            for end, short in RUNNING.items():
                found[name[:name.rindex(".")] + end] = np.array(layer[short], np.float32)
    return found


def read(options):
    config, like = load(options.like, options.config)
    tables = embeddings(config, like)
    found = read_dense(options, like, *dense_names(like, tables))
    add_base_score(config, found, -1)
    for index, table in enumerate(tables):
        found.update(table.read(paths(options, index), like))
    header, at = {}, 0
    for name in like:
        value = found[name]
        header[name] = {"dtype": "U32" if value.dtype == np.uint32 else "F32", "shape": list(value.shape),
                        "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{options.out}.tmp.{os.getpid()}.{secrets.token_hex(8)}"
    with open(temporary, "xb") as file:  # a new file: no link is followed
        file.write(struct.pack("<Q", len(text)) + text)
        for name in like:
            file.write(np.ascontiguousarray(found[name]).tobytes())
    os.replace(temporary, options.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    to, back = commands.add_parser("to", help="write HugeCTR's files"), commands.add_parser("from", help="read them")
    for command in (to, back):
        command.add_argument("--prefix", required=True)
        command.add_argument("--iteration", required=True, type=int)
    add_model(to)
    to.add_argument("--layout", choices=["folder", "file"], default="folder")
    back.add_argument("--config", required=True, metavar="FILE")
    back.add_argument("--like", required=True, metavar="FILE.safetensors")
    back.add_argument("--out", required=True, metavar="FILE.safetensors")
    options = parser.parse_args()
    action = write if options.command == "to" else read
    return exit_code_of("hugectr_model.py", lambda: action(options))


if __name__ == "__main__":
    sys.exit(main())
