"""DIN and BST on histories of ten events in a column each, MMoE on two labels: behaviour_models.py --model NAME."""
import argparse

import hugectr

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=["din", "bst", "mmoe"], required=True)
parser.add_argument("--folder", default=".")
args = parser.parse_args()
L, PAST = hugectr.Layer_t, 10
SIZES = [50] * 32 if args.model == "mmoe" else [300] + [0] * PAST + [500] + [0] * PAST + [40]

solver = hugectr.CreateSolver(max_eval_batches=1, batchsize_eval=256, batchsize=64, lr=0.001, vvgpu=[[0]],
                              repeat_dataset=True, i64_input_key=True, use_cuda_graph=True)
reader = hugectr.DataReaderParams(data_reader_type=hugectr.DataReaderType_t.Parquet,
                                  source=[args.folder + "/train/_file_list.txt"],
                                  eval_source=args.folder + "/valid/_file_list.txt", check_type=hugectr.Check_t.Non,
                                  num_workers=1, slot_size_array=SIZES)
if args.model == "mmoe":
    optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.SGD, update_type=hugectr.Update_t.Local,
                                        atomic_update=True)
else:
    optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.Adam, update_type=hugectr.Update_t.Global,
                                        beta1=0.9, beta2=0.999, epsilon=0.000000001)
model = hugectr.Model(solver, reader, optimizer)


def keys(**slots):
    return [hugectr.DataReaderSparseParam(name, 1, True, count) for name, count in slots.items()]


def embedding(bottom, width, kind=hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash):
    model.add(hugectr.SparseEmbedding(embedding_type=kind, workspace_size_per_gpu_in_mb=28, embedding_vec_size=width,
                                      combiner="sum", sparse_embedding_name="emb_" + bottom, bottom_name=bottom,
                                      optimizer=optimizer))


def dense(kind, bottoms, *tops, **arguments):
    bottoms = [bottoms] if isinstance(bottoms, str) else bottoms
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=list(tops), **arguments))


def dice_layers(bottom, *widths):
    for i, width in enumerate(widths):
        dense(L.InnerProduct, bottom, f"fc{i}", num_output=width)
        bottom = f"dice{i}"
        dense(L.PReLU_Dice, f"fc{i}", bottom, elu_alpha=0.2, eps=1e-8)
    dense(L.InnerProduct, bottom, "logit", num_output=1)
    dense(L.BinaryCrossEntropyLoss, ["logit", "label"], "loss")


def din(width=18):
    model.add(hugectr.Input(label_dim=1, label_name="label", dense_dim=0, dense_name="dense",
                            data_reader_sparse_param_array=keys(UserID=1, GoodID=PAST + 1, CateID=PAST + 1)))
    for bottom in ("UserID", "GoodID", "CateID"):
        embedding(bottom, width)
    both = 2 * width
    dense(L.FusedReshapeConcat, ["emb_GoodID", "emb_CateID"], "past", "target")
    dense(L.Slice, "target", "target1", "target2", ranges=[(0, both), (0, both)])
    dense(L.Slice, "past", "past1", "past2", "past3", "past4", "past5", ranges=[(0, both)] * 5)
    dense(L.Scale, "target1", "asked", axis=1, factor=PAST)
    dense(L.Slice, "asked", "asked1", "asked2", "asked3", ranges=[(0, both)] * 3)
    dense(L.Sub, ["asked1", "past1"], "difference")
    dense(L.ElementwiseMultiply, ["asked2", "past2"], "product")
    dense(L.Concat, ["asked3", "past3", "difference", "product"], "attention")
    dense(L.InnerProduct, "attention", "attention_fc", num_output=40)
    dense(L.InnerProduct, "attention_fc", "score", num_output=1)
    dense(L.Reshape, "score", "scores", leading_dim=PAST)
    dense(L.Softmax, "scores", "weights")
    dense(L.Scale, "weights", "all_weights", axis=0, factor=both)
    dense(L.Reshape, "past4", "all_past", leading_dim=PAST * both)
    dense(L.ElementwiseMultiply, ["all_weights", "all_past"], "weighed")
    dense(L.ReduceSum, "weighed", "interest", axis=1)
    dense(L.Reshape, "past5", "events", leading_dim=both, time_step=PAST)
    dense(L.ReduceMean, "events", "mean3", axis=1)
    dense(L.Reshape, "mean3", "mean", leading_dim=both)
    dense(L.Reshape, "emb_UserID", "user", leading_dim=width)
    dense(L.Concat, ["user", "mean", "interest", "target2"], "features")
    dice_layers("features", 200, 80)


def bst(width=16, heads=4):
    model.add(hugectr.Input(label_dim=1, label_name="label", dense_dim=1, dense_name="dense",
                            data_reader_sparse_param_array=keys(UserID=1, GoodID=PAST, Target_Good=1, CateID=PAST,
                                                                Target_Cate=1)))
    for bottom, of in (("UserID", 18), ("GoodID", width), ("Target_Good", width), ("CateID", width),
                       ("Target_Cate", width)):
        embedding(bottom, of)
    both = 2 * width
    dense(L.Concat, ["emb_CateID", "emb_GoodID"], "events", axis=2)
    for name in ("query", "key", "value"):
        dense(L.InnerProduct, "events", name, num_output=both)
    dense(L.SequenceMask, ["dense", "dense"], "mask", max_sequence_len_from=PAST, max_sequence_len_to=PAST)
    dense(L.MultiHeadAttention, ["query", "key", "value", "mask"], "attention", num_attention_heads=heads)
    dense(L.Add, ["attention", "query"], "sum1")
    dense(L.LayerNorm, "sum1", "norm1", eps=1e-5)
    dense(L.InnerProduct, "norm1", "wide", num_output=128)
    dense(L.InnerProduct, "wide", "narrow", num_output=both)
    dense(L.Add, ["norm1", "narrow"], "sum2")
    dense(L.LayerNorm, "sum2", "norm2", eps=1e-5)
    dense(L.ReduceMean, "norm2", "mean3", axis=1)
    dense(L.Reshape, "mean3", "mean", leading_dim=both)
    dense(L.Reshape, "emb_UserID", "user", leading_dim=18)
    dense(L.Reshape, "emb_Target_Good", "good", leading_dim=width)
    dense(L.Reshape, "emb_Target_Cate", "cate", leading_dim=width)
    dense(L.Concat, ["mean", "user", "good", "cate"], "features")
    dice_layers("features", 256, 128, 64)


def mmoe(experts=3, tasks=("50k_label", "married_label")):
    model.add(hugectr.Input(label_dims=[1, 1], label_names=list(tasks), dense_dim=0, dense_name="dense",
                            data_reader_sparse_param_array=keys(data=32)))
    embedding("data", 16, hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash)
    dense(L.Reshape, "emb_data", "all", leading_dim=512)
    copies = [f"all{i}" for i in range(experts + len(tasks))]
    dense(L.Slice, "all", *copies, ranges=[(0, 512)] * len(copies))
    for e in range(experts):
        bottom = f"all{e}"
        for i, width in enumerate((256, 128)):
            dense(L.InnerProduct, bottom, f"expert{e}_fc{i}", num_output=width)
            dense(L.ReLU, f"expert{e}_fc{i}", f"expert{e}_relu{i}")
            bottom = f"expert{e}_drop{i}"
            dense(L.Dropout, f"expert{e}_relu{i}", bottom, dropout_rate=0.5)
        dense(L.Slice, bottom, *[f"expert{e}_{t}" for t in range(len(tasks))], ranges=[(0, 128)] * len(tasks))
    for t, task in enumerate(tasks):
        dense(L.InnerProduct, f"all{experts + t}", f"gate{t}_fc", num_output=experts)
        dense(L.Softmax, f"gate{t}_fc", f"gate{t}")
        dense(L.Slice, f"gate{t}", *[f"gate{t}_{e}" for e in range(experts)], ranges=[(e, e + 1) for e in range(experts)])
        for e in range(experts):
            dense(L.Scale, f"gate{t}_{e}", f"gate{t}_{e}_wide", axis=0, factor=128)
            dense(L.ElementwiseMultiply, [f"gate{t}_{e}_wide", f"expert{e}_{t}"], f"part{t}_{e}")
        dense(L.Add, [f"part{t}_{e}" for e in range(experts)], f"mixture{t}")
        dense(L.InnerProduct, f"mixture{t}", f"tower{t}_fc", num_output=64)
        dense(L.ReLU, f"tower{t}_fc", f"tower{t}")
        dense(L.InnerProduct, f"tower{t}", f"logit{t}", num_output=1)
        dense(L.BinaryCrossEntropyLoss, [f"logit{t}", task], f"loss{t}")


{"din": din, "bst": bst, "mmoe": mmoe}[args.model]()
if args.model == "mmoe":
    model.compile(loss_names=["50k_label", "married_label"], loss_weights=[0.5, 0.5])
else:
    model.compile()
model.summary()
model.graph_to_json(args.model + ".json")
model.fit(max_iter=60, display=20, eval_interval=20, snapshot=2000000, snapshot_prefix=args.model)
