"""Dense layers: from the arguments of hugectr.DenseLayer to a layer of the config."""

# Arguments of a layer type: their keys in the config, in the object `block` if there is one.
ARGUMENTS = {
    "InnerProduct": ("fc_param", {"num_output": "num_output", "weight_init_type": "weight_init",
                                  "bias_init_type": "bias_init"}),
    "FusedInnerProduct": ("fc_param", {"num_output": "num_output", "weight_init_type": "weight_init",
                                       "bias_init_type": "bias_init"}),
    "MLP": ("mlp_param", {"num_outputs": "num_outputs", "act_type": "activation", "activations": "activations",
                          "use_bias": "use_bias", "biases": "biases", "weight_init_type": "weight_init",
                          "bias_init_type": "bias_init"}),
    "MultiCross": ("mc_param", {"num_layers": "num_layers", "projection_dim": "projection_dim",
                                "weight_init_type": "weight_init", "bias_init_type": "bias_init"}),
    "Scale": ("scale_param", {"axis": "axis", "factor": "factor"}),
    "PReLU_Dice": ("prelu_dice_param", {"elu_alpha": "alpha", "eps": "epsilon"}),
    "ELU": ("elu_param", {"elu_alpha": "alpha"}),
    "BatchNorm": ("bn_param", {"factor": "factor", "eps": "eps", "gamma_init_type": "gamma_init",
                               "beta_init_type": "beta_init"}),
    "LayerNorm": ("ln_param", {"eps": "eps", "gamma_init_type": "gamma_init", "beta_init_type": "beta_init"}),
    "Dropout": (None, {"dropout_rate": "rate"}),
    "Reshape": (None, {"leading_dim": "leading_dim", "time_step": "time_step", "selected_slots": "selected"}),
    "Slice": (None, {"ranges": "ranges"}),
    "Concat": (None, {"axis": "axis"}),
    "ReduceSum": (None, {"axis": "axis"}),
    "ReduceMean": (None, {"axis": "axis"}),
    "Multiply": (None, {"weight_dims": "weight_dims", "weight_init_type": "weight_init"}),
    "WeightMultiply": (None, {"weight_dims": "weight_dims", "weight_init_type": "weight_init"}),
    "MultiHeadAttention": (None, {"num_attention_heads": "num_attention_heads", "transpose_b": "transpose_b"}),
    "SequenceMask": (None, {"max_sequence_len_from": "max_sequence_len_from",
                            "max_sequence_len_to": "max_sequence_len_to"}),
    "FmOrder2": (None, {"out_dim": "out_dim"}),
    "MultiCrossEntropyLoss": (None, {"target_weight_vec": "target_weight"}),
    **{name: (None, {}) for name in ("Add", "Cast", "DotProduct", "ElementwiseMultiply", "FusedReshapeConcat",
                                     "Interaction", "MatrixMultiply", "ReLU", "Sigmoid", "Softmax", "Sub",
                                     "BinaryCrossEntropyLoss")},
}
# What is missing where the config requires it: the default of HugeCTR's Python interface.
DEFAULTS = {"BatchNorm": {"factor": 1.0, "eps": 1e-5}, "PReLU_Dice": {"elu_alpha": 1.0, "eps": 1e-5},
            "ELU": {"elu_alpha": 1.0}, "MultiCross": {"num_layers": 1}, "Scale": {"axis": 1, "factor": 1}}
WITHOUT_EFFECT = ("compute_config", "dense_layer_switches", "name")


def as_list(names):
    return [names] if isinstance(names, str) else list(names)


def value_of(call, key, value):
    """A value as JSON has it: activations and initializers by their names."""
    if key in ("activation", "activations"):
        names = {"Relu": "Relu", "Non": "None"}
        for each in as_list(value):
            if each not in names:
                call.fail(f"{key}: expected Activation_t.Relu or Non, found {each}")
        return names[value] if isinstance(value, str) else [names[each] for each in value]
    if key == "ranges":
        return [list(pair) for pair in value]
    return str(value) if isinstance(value, str) else value


def wiring(kind, bottoms, tops):
    """A layer without parameters."""
    return {"name": tops[0], "type": kind, "bottom": bottoms[0] if len(bottoms) == 1 else list(bottoms),
            "top": tops[0] if len(tops) == 1 else list(tops)}


def dense_layer(call):
    """The config's layer of a DenseLayer call."""
    kind = str(call.need("layer_type"))
    if kind == "GRU":
        call.fail("GRU takes a history and its lengths here, and HugeCTR's no lengths")
    if kind not in ARGUMENTS:
        call.fail(f"train has no layer {kind}; docs/configs.md lists those it has")
    bottoms, tops = as_list(call.need("bottom_names")), as_list(call.need("top_names"))
    layer = wiring(kind, bottoms, tops)
    block, keys = ARGUMENTS[kind]
    call.ignore(*WITHOUT_EFFECT)
    parameters = {}
    for argument, key in keys.items():
        given = call.get(argument, DEFAULTS.get(kind, {}).get(argument))
        if given is not None and not (key == "projection_dim" and given == 0):
            parameters[key] = value_of(call, key, given)
    if kind == "Reshape":
        call.ignore("selected")  # a switch; selected_slots says which
    if block:
        layer[block] = parameters
    else:
        layer.update(parameters)
    if kind == "FusedInnerProduct":
        position = str(call.get("pos_type", "None"))
        if position not in ("None", "Non"):
            layer["position"] = position
        if str(call.get("act_type", "Relu")) == "Non":
            layer["activation"] = "None"
    if kind == "Softmax" and call.get("factor", 1.0) != 1.0:
        call.fail("the factor of a Softmax has no translation")
    if kind.endswith("Loss") and call.get("use_regularizer", False):
        layer["regularizer"] = str(call.get("regularizer_type", "L1"))
        layer["lambda"] = call.get("lambda", 0)
    call.ignore("regularizer_type", "lambda")
    call.finish()
    return layer


def group_layer(call):
    """GroupFusedInnerProduct: a Head, Bodies and a Tail that HugeCTR fuses; here an MLP."""
    if str(call.need("group_layer_type")) != "GroupFusedInnerProduct":
        call.fail("expected GroupLayer_t.GroupFusedInnerProduct")
    bottoms = as_list(call.get("bottom_name_list") or call.need("bottom_name"))
    tops, outputs = as_list(call.need("top_name_list")), list(call.need("num_outputs"))
    layer = wiring("MLP", bottoms, [tops[-1]])
    relu = str(call.get("last_act_type", "Relu")) != "Non"
    layer["mlp_param"] = {"num_outputs": outputs, "activations": ["Relu"] * (len(outputs) - 1) +
                          ["Relu" if relu else "None"]}
    call.finish()
    return layer
