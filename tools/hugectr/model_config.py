"""The config of a recorded model."""
import json

from .embeddings import collection_layers, sparse_embedding
from .layers import as_list, dense_layer, group_layer, wiring

HPARAM = {"SGD": "sgd_hparam", "MomentumSGD": "momentum_sgd_hparam", "Nesterov": "nesterov_hparam",
          "Adam": "adam_hparam", "AdaGrad": "adagrad_hparam", "Ftrl": "ftrl_hparam"}
# Arguments of CreateOptimizer, and HugeCTR's defaults.
RULES = {"SGD": {"atomic_update": True}, "MomentumSGD": {"momentum_factor": 0.0}, "Nesterov": {"momentum_factor": 0.0},
         "Adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7},
         "AdaGrad": {"initial_accu_value": 0.0, "epsilon": 1e-7},
         "Ftrl": {"beta": 0.0, "lambda1": 0.0, "lambda2": 0.0}}
ALL_RULES = sorted({key for rule in RULES.values() for key in rule})
# How HugeCTR runs a step, which says nothing about its numbers.
EXECUTION = ("async_mlp_wgrad", "gen_loss_summary", "overlap_lr", "overlap_init_wgrad", "overlap_ar_a2a",
             "eval_overlap", "eval_intra_iteration_overlap", "eval_inter_iteration_overlap", "perf_logging",
             "drop_incomplete_batch", "use_embedding_collection", "is_dlrm", "kafka_brockers", "model_name",
             "use_holistic_cuda_graph", "lr_policy")
LOSS_SCALES = (128, 256, 512, 1024)


def metrics_of(call):
    given = call.values.get("metrics_spec")
    call.ignore("metrics_spec")
    metrics = []
    for metric, target in (given or {"AUC": 1.0}).items():
        if metric == "AUC":
            metrics.append(f"AUC:{target}" if target < 1 else "AUC")
        elif metric == "AverageLoss":
            metrics.append("AverageLoss")
        else:
            call.recording.warn(call, f"the metric {metric} is left out; docs/configs.md lists those of eval_metrics")
    return metrics or ["AverageLoss"]


def solver_of(call, fit, raw):
    """The block `solver`. `raw`: its records have 32-bit keys whatever i64_input_key says."""
    solver = {"lr_policy": "fixed"}
    if call.get("seed", 0):
        solver["seed"] = call.get("seed")
    gpus = call.get("vvgpu", [[0]])
    solver["gpu"] = gpus[0] if len(gpus) == 1 else gpus
    solver["batchsize"] = call.get("batchsize", 2048)
    solver["batchsize_eval"] = call.get("batchsize_eval", 2048)
    repeats = call.get("repeat_dataset", True)
    iterations, epochs = fit.get("max_iter", 0), fit.get("num_epochs", 0)
    if epochs and not (repeats and iterations):
        solver["num_epochs"] = epochs
    else:
        solver["max_iter"] = iterations or 2000
    solver["display"] = fit.get("display", 200)
    solver["eval_interval"] = fit.get("eval_interval", 1000)
    solver["max_eval_batches"] = call.get("max_eval_batches", 100)
    solver["eval_metrics"] = metrics_of(call)
    solver["snapshot"] = fit.get("snapshot", 10000)
    solver["snapshot_prefix"] = fit.get("snapshot_prefix", "") or "./"
    if call.get("use_mixed_precision", False):
        scale = call.get("scaler", 1.0)
        if scale not in LOSS_SCALES:
            call.recording.warn(call, f"the loss scale {scale:g} becomes 1024; mixed_precision takes "
                                      f"{', '.join(map(str, LOSS_SCALES))}")
        solver["mixed_precision"] = int(scale) if scale in LOSS_SCALES else 1024
    elif call.get("enable_tf32_compute", False):
        solver["enable_tf32_compute"] = True
    if call.get("i64_input_key", False) and not raw:
        solver["input_key_type"] = "I64"
    for argument, key in (("use_algorithm_search", "algorithm_search"), ("use_cuda_graph", "cuda_graph")):
        if not call.get(argument, True):
            solver[key] = False
    overlaps = ("train_intra_iteration_overlap", "train_inter_iteration_overlap", "use_overlapped_pipeline")
    if any([call.get(key, False) for key in overlaps]):
        solver["enable_overlap"] = True
    if str(call.get("device_layout", "LocalFirst")).lower().replace("_", "") == "nodefirst":
        solver["device_layout"] = "NodeFirst"
    if call.values.get("training_callbacks"):
        call.recording.warn(call, "training_callbacks are not called; --metrics, --report and --mllog write what a run "
                                  "does")
    call.ignore("training_callbacks", "scaler", "enable_tf32_compute", "num_iterations_statistics", *EXECUTION)
    fit.finish()
    return solver


def all_reduce_of(call):
    return {"algo": "Oneshot" if str(call.get("all_reduce_algo", "NCCL")).lower() == "oneshot" else "NCCL",
            "grouped": bool(call.get("grouped_all_reduce", False))}


def schedule_of(call):
    """The learning rate, which HugeCTR's solver has."""
    schedule = {"learning_rate": call.get("lr", 0.001)}
    if call.get("warmup_steps", 1) > 1:
        schedule["warmup_steps"] = call.get("warmup_steps")
    decay = {key: call.get(key) for key in ("decay_start", "decay_steps", "decay_power", "end_lr")}
    if decay["decay_start"]:
        schedule.update({key: value for key, value in decay.items() if value is not None})
    return schedule


def optimizer_of(call, schedule):
    if call is None or call.name != "CreateOptimizer":
        return None
    kind = str(call.get("optimizer_type", "Adam"))
    if kind not in HPARAM:
        call.fail(f"train has no optimizer {kind}; expected one of {', '.join(HPARAM)}")
    values = {key: call.get(key, default) for key, default in RULES[kind].items()}
    block = {"type": kind, "update_type": str(call.get("update_type", "Global")),
             HPARAM[kind]: {**schedule, **values}}
    call.ignore(*ALL_RULES)
    call.finish()
    return block


class SparseInputs:
    """The sparse inputs of the Data layer, in the order of a record's slots."""
    def __init__(self, call):
        names, given = call.get("sparse_names"), call.values.get("data_reader_sparse_param_array")
        call.ignore("data_reader_sparse_param_array")
        if not given:
            call.fail("missing argument data_reader_sparse_param_array")
        self.list = [self.read(each, names[i] if names else None) for i, each in enumerate(given)]

    @staticmethod
    def read(call, name):
        if name is None:
            return {"top": str(call.need("top_name")), "slot_num": call.need("slot_num"),
                    "nnz_per_slot": call.need("nnz_per_slot"), "is_fixed_length": call.get("is_fixed_length", False)}
        # 3.0: (type, max_feature_num, max_nnz, slot_num), the names in the Input.
        values = list(call.values.values())
        if len(values) == 3:
            values.insert(2, values[1])
        return {"top": str(name), "slot_num": values[3], "max_feature_num_per_sample": values[1],
                "max_nnz": values[2]}

    def slots(self, name):
        return next(each["slot_num"] for each in self.list if each["top"] == name)

    def join(self, names, joined, call):
        """One input of several that lie side by side in a record."""
        tops = [each["top"] for each in self.list]
        for name in names:
            if name not in tops:
                call.fail(f"bottom_name: expected one of {', '.join(tops)}, found {name}")
        if len(names) == 1:
            return names[0]
        first = tops.index(names[0])
        if tops[first:first + len(names)] != list(names):
            call.fail("expected bottoms in the order of the Input, side by side")
        parts = self.list[first:first + len(names)]
        if any("nnz_per_slot" not in part for part in parts):
            call.fail("expected sparse inputs with nnz_per_slot")
        nnz = [each for part in parts for each in (part["nnz_per_slot"] if isinstance(part["nnz_per_slot"], list) else
                                                   [part["nnz_per_slot"]] * part["slot_num"])]
        self.list[first:first + len(names)] = [{
            "top": joined, "slot_num": len(nnz), "nnz_per_slot": nnz if len(set(nnz)) > 1 else nnz[0],
            "is_fixed_length": all(part["is_fixed_length"] for part in parts)}]
        return joined


def data_of(call, given, inputs, labels):
    """layers[0], of DataReaderParams and Input."""
    kind = str(call.get("data_reader_type", "Norm"))
    if kind not in ("Norm", "Raw", "RawAsync", "Parquet"):
        call.fail(f"data_reader_type: expected Norm, Raw, RawAsync or Parquet, found {kind}")
    sources = as_list(call.need("source"))
    if len(sources) != 1:
        call.fail(f"source: expected one file, found {len(sources)}; train them one after the other, or put all files "
                  "in one list")
    check = str(call.get("check_type", "Sum"))
    data = {"name": "data", "type": "Data", "format": kind, "source": sources[0],
            "check": "Sum" if kind == "Norm" and check == "Sum" else "None"}
    if call.get("eval_source"):
        data["eval_source"] = call.get("eval_source")
    for key in ("num_samples", "eval_num_samples", "cache_eval_data", "num_workers", "slot_size_array"):
        if call.get(key):
            data[key] = call.get(key)
    if call.get("float_label_dense", False):
        data["float_label_dense"] = True
    dense = {"top": str(given.get("dense_name", "dense")), "dense_dim": given.need("dense_dim")}
    reader = call.values.get("async_param")
    if reader is not None and kind == "RawAsync":
        keys = ("num_threads", "num_batches_per_thread", "io_depth", "io_alignment", "shuffle", "multi_hot_reader",
                "is_dense_float")
        data["async_param"] = {key: reader.get(key) for key in keys if key in reader.values}
        if str(reader.get("aligned_type", "None")) == "Auto":
            dense["aligned"] = "Auto"
    call.ignore("async_param", "keyset", "read_file_sequentially")
    call.finish()
    given.finish()
    data["label"] = {"top": labels.top, "label_dim": len(labels.names) if labels.several else labels.width}
    data["dense"], data["sparse"] = dense, inputs.list
    return data


class Labels:
    """The label tensor. Of several labels HugeCTR makes as many tensors, a config one with a column for each."""
    def __init__(self, call):
        names, widths = call.get("label_names"), call.get("label_dims")
        self.several = bool(names) and len(names) > 1
        self.names = list(names) if names else [call.get("label_name", "label")]
        self.width = widths[0] if widths else call.get("label_dim", 1)
        if self.several and any(width != 1 for width in widths):
            call.fail("label_dims: expected 1 for each of several labels")
        self.top = "labels" if self.several else str(self.names[0])


def join_losses(layers, labels, compiled):
    """Of several labels: their losses become one MultiCrossEntropyLoss, whose mean is over samples and tasks."""
    losses = [layer for layer in layers if layer["type"] == "BinaryCrossEntropyLoss"]
    logits = {}
    for loss in losses:
        logits[loss["bottom"][1]] = loss["bottom"][0]
    if len(losses) != len(labels.names) or sorted(logits) != sorted(labels.names):
        compiled.fail(f"expected a BinaryCrossEntropyLoss for each of the labels {', '.join(labels.names)}")
    names, weights = compiled.get("loss_names"), compiled.get("loss_weights")
    weight = dict(zip(names, weights)) if names and weights else {}
    tasks = len(labels.names)
    return [layer for layer in layers if layer not in losses] + [
        wiring("Concat", [logits[name] for name in labels.names], ["logits"]),
        dict(wiring("MultiCrossEntropyLoss", ["logits", labels.top], ["loss"]),
             target_weight=[weight.get(name, 1.0) * tasks for name in labels.names])]


def config_of(recording):
    """The config of the recorded model, as a dictionary. Raises Untranslated."""
    model = recording.model
    model.made.ignore("solver", "reader", "optimizer")
    model.made.finish()
    solver, reader, optimizer = (model.made.values.get(key) for key in ("solver", "reader", "optimizer"))
    for name, call in (("solver", solver), ("reader", reader), ("optimizer", optimizer)):
        if call is None:
            model.made.fail(f"missing argument {name}")
    if len(model.inputs) != 1:
        model.made.fail(f"expected one Input in the model, found {len(model.inputs)}")
    given = model.inputs[0]
    labels, inputs = Labels(given), SparseInputs(given)
    schedule = schedule_of(solver)
    block = optimizer_of(optimizer, schedule)

    def own_optimizer(call):
        own = call.values.get("optimizer")
        call.ignore("optimizer")
        return None if own in (None, optimizer) else optimizer_of(own, schedule)

    embeddings, layers, vectors = [], [], {}
    for part in model.parts:
        if part.name == "SparseEmbedding":
            embeddings.append(sparse_embedding(part, solver.values.get("num_iterations_statistics", 20),
                                               own_optimizer))
        elif part.name == "EmbeddingCollectionConfig":
            made, found = collection_layers(part, inputs)
            vectors.update(found)
            embeddings += [layer for layer in made if layer["type"].endswith("Embedding")]
            layers += [layer for layer in made if not layer["type"].endswith("Embedding")]
            part.finish()
        elif part.name == "DenseLayer":
            layer = dense_layer(part)
            bottoms = as_list(layer["bottom"])
            if layer["type"] == "Concat" and all(name in vectors for name in bottoms) and len(
                    {vectors[name][1] for name in bottoms}) == 1:
                vectors[layer["top"]] = (sum(vectors[name][0] for name in bottoms), vectors[bottoms[0]][1])
            if layer["type"] == "Interaction" and bottoms[1] in vectors:
                count, width = vectors[bottoms[1]]
                cube = bottoms[1] + ".slots"
                layers.append(dict(wiring("Reshape", [bottoms[1]], [cube]), leading_dim=width, time_step=count))
                layer["bottom"] = [bottoms[0], cube]
            layers.append(layer)
        elif part.name == "GroupDenseLayer":
            layers.append(group_layer(part))
        else:
            part.fail("expected an Input, layer or embedding in Model.add")
    if labels.several:
        layers = join_losses(layers, labels, model.compiled or model.made)
    raw = str(reader.values.get("data_reader_type", "Norm")).startswith("Raw")
    config = {"solver": solver_of(solver, model.fitted, raw), "optimizer": block, "all_reduce": all_reduce_of(solver),
              "layers": [data_of(reader, given, inputs, labels), *embeddings, *layers]}
    if "eval_source" not in config["layers"][0]:
        for key in ("eval_interval", "max_eval_batches"):
            del config["solver"][key]
    solver.finish()
    return json.loads(json.dumps(config))
