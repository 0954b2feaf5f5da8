"""A trained model as files have it: its config, and its weights as NumPy arrays.

A checkpoint of `train --save` holds both; `train --export` writes the weights alone, as a safetensors file."""
import json
import math
import os
import re
import struct
import sys

import numpy as np

BEST, LAST = "best.safetensors", "weights.safetensors"
TYPES = {"F32": "<f4", "U32": "<u4", "F16": "<f2", "BF16": "<u2"}


class ModelError(Exception):
    """What is wrong with the files, in words for the user."""


def parse_config(text, name):
    """JSON with // and /* */ comments, as `train` reads it."""
    without = re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\r\n]*|/\*.*?\*/',
                     lambda m: m.group() if m.group()[0] == '"' else " ", text, flags=re.DOTALL)
    try:
        return json.loads(without)
    except json.JSONDecodeError as error:
        raise ModelError(f"{name}: expected JSON: {error}") from None


def read_weights(path):
    """{name: array}, mapped into memory."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else size
            if length > size - 8:
                raise ModelError(f"{path}: expected a safetensors file, found {size} bytes without its header")
            header = json.loads(file.read(length))
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ModelError(f"{path}: expected a safetensors file, found no JSON in its header") from None
    data = np.memmap(path, mode="r", dtype=np.uint8, offset=8 + length) if size > 8 + length else np.zeros(0, np.uint8)
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] not in TYPES or end > len(data):
            raise ModelError(f"{path}: tensor {name}: expected {', '.join(TYPES)} within the file, found {entry}")
        values = data[begin:end].view(TYPES[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":  # the upper halves of floats
            values = (values.astype("<u4") << 16).view("<f4")
        weights[name] = values.astype("<f4") if entry["dtype"] == "F16" else values
    return weights


def read_manifest(folder):
    """The manifest of a checkpoint, of which it is known that it has a config and a list of files."""
    try:
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        if {"config", "files"} <= manifest.keys():
            return manifest
    except (OSError, ValueError, AttributeError):
        pass
    raise ModelError(f"{folder}: expected a checkpoint, found no manifest.json with a config in it")


def weights_in(folder, manifest, which):
    """The path of the weights of a checkpoint, by the rule of weights_in() in hugectr_lite/checkpoint/checkpoint.h: the
    best ones, which predict and serve use, or the last ones where there are no best ones or `which` is "last"."""
    best = which == "best" and any(entry["name"] == BEST for entry in manifest["files"])
    return os.path.join(folder, BEST if best else LAST)


def link_of(loss):
    """(offset, scale): a loss takes offset + scale x of what the layer below it says, which its score follows from."""
    base, scale = loss.get("base_score"), loss.get("score_scale", 1)
    if loss["type"] == "BinaryCrossEntropyLoss" and base is not None:
        base = math.log(base / (1 - base))
    return base or 0, scale


def name_layers(config):
    """Gives every layer without a name the one that `train` gives it: that of its first top."""
    for layer in config["layers"]:
        if "top" in layer:
            layer.setdefault("name", layer["top"] if isinstance(layer["top"], str) else layer["top"][0])


def load(model, config, which="best"):
    """(config, weights) of a checkpoint's folder or a file of weights; `config` may be None for the former. All layers of
    the config have names. Raises ModelError."""
    path, blocks = model, None
    if os.path.isdir(model):
        manifest = read_manifest(model)
        path, blocks = weights_in(model, manifest, which), manifest["config"]
    elif not os.path.exists(model):
        raise ModelError(f"{model}: expected a checkpoint or exported weights, found nothing")
    if config is not None:
        try:
            with open(config, encoding="utf-8") as file:
                blocks = parse_config(file.read(), config)
        except OSError as error:
            raise ModelError(f"{config}: {error.strerror}") from None
    if blocks is None:
        raise ModelError(f"--config: expected the model's config, as {model} has none in it")
    name_layers(blocks)
    return blocks, read_weights(path)


def add_model(parser):
    """The options that load() takes."""
    parser.add_argument("--model", required=True, metavar="DIR|FILE.safetensors")
    parser.add_argument("--config", metavar="FILE", help="default: the checkpoint's")
    parser.add_argument("--which", choices=["best", "last"], default="best",
                        help="of a checkpoint: the weights of the best evaluation, which predict and serve use "
                        "(default; the last ones where there are no best ones), or the last ones")


def exit_code_of(program, action):
    """Runs it: 0, or what it failed of on standard error and 2 (usage, config), 3 (files)."""
    try:
        action()
    except ModelError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyError as error:
        print(f"{program}: the config lacks {error}: `train --check` says where", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 3
    return 0
