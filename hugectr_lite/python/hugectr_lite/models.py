"""First configs as dicts, to be changed and trained: the same that `train --new MODEL` prints and `csv_prep
--write-config` writes.

    config = hl.models.dcnv2("work/adult")                               # data that csv_prep or criteo_prep wrote
    config = hl.models.dlrm(dense=13, tables=[1000, 50], samples=200000)   # samples in arrays
    trainer = hl.Trainer(config, arrays=True)
    config = hl.models.din("work/ml", attention=(64, 32))                  # samples with histories
"""
import json
import os

from . import _native


def _function(model):
    def build(prepared=None, *, dense=0, tables=None, hotness=None, slot_tables=None, samples=None, evaluates=True,
              labels=2 if _native.has_tasks(model) else 1):
        if (prepared is None) == (tables is None):
            raise TypeError(f"{model}: expected the folder of prepared data, or tables (and dense, samples), found "
                            f"{'neither' if prepared is None else 'both'}")
        if prepared is not None:
            return json.loads(_native.first_config(model, os.fspath(prepared)))
        if samples is None:
            raise TypeError(f"{model}: expected samples, the number of training samples, which sizes go by; found none")
        tables = [int(rows) for rows in tables]
        keys = [1] * len(tables) if hotness is None else [int(n) for n in hotness]
        config = json.loads(_native.first_config_of_sizes(model, dense, tables, keys, list(slot_tables or []), samples,
                                                          evaluates, labels))
        config["layers"][0]["slot_size_array"] = tables
        return config

    build.__name__ = build.__qualname__ = model
    build.__doc__ = f"""The first config of {model}, a dict.

    prepared: a folder with manifest.json; paths in the config then begin with it. Or, of samples that come in arrays:
    dense: dense features; tables: rows of each slot's table; hotness: keys of each slot (default 1); slot_tables: the table
    of each slot, where slots share some; samples: of training, which sizes and epochs go by; evaluates: whether there will be
    an evaluation set, so that training stops early; labels: of a sample, for mmoe and ple. Raises hl.ConfigError, TypeError."""
    return build


_OF_DIN = """
    attention: widths of the layers that weigh an event; softmax (True): weights of a history sum up to 1, otherwise they
    are what these layers say."""
_OF_BST = """
    heads (4): of the attention, a divisor of width times the columns of the history; blocks (1): of the transformer."""


def _history_function(model):
    def build(prepared, **sizes):
        facts = json.dumps(prepared) if isinstance(prepared, dict) else ""
        return json.loads(_native.first_config(model, "" if facts else os.fspath(prepared), facts, json.dumps(sizes)))

    build.__name__ = build.__qualname__ = model
    build.__doc__ = f"""The first config of {model}, a dict, for samples with histories.

    prepared: a folder with histories.json or manifest.json, with which paths in the config then begin; the path of a
    histories.json of another name; or what it holds, as a dict. Sizes that may be chosen:
    width (16): of a row of a table; hidden: widths of the layers up to the score; dropout (0.1): of these; learning_rate
    (0.001, of bst 0.002).{_OF_DIN if model == "din" else _OF_BST if model == "bst" else ""} Raises hl.ConfigError."""
    return build


globals().update((model, (_history_function if _native.reads_histories(model) else _function)(model))
                 for model in _native.first_config_models())
__all__ = _native.first_config_models()
