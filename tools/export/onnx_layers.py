"""Each layer type of a config as ONNX nodes, as an evaluation runs it: the formulas of hugectr_lite/network/layers.

A tensor here has the shape that it has in ONNX, its first dimension B (or n B after a Reshape); `Tensor.dims` are the
others. Values are float32."""
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from saved_model import ModelError

OPSET = 13


@dataclass
class Tensor:
    name: str       # in the graph
    dims: list      # but the first
    rows: int = 1   # of a sample: [n B, ...]
    is_lengths: bool = False  # [B,1]: how many rows of a history count

    @property
    def elements(self):
        return self.rows * int(np.prod(self.dims))


class Graph:
    """Nodes and constants under construction."""

    def __init__(self, weights, prefix=""):
        self.weights, self.prefix = weights, prefix
        self.nodes, self.constants, self.inputs = [], [], []
        self.used = set()

    def node(self, op, inputs, **attributes):
        name = f"{self.prefix}t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, value):
        name = f"{self.prefix}c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name, shape=None):
        """The name in the graph of a tensor of the weights file."""
        if name not in self.weights:
            raise ModelError(f"tensor {name}: expected it among the weights, found none")
        value = self.weights[name]
        if shape is not None and list(value.shape) != list(shape):
            raise ModelError(f"tensor {name}: expected {list(shape)} as the config says, found {list(value.shape)}")
        if name not in self.used:
            self.used.add(name)
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def input(self, name, columns, kind):
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["batch", *columns]))
        return Tensor(name, list(columns))

    def reshape(self, x, dims):
        return self.node("Reshape", [x, self.constant(np.array([-1, *dims], np.int64))])

    def columns(self, x, begin, end):
        """Of the last dimension."""
        ints = [self.constant(np.array([v], np.int64)) for v in (begin, end, -1)]
        return self.node("Slice", [x, *ints])

    def where(self, condition, chosen, other):
        """`chosen` where the condition holds."""
        return self.node("Where", [condition, self.constant(np.int64(chosen)), other])

    def sum(self, x, axis):
        return self.node("ReduceSum", [x, self.constant(np.array([axis], np.int64))], keepdims=1)

    def scalar(self, value):
        return self.constant(np.float32(value))

    def cast(self, x, to=TensorProto.FLOAT):
        return self.node("Cast", [x], to=to)

    def unsqueeze(self, x, axis):
        return self.node("Unsqueeze", [x, self.constant(np.array([axis], np.int64))])

    def counted(self, n, shape=(1, -1)):
        """0, 1 ... n - 1"""
        return self.constant(np.arange(n, dtype=np.float32).reshape(shape))

    def valid(self, lengths, n):
        """[B,n]: 1 where one of n rows of a history counts."""
        return self.cast(self.node("Less", [self.counted(n), lengths]))

    def masked(self, x, valid):
        """[B,n,W] with zeros where [B,n] has them."""
        return self.node("Mul", [x, self.unsqueeze(valid, 2)])

    def whole(self, x):
        """[B,1]: the lengths of a tensor whose rows all count."""
        first = self.columns(self.reshape(x.name, [x.elements]), 0, 1)
        return self.node("Add", [self.cast(self.node("Less", [first, first])), self.scalar(x.dims[0])])

    def rows(self, x, index, valid):
        """Rows [B,m] of [B,n,W], zeros where none is valid."""
        index = self.cast(self.node("Mul", [index, valid]), TensorProto.INT64)
        return self.masked(self.node("GatherND", [x, self.unsqueeze(index, 2)], batch_dims=1), valid)


def elementwise(op):
    def emit(g, layer, bottoms):
        name = bottoms[0].name
        for other in bottoms[1:]:
            name = g.node(op, [name, other.name])
        return [Tensor(name, bottoms[0].dims, bottoms[0].rows)]
    return emit


def activation(op):
    def emit(g, layer, bottoms):
        return [Tensor(g.node(op, [bottoms[0].name]), bottoms[0].dims, bottoms[0].rows)]
    return emit


def elu(g, layer, bottoms):
    x = bottoms[0]
    return [Tensor(g.node("Elu", [x.name], alpha=float(layer["elu_param"]["alpha"])), x.dims, x.rows)]


def gelu_of(g, x):
    """x (1 + erf(x / sqrt 2)) / 2"""
    tail = g.node("Add", [g.node("Erf", [g.node("Mul", [x, g.scalar(0.5 ** 0.5)])]), g.scalar(1)])
    return g.node("Mul", [g.node("Mul", [x, g.scalar(0.5)]), tail])


def gelu(g, layer, bottoms):
    x = bottoms[0]
    return [Tensor(gelu_of(g, x.name), x.dims, x.rows)]


def silu(g, layer, bottoms):
    x = bottoms[0]
    return [Tensor(g.node("Mul", [x.name, g.node("Sigmoid", [x.name])]), x.dims, x.rows)]


def same(g, layer, bottoms):
    """Dropout in an evaluation, Cast."""
    return [bottoms[0]]


def product(g, x, weight, bias):
    return g.node("Add", [g.node("MatMul", [x, weight]), bias])


def inner_product(g, layer, bottoms):
    x, outputs = bottoms[0], layer["fc_param"]["num_output"]
    y = g.node("MatMul", [x.name, g.weight(layer["name"] + ".weight", [x.dims[-1], outputs])])
    if layer["fc_param"].get("use_bias", True):
        y = g.node("Add", [y, g.weight(layer["name"] + ".bias", [outputs])])
    if layer["type"] == "FusedInnerProduct" and layer.get("activation", "Relu") == "Relu":
        y = g.node("Relu", [y])
    return [Tensor(y, [*x.dims[:-1], outputs], x.rows)]


def mlp(g, layer, bottoms):
    x, param = bottoms[0], layer["mlp_param"]
    outputs = param["num_outputs"]
    biases = param.get("biases", [param.get("use_bias", True)] * len(outputs))
    activations = param.get("activations", [param.get("activation", "Relu")] * len(outputs))
    name, width = x.name, x.dims[-1]
    for i, (out, bias, activation_name) in enumerate(zip(outputs, biases, activations)):
        part = f"{layer['name']}.{i}"
        name = g.node("MatMul", [name, g.weight(part + ".weight", [width, out])])
        if bias:
            name = g.node("Add", [name, g.weight(part + ".bias", [out])])
        if activation_name == "Relu":
            name = g.node("Relu", [name])
        if activation_name == "Gelu":
            name = gelu_of(g, name)
        width = out
    return [Tensor(name, [*x.dims[:-1], width], x.rows)]


def concat(g, layer, bottoms):
    x = bottoms[0]
    axis = layer.get("axis", 1)
    dims = list(x.dims)
    dims[axis - 1] = sum(b.dims[axis - 1] for b in bottoms)
    return [Tensor(g.node("Concat", [b.name for b in bottoms], axis=axis), dims, x.rows)]


def slices(g, layer, bottoms):
    x = bottoms[0]
    return [Tensor(g.columns(x.name, begin, end), [*x.dims[:-1], end - begin], x.rows)
            for begin, end in layer["ranges"]]


def reshape(g, layer, bottoms):
    x = bottoms[0]
    if "selected" in layer:
        slots = layer["selected"]
        picked = g.node("Gather", [x.name, g.constant(np.array(slots, np.int64))], axis=1)
        return [Tensor(g.reshape(picked, [len(slots) * x.dims[1]]), [len(slots) * x.dims[1]])]
    width = layer.get("leading_dim", x.elements)
    if layer.get("time_step", 0):
        dims = [layer["time_step"], width]
        return [Tensor(g.reshape(x.name, dims), dims)]
    return [Tensor(g.reshape(x.name, [width]), [width], x.elements // width)]


def reduce(g, layer, bottoms):
    x, axis = bottoms[0], layer.get("axis", 1)
    dims, values = [1 if i == axis - 1 else n for i, n in enumerate(x.dims)], x.name
    if len(bottoms) == 2:
        values = g.masked(values, g.valid(bottoms[1].name, x.dims[0]))
    total = g.sum(values, axis)
    if layer["type"] == "ReduceMean":
        count = g.scalar(x.dims[axis - 1]) if len(bottoms) == 1 else g.unsqueeze(
            g.node("Max", [bottoms[1].name, g.scalar(1)]), 2)
        total = g.node("Div", [total, count])
    return [Tensor(total, dims, x.rows)]


def weight_multiply(g, layer, bottoms):
    slots, width = layer["weight_dims"]
    x = g.reshape(bottoms[0].name, [slots, 1])
    y = g.node("Mul", [x, g.weight(layer["name"] + ".weight", [slots, width])])
    return [Tensor(g.reshape(y, [slots * width]), [slots * width])]


def fm_order2(g, layer, bottoms):
    x, width = bottoms[0], layer["out_dim"]
    z = g.reshape(x.name, [x.elements // width, width])
    total = g.sum(z, 1)
    squares = g.sum(g.node("Mul", [z, z]), 1)
    y = g.node("Mul", [g.node("Sub", [g.node("Mul", [total, total]), squares]), g.scalar(0.5)])
    return [Tensor(g.reshape(y, [width]), [width])]


def interaction(g, layer, bottoms):
    """Column V + c (c-1) / 2 + r: the product of vectors r < c; the last column is zero."""
    x, slots = bottoms
    width, vectors = x.dims[0], slots.dims[0] + 1
    stack = g.node("Concat", [g.reshape(x.name, [1, width]), slots.name], axis=1)
    products = g.node("MatMul", [stack, g.node("Transpose", [stack], perm=[0, 2, 1])])
    pairs = [r * vectors + c for c in range(vectors) for r in range(c)]
    picked = g.node("Gather", [g.reshape(products, [vectors * vectors]), g.constant(np.array(pairs, np.int64))], axis=1)
    zero = g.node("Mul", [g.columns(x.name, 0, 1), g.scalar(0)])
    return [Tensor(g.node("Concat", [x.name, picked, zero], axis=1), [width + len(pairs) + 1])]


def multi_cross(g, layer, bottoms):
    """x' = x0 * (x u v + b) + x, or w for u v, or with vectors x' = x0 (x w) + b + x."""
    x0, param = bottoms[0].name, layer["mc_param"]
    n, rank, x = bottoms[0].dims[0], param.get("projection_dim", 0), bottoms[0].name
    for i in range(param["num_layers"]):
        name = layer["name"]
        bias = g.weight(f"{name}.bias_{i}", [n])
        if rank > 0:
            c = g.node("MatMul", [x, g.weight(f"{name}.u_{i}", [n, rank])])
            h = product(g, c, g.weight(f"{name}.v_{i}", [rank, n]), bias)
            x = g.node("Add", [g.node("Mul", [x0, h]), x])
        elif param.get("full_rank", False):
            h = product(g, x, g.weight(f"{name}.weight_{i}", [n, n]), bias)
            x = g.node("Add", [g.node("Mul", [x0, h]), x])
        else:
            w = g.node("Reshape", [g.weight(f"{name}.weight_{i}", [n]), g.constant(np.array([n, 1], np.int64))])
            a = g.node("MatMul", [x, w])
            x = g.node("Add", [g.node("Add", [g.node("Mul", [a, x0]), bias]), x])
    return [Tensor(x, [n])]


def batch_norm(g, layer, bottoms):
    x, name = bottoms[0], layer["name"]
    mean, variance, gamma, beta = (g.weight(f"{name}.{what}", [x.dims[-1]])
                                   for what in ("running_mean", "running_variance", "gamma", "beta"))
    deviation = g.node("Sqrt", [g.node("Add", [variance, g.scalar(layer["bn_param"]["eps"])])])
    scaled = g.node("Mul", [g.node("Div", [g.node("Sub", [x.name, mean]), deviation]), gamma])
    return [Tensor(g.node("Add", [scaled, beta]), x.dims, x.rows)]


def normalized(g, x, epsilon):
    centred = g.node("Sub", [x, g.node("ReduceMean", [x], axes=[-1], keepdims=1)])
    variance = g.node("ReduceMean", [g.node("Mul", [centred, centred])], axes=[-1], keepdims=1)
    return g.node("Div", [centred, g.node("Sqrt", [g.node("Add", [variance, g.scalar(epsilon)])])])


def scaled(g, x, name, n):
    return g.node("Add", [g.node("Mul", [x, g.weight(name + "gamma", [n])]), g.weight(name + "beta", [n])])


def layer_norm(g, layer, bottoms):
    x = bottoms[0]
    y = scaled(g, normalized(g, x.name, layer["ln_param"]["eps"]), layer["name"] + ".", x.dims[-1])
    return [Tensor(y, x.dims, x.rows)]


def matrix_multiply(g, layer, bottoms):
    a, b = bottoms
    return [Tensor(g.node("MatMul", [a.name, b.name]), [a.dims[0], b.dims[1]])]


def transpose(g, layer, bottoms):
    x = bottoms[0]
    return [Tensor(g.node("Transpose", [x.name], perm=[0, 2, 1]), x.dims[::-1])]


def multi_head_attention(g, layer, bottoms):
    """A row that sees no key has only zeros: their sum is not divided by."""
    q, k, v = bottoms[:3]
    heads = layer.get("num_attention_heads", 1)
    width = q.dims[1] // heads

    def cut(x, perm):
        return g.node("Transpose", [g.reshape(x.name, [x.dims[0], heads, width])], perm=perm)
    scores = g.node("MatMul", [cut(q, [0, 2, 1, 3]), cut(k, [0, 2, 3, 1])])
    scores = g.node("Mul", [scores, g.scalar(width ** -0.5)])
    if len(bottoms) == 4:
        unseen = g.node("Equal", [bottoms[3].name, g.scalar(0)])
        scores = g.node("Where", [unseen, g.scalar(np.finfo(np.float32).min), scores])
    weights = g.node("Exp", [g.node("Sub", [scores, g.node("ReduceMax", [scores], axes=[-1], keepdims=1)])])
    if len(bottoms) == 4:
        weights = g.node("Where", [unseen, g.scalar(0), weights])
    weights = g.node("Div", [weights, g.node("Max", [g.sum(weights, -1), g.scalar(1e-30)])])
    y = g.node("Transpose", [g.node("MatMul", [weights, cut(v, [0, 2, 1, 3])])], perm=[0, 2, 1, 3])
    return [Tensor(g.reshape(y, q.dims), q.dims)]


def softmax(g, layer, bottoms):
    """Where a mask is 0, next to nothing; in a row of which nothing counts, 0."""
    x = bottoms[0]
    z = g.node("Mul", [x.name, g.scalar(layer.get("factor", 1))])
    if len(bottoms) == 2:
        absent = g.node("Equal", [bottoms[1].name, g.scalar(0)])
        z = g.node("Where", [absent, g.node("Sub", [z, g.scalar(10000)]), z])
    y = g.node("Softmax", [z], axis=-1)
    if len(bottoms) == 2:
        seen = g.node("ReduceMax", [g.cast(g.node("Not", [absent]))], axes=[-1], keepdims=1)
        y = g.node("Mul", [y, seen])
    return [Tensor(y, x.dims, x.rows)]


def scale(g, layer, bottoms):
    """Each number, or with axis 1 each row, `factor` times."""
    x, param = bottoms[0], layer["scale_param"]
    width, factor = x.dims[-1], param["factor"]
    one = [1, width] if param["axis"] == 1 else [width, 1]
    many = [factor, width] if param["axis"] == 1 else [width, factor]
    y = g.node("Mul", [g.reshape(x.name, one), g.constant(np.ones([1, *many], np.float32))])
    dims, rows = ([width], x.rows * factor) if param["axis"] == 1 else ([width * factor], x.rows)
    return [Tensor(g.reshape(y, dims), dims, rows)]


def prelu_dice(g, layer, bottoms):
    x, name, param = bottoms[0], layer["name"], layer["prelu_dice_param"]
    n = x.dims[-1]
    mean, variance = (g.weight(f"{name}.running_{what}", [n]) for what in ("mean", "variance"))
    alpha = g.scalar(param.get("alpha", param.get("elu_alpha")))
    if param.get("trained", False):
        alpha = g.weight(name + ".alpha", [n])
    deviation = g.node("Sqrt", [g.node("Add", [variance, g.scalar(param.get("epsilon", param.get("eps")))])])
    share = g.node("Sigmoid", [g.node("Div", [g.node("Sub", [x.name, mean]), deviation])])
    slope = g.node("Add", [alpha, g.node("Mul", [g.node("Sub", [g.scalar(1), alpha]), share])])
    return [Tensor(g.node("Mul", [x.name, slope]), x.dims, x.rows)]


def sequence_mask(g, layer, bottoms):
    rows, columns = layer.get("max_sequence_len_from", 1), layer.get("max_sequence_len_to", 1)
    seen = g.node("MatMul", [g.unsqueeze(g.valid(bottoms[0].name, rows), 2), g.unsqueeze(g.valid(bottoms[1].name, columns), 1)])
    if layer.get("causal", False):
        seen = g.node("Mul", [seen, g.constant(np.tril(np.ones([1, rows, columns], np.float32)))])
    return [Tensor(g.unsqueeze(seen, 1), [1, rows, columns])]


def sequence_concat(g, layer, bottoms):
    """Row j of the top is row j - begin + offset of all bottoms, of the part that begins there."""
    parts, begin, index, offset = [], None, None, 0
    for x in bottoms:
        if x.is_lengths:
            parts[-1][1] = x.name
        else:
            parts.append([x, None])
    total = sum(x.dims[0] for x, _ in parts)
    for x, count in parts:
        if count is None:
            count = g.whole(x)
        if begin is None:
            index, begin = g.counted(total), count
        else:
            own = g.node("Add", [g.node("Sub", [g.counted(total), begin]), g.scalar(offset)])
            index = g.node("Where", [g.node("Less", [g.counted(total), begin]), index, own])
            begin = g.node("Add", [begin, count])
        offset += x.dims[0]
    rows = g.node("Concat", [x.name for x, _ in parts], axis=1)
    return [Tensor(g.rows(rows, index, g.valid(begin, total)), [total, parts[0][0].dims[1]]),
            Tensor(begin, [1], is_lengths=True)]


def sequence_last(g, layer, bottoms):
    x, count = bottoms[0], layer.get("count", 1)
    index = g.node("Add", [g.node("Sub", [bottoms[1].name, g.scalar(count)]), g.counted(count)])
    valid = g.cast(g.node("Not", [g.node("Less", [index, g.scalar(0)])]))
    return [Tensor(g.rows(x.name, index, valid), [count, x.dims[1]])]


def position_embedding(g, layer, bottoms):
    x, lengths = bottoms[0], bottoms[1].name
    weight, valid = g.weight(layer["name"] + ".weight", x.dims), g.valid(lengths, x.dims[0])
    if layer.get("from", "start") == "end":
        place = g.node("Sub", [g.node("Sub", [lengths, g.scalar(1)]), g.counted(x.dims[0])])
        place = g.cast(g.node("Mul", [place, valid]), TensorProto.INT64)
        weight = g.node("Gather", [weight, place], axis=0)
    return [Tensor(g.masked(g.node("Add", [x.name, weight]), valid), x.dims)]


def gru(g, layer, bottoms):
    """A Scan over positions: h' = h + a (1 - z) (c - h), where a is 0 at padding."""
    x, lengths, name, n = bottoms[0], bottoms[1].name, layer["name"], layer["gru_param"]["num_output"]
    valid = g.valid(lengths, x.dims[0])
    scores = g.node("Mul", [bottoms[2].name, valid]) if len(bottoms) == 3 else valid
    products = product(g, x.name, g.weight(name + ".weight", [x.dims[1], 3 * n]), g.weight(name + ".bias", [3 * n]))
    recurrent = g.weight(name + ".recurrent", [n, 3 * n])

    step = Graph(g.weights, name + ".")
    h, p, a = (step.prefix + what for what in "hpa")
    held = step.node("MatMul", [h, recurrent])

    def gates(of):
        return [step.columns(of, i * n, (i + 1) * n) for i in range(3)]
    (p_r, p_z, p_c), (h_r, h_z, h_c) = gates(p), gates(held)
    r, z = (step.node("Sigmoid", [step.node("Add", [one, other])]) for one, other in ((p_r, h_r), (p_z, h_z)))
    c = step.node("Tanh", [step.node("Add", [p_c, step.node("Mul", [r, h_c])])])
    share = step.node("Mul", [a, step.node("Sub", [step.scalar(1), z])])
    after = step.node("Add", [h, step.node("Mul", [share, step.node("Sub", [c, h])])])
    kept = step.node("Identity", [after])
    body = helper.make_graph(
        step.nodes, name, [helper.make_tensor_value_info(what, TensorProto.FLOAT, ["batch", width])
                           for what, width in ((h, n), (p, 3 * n), (a, 1))],
        [helper.make_tensor_value_info(what, TensorProto.FLOAT, ["batch", n]) for what in (after, kept)], step.constants)
    start = g.node("Mul", [lengths, g.constant(np.zeros([1, n], np.float32))])
    last = f"{step.prefix}last"
    states = f"{step.prefix}states"
    g.nodes.append(helper.make_node("Scan", [start, products, g.unsqueeze(scores, 2)], [last, states], body=body,
                                    num_scan_inputs=2, scan_input_axes=[1, 1], scan_output_axes=[1]))
    return [Tensor(g.masked(states, valid), [x.dims[0], n])]


def hstu(g, layer, bottoms):
    """Padding is computed like all rows, and becomes zeros at the end."""
    x, lengths, name, param = bottoms[0], bottoms[1].name, layer["name"], layer["hstu_param"]
    (n, d), heads, a, c = x.dims, param["num_heads"], param["attention_dim"], param["hidden_dim"]
    hidden, width, epsilon = heads * c, 2 * heads * (a + c), param.get("eps", 1e-6)
    z = product(g, scaled(g, normalized(g, x.name, epsilon), name + ".input_", d),
                g.weight(name + ".uvqk_weight", [d, width]), g.weight(name + ".uvqk_bias", [width]))

    def silu_of(y):
        return g.node("Mul", [y, g.node("Sigmoid", [y])])

    def cut(begin, of, perm):
        return g.node("Transpose", [g.reshape(g.columns(z, begin, begin + heads * of), [n, heads, of])], perm=perm)
    u = silu_of(g.columns(z, 0, hidden))
    scores = g.node("MatMul", [cut(2 * hidden, a, [0, 2, 1, 3]), cut(2 * hidden + heads * a, a, [0, 2, 3, 1])])
    weights = g.node("Mul", [silu_of(g.node("Mul", [scores, g.scalar(a ** -0.5)])), g.scalar(1 / n)])

    i, j = np.ogrid[:n, :n]
    window, context = param.get("max_attn_len", 0), param.get("contextual_seq_len", 0)
    seen = ((j <= i) | (not param.get("causal", True))) & ((abs(i - j) <= window) | (window == 0)) | (i < context) | (j < context)
    shared = g.node("Less", [g.counted(n), g.node("Sub", [lengths, g.scalar(param.get("num_candidates", 0))])])
    seen = g.node("Mul", [g.constant(seen.astype(np.float32)), g.unsqueeze(g.unsqueeze(g.cast(shared), 1), 1)])
    weights = g.node("Mul", [weights, g.node("Max", [seen, g.constant(np.eye(n, dtype=np.float32))])])
    o = g.node("Transpose", [g.node("MatMul", [weights, cut(hidden, c, [0, 2, 1, 3])])], perm=[0, 2, 1, 3])
    if not param.get("group_norm", False):
        o = g.reshape(o, [n, hidden])
    normed = g.reshape(normalized(g, o, epsilon), [n, hidden])
    gated = g.node("Mul", [u, scaled(g, normed, name + ".output_", hidden)])
    parts = g.node("Concat", [u, g.reshape(o, [n, hidden]), gated], axis=-1)
    y = g.node("Add", [x.name, g.node("MatMul", [parts, g.weight(name + ".output_weight", [3 * hidden, d])])])
    return [Tensor(g.masked(y, g.valid(lengths, n)), x.dims)]


LAYERS = {
    "Add": elementwise("Add"), "Sub": elementwise("Sub"), "DotProduct": elementwise("Mul"),
    "ElementwiseMultiply": elementwise("Mul"), "ReLU": activation("Relu"), "Sigmoid": activation("Sigmoid"),
    "Tanh": activation("Tanh"), "ELU": elu, "GELU": gelu, "SiLU": silu, "Dropout": same, "Cast": same,
    "InnerProduct": inner_product, "FusedInnerProduct": inner_product, "Concat": concat, "Slice": slices, "Reshape": reshape, "ReduceSum": reduce,
    "ReduceMean": reduce, "WeightMultiply": weight_multiply, "Multiply": weight_multiply, "FmOrder2": fm_order2,
    "Interaction": interaction, "MLP": mlp, "MultiCross": multi_cross, "BatchNorm": batch_norm,
    "LayerNorm": layer_norm, "MatrixMultiply": matrix_multiply, "Transpose": transpose,
    "MultiHeadAttention": multi_head_attention, "Softmax": softmax, "Scale": scale, "PReLU_Dice": prelu_dice,
    "SequenceMask": sequence_mask, "SequenceConcat": sequence_concat, "SequenceLast": sequence_last,
    "PositionEmbedding": position_embedding, "GRU": gru, "HSTU": hstu,
}


def slot_tables(layer, slots):
    """The number of the table that each slot looks up."""
    return layer["sparse_embedding_hparam"].get("slot_tables", range(slots))


@dataclass
class Keys:
    """What a sparse input says of its keys, by the rules of hugectr_lite/config/sparse_config.cpp."""
    hotness: list         # most keys of each slot
    may_lack: bool        # a sample may have fewer, and -1 in their places
    max_len: int          # of a history, else 0
    policy: dict = field(default_factory=dict)  # of keys outside of their tables: the Data layer's keys for it


def rows_of(g, own, rows, keys):
    """(rows of the table for keys [B, n], 1 where there is a key or None where there always is). A key outside of the
    table becomes what key_policy says; without one, a row beyond the table, which Gather has to refuse. (It would count a
    negative one from the end.)"""
    there = None
    if keys.may_lack:
        absent = g.node("Equal", [own, g.constant(np.int64(-1))])
        there = g.node("Cast", [g.node("Not", [absent])], to=TensorProto.FLOAT)
        own = g.where(absent, 0, own)
    negative = g.node("Less", [own, g.constant(np.int64(0))])
    policy = keys.policy.get("key_policy")
    if policy not in ("clamp", "oov"):
        return g.where(negative, rows, own), there
    outside = g.node("Or", [negative, g.node("Greater", [own, g.constant(np.int64(rows - 1))])])
    return g.where(outside, keys.policy.get("oov_key", 0) if policy == "oov" else rows - 1, own), there


def lengths_of(g, keys, max_len):
    """How many keys the first slot of a history has."""
    there = g.node("Not", [g.node("Equal", [g.columns(keys.name, 0, max_len), g.constant(np.int64(-1))])])
    return Tensor(g.sum(g.cast(there), 1), [1], is_lengths=True)


def embedding(g, layer, bottom, keys, first, combiner):
    """Vectors [B, slots, V] of keys [B, sum of hotness], local to each slot's table, or of a history by `concat`
    [B, T, slots V]. `first`: slots of the layer's bottoms before."""
    tables = slot_tables(layer, first + len(keys.hotness))
    width, vectors, at = layer["sparse_embedding_hparam"]["embedding_vec_size"], [], 0
    is_history = combiner == "concat" and keys.max_len > 0
    for slot, count in enumerate(keys.hotness):
        name = f"{layer['name']}.table_{tables[first + slot]}"
        if name + ".keys" in g.weights:
            raise ModelError(f"{name}: expected a table with a row for every key, found one of the keys that came "
                             f"({layer['type']}), which ONNX cannot look up")
        table = g.weight(name)
        rows, there = rows_of(g, g.columns(bottom.name, at, at + count), len(g.weights[name]), keys)
        at += count
        total = g.node("Gather", [table, rows], axis=0)  # [B,count,V]
        if there is not None:
            there = g.unsqueeze(there, 2)
            total = g.node("Mul", [total, there])
        if count > 1 and not is_history:
            total = g.sum(total, 1)
            if combiner in (1, "mean"):
                number = g.scalar(count) if there is None else g.node("Max", [g.sum(there, 1), g.scalar(1)])
                total = g.node("Div", [total, number])
        vectors.append(total)
    slots = len(keys.hotness)
    if is_history:
        return Tensor(g.node("Concat", vectors, axis=2), [keys.max_len, slots * width])
    return Tensor(g.node("Concat", vectors, axis=1), [slots, width])
