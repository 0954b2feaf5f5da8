"""A stand-in for the module `hugectr`: its classes keep the arguments of their calls and the line of the script."""
import sys
import types
from unittest import mock


class Untranslated(BaseException):
    """A call that has no translation. No Exception, which a script may catch."""


class Fitted(BaseException):
    """Ends the script: the first call of fit() has been recorded."""


class Name(str):
    """A member of one of HugeCTR's enumerations, such as Layer_t.MLP: its own name."""
    def __init__(self, _):
        super().__init__()
        self.name, self.value = str(self), str(self)


class Names:
    """An enumeration that has every member: which of them translate is known where they are used."""
    def __getattr__(self, member):
        if member.startswith("__"):
            raise AttributeError(member)
        return Name(member)


class Recording:
    """What a script did: its models in the order of their making, and remarks for the user."""
    def __init__(self, script):
        self.script, self.model, self.warnings = script, None, []

    def line(self):
        """The line of the script that is running, for messages."""
        frame = sys._getframe(1)
        while frame and frame.f_code.co_filename != self.script:
            frame = frame.f_back
        return f"{self.script}:{frame.f_lineno}" if frame else self.script

    def warn(self, call, message):
        self.warnings.append(f"{call.where}: {call.name}: {message}")


class Call:
    """One call of the API: arguments by name. `order` names the positional ones."""
    def __init__(self, recording, name, order, given, named):
        self.recording, self.name, self.where = recording, name, recording.line()
        if len(given) > len(order):
            self.fail(f"expected at most {len(order)} arguments by position, found {len(given)}")
        self.values = dict(zip(order, given))
        for key, value in named.items():
            if key in self.values:
                self.fail(f"{key} is given twice")
            self.values[key] = value
        self.used = set()

    def fail(self, message):
        raise Untranslated(f"{self.where}: {self.name}: {message}")

    def get(self, key, default=None):
        """An argument. One that a module which is not installed has made is an error."""
        self.used.add(key)
        return known(self, key, self.values.get(key, default))

    def need(self, key):
        if key not in self.values:
            self.fail(f"missing argument {key}")
        return self.get(key)

    def ignore(self, *keys):
        self.used.update(keys)

    def finish(self):
        """Reports arguments that nothing has asked for."""
        for key in self.values:
            if key not in self.used:
                self.fail(f"the argument {key} has no translation; remove it if the model does not depend on it")


def known(call, key, value):
    if isinstance(value, mock.NonCallableMock):
        call.fail(f"{key} comes from a module that is not installed, so its value is unknown; install the module, "
                  "or write the value in the script")
    if isinstance(value, (list, tuple)):
        return [known(call, key, each) for each in value]
    if hasattr(value, "tolist"):  # an array or number of NumPy
        return value.tolist()
    return value


# Positional arguments, in HugeCTR's order.
ORDERS = {
    "CreateSolver": (),
    "DataReaderParams": (),
    "CreateOptimizer": (),
    "AsyncParam": ("num_threads", "num_batches_per_thread", "max_num_requests_per_thread", "io_depth", "io_alignment",
                   "shuffle", "aligned_type", "multi_hot_reader", "is_dense_float"),
    "Input": ("label_dim", "label_name", "dense_dim", "dense_name", "data_reader_sparse_param_array", "sparse_names"),
    "DataReaderSparseParam": ("top_name", "nnz_per_slot", "is_fixed_length", "slot_num"),
    "SparseEmbedding": ("embedding_type", "workspace_size_per_gpu_in_mb", "embedding_vec_size", "combiner",
                        "sparse_embedding_name", "bottom_name", "slot_size_array", "optimizer",
                        "hybrid_embedding_param"),
    "HybridEmbeddingParam": ("max_num_frequent_categories", "max_num_infrequent_samples", "p_dup_max",
                             "max_all_reduce_bandwidth", "max_all_to_all_bandwidth", "efficiency_bandwidth_ratio",
                             "communication_type", "hybrid_embedding_type"),
    "DenseLayer": ("layer_type", "bottom_names", "top_names"),
    "GroupDenseLayer": ("group_layer_type", "bottom_name", "top_name_list", "num_outputs", "last_act_type"),
    "EmbeddingTableConfig": ("name", "max_vocabulary_size", "ev_size", "opt_params_or_empty", "init_param_or_empty"),
    "DenseLayerComputeConfig": ("async_wgrad", "fuse_wb"),
    "DenseLayerSwitchs": ("fuse_wb",),
}
ENUMERATIONS = ("Layer_t", "Embedding_t", "Optimizer_t", "Update_t", "DataReaderType_t", "DataReaderSparse_t",
                "Check_t", "MetricsType", "AllReduceAlgo", "Activation_t", "FcPosition_t", "Initializer_t",
                "Regularizer_t", "Alignment_t", "CommunicationType", "HybridEmbeddingType", "CommunicationStrategy",
                "DeviceLayout", "LrPolicy_t", "GroupLayer_t", "Distribution_t", "Tensor_t")


def model_class(recording):
    class Model:
        def __init__(self, *given, **named):
            self.made = Call(recording, "Model", ("solver", "reader", "optimizer", "etc"), given, named)
            self.inputs, self.parts, self.compiled, self.fitted = [], [], None, None
            recording.model = self

        def add(self, part):
            if not isinstance(part, Call):
                Call(recording, "Model.add", (), (), {}).fail(f"expected an Input, layer or embedding, found {part!r}")
            (self.inputs if part.name == "Input" else self.parts).append(part)

        def compile(self, *given, **named):
            self.compiled = Call(recording, "Model.compile", ("loss_names", "loss_weights"), given, named)

        def fit(self, *given, **named):
            self.fitted = Call(recording, "Model.fit", ("num_epochs", "max_iter", "display", "eval_interval",
                                                        "snapshot", "snapshot_prefix"), given, named)
            raise Fitted

        def summary(self):
            """Prints nothing: `train --check` does."""

        def graph_to_json(self, *given, **named):
            Call(recording, "Model.graph_to_json", ("graph_config_file", "include_dense_network"), given, named)

        def _weights(self, *_, **__):
            call = Call(recording, "Model.load_..._weights", (), (), {})
            recording.warn(call, "weights are not in a config: make a safetensors file of them with "
                                 "tools/hugectr_model.py, and train with --init")

        load_dense_weights = load_sparse_weights = _weights
        load_dense_optimizer_states = load_sparse_optimizer_states = _weights

        def __getattr__(self, method):
            instead = {"train": "a loop of train() has no translation; call fit(max_iter=...) in the script",
                       "construct_from_json": "train its file: train --config graph.json --solver solver.json"}
            Call(recording, f"Model.{method}", (), (), {}).fail(
                instead.get(method, "the call has no translation; remove it, or move it after fit()"))

    return Model


def collection_class(recording):
    class EmbeddingCollectionConfig(Call):
        def __init__(self, *given, **named):
            super().__init__(recording, "EmbeddingCollectionConfig", ("use_exclusive_keys", "comm_strategy"), given,
                             named)
            self.lookups = []

        def embedding_lookup(self, *given, **named):
            self.lookups.append(Call(recording, "embedding_lookup",
                                     ("table_config", "bottom_name", "top_name", "combiner"), given, named))

        def shard(self, *_, **__):
            """Where rows lie does not change the numbers: `sharding` of the config says it."""

    return EmbeddingCollectionConfig


def fake_module(recording):
    """The module that `import hugectr` finds."""
    module = types.ModuleType("hugectr")

    def maker(name, order):
        return lambda *given, **named: Call(recording, name, order, given, named)

    for name, order in ORDERS.items():
        setattr(module, name, maker(name, order))
    for name in ENUMERATIONS:
        setattr(module, name, Names())
    module.Model = model_class(recording)
    module.EmbeddingCollectionConfig = collection_class(recording)
    module.TrainingCallback = type("TrainingCallback", (), {})

    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        Call(recording, f"hugectr.{name}", (), (), {}).fail("the name has no translation")

    module.__getattr__ = missing
    return module
