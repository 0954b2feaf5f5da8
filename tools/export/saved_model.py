"""A trained model as files have it: its config, and its weights as NumPy arrays.

A checkpoint of `train --save` holds both; `train --export` writes the weights alone, as a safetensors file."""
import json
import os
import re
import struct
import sys

import numpy as np

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


def load(model, config):
    """(config, weights) of a checkpoint's folder or a file of weights; `config` may be None for the former."""
    folder = os.path.isdir(model)
    if config is not None:
        try:
            with open(config, encoding="utf-8") as file:
                blocks = parse_config(file.read(), config)
        except OSError as error:
            raise ModelError(f"{config}: {error.strerror}") from None
    elif folder:
        try:
            with open(os.path.join(model, "manifest.json"), encoding="utf-8") as file:
                blocks = json.load(file)["config"]
        except (OSError, ValueError, KeyError):
            raise ModelError(f"{model}: expected a checkpoint, found no manifest.json with a config in it") from None
    elif not os.path.exists(model):
        raise ModelError(f"{model}: expected a checkpoint or exported weights, found nothing")
    else:
        raise ModelError(f"--config: expected the model's config, as {model} has none in it")
    return blocks, read_weights(os.path.join(model, "weights.safetensors") if folder else model)


def add_model(parser):
    """The options that load() takes."""
    parser.add_argument("--model", required=True, metavar="DIR|FILE.safetensors")
    parser.add_argument("--config", metavar="FILE", help="default: the checkpoint's")


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
