"""DCN, DeepFM, or Wide & Deep as users of HugeCTR write them: click_models.py --model NAME."""
import argparse

import hugectr
from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=["dcn", "deepfm", "wdl"], default="dcn")
parser.add_argument("--folder", default=".")
args = parser.parse_args()
SLOTS, WIDTH = 26, 11 if args.model == "deepfm" else 16

solver = hugectr.CreateSolver(max_eval_batches=4, batchsize_eval=512, batchsize=256, lr=0.001,
                              vvgpu=[[0]] * MPI.COMM_WORLD.Get_size(), repeat_dataset=True, i64_input_key=True)
reader = hugectr.DataReaderParams(data_reader_type=hugectr.DataReaderType_t.RawAsync,
                                  source=[args.folder + "/synth.train.bin"], eval_source=args.folder + "/synth.test.bin",
                                  check_type=hugectr.Check_t.Non,
                                  async_param=hugectr.AsyncParam(2, 4, 72, 2, 512, True, hugectr.Alignment_t.Non))
optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.Adam, update_type=hugectr.Update_t.Global,
                                    beta1=0.9, beta2=0.999, epsilon=0.0000001)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim=1, label_name="label", dense_dim=13, dense_name="dense",
                        data_reader_sparse_param_array=[hugectr.DataReaderSparseParam("data1", 1, True, SLOTS)]))


def embedding(name, width):
    model.add(hugectr.SparseEmbedding(embedding_type=hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
                                      workspace_size_per_gpu_in_mb=16, embedding_vec_size=width, combiner="sum",
                                      sparse_embedding_name=name, bottom_name="data1", optimizer=optimizer))


def dense(kind, bottoms, tops, **arguments):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **arguments))


def deep_net(bottom):
    for i in (1, 2):
        dense(hugectr.Layer_t.InnerProduct, [bottom], [f"fc{i}"], num_output=64)
        dense(hugectr.Layer_t.ReLU, [f"fc{i}"], [f"relu{i}"])
        dense(hugectr.Layer_t.Dropout, [f"relu{i}"], [f"dropout{i}"], dropout_rate=0.1)
        bottom = f"dropout{i}"
    return bottom


embedding("sparse_embedding1", WIDTH)
if args.model == "dcn":
    dense(hugectr.Layer_t.Reshape, ["sparse_embedding1"], ["reshape1"], leading_dim=SLOTS * WIDTH)
    dense(hugectr.Layer_t.Concat, ["reshape1", "dense"], ["concat1"])
    dense(hugectr.Layer_t.MultiCross, ["concat1"], ["multicross1"], num_layers=2)
    dense(hugectr.Layer_t.Concat, [deep_net("concat1"), "multicross1"], ["concat2"])
    dense(hugectr.Layer_t.InnerProduct, ["concat2"], ["logit"], num_output=1)
elif args.model == "wdl":
    embedding("sparse_embedding2", 1)
    dense(hugectr.Layer_t.Reshape, ["sparse_embedding1"], ["reshape1"], leading_dim=SLOTS * WIDTH)
    dense(hugectr.Layer_t.Reshape, ["sparse_embedding2"], ["reshape2"], leading_dim=SLOTS)
    dense(hugectr.Layer_t.ReduceSum, ["reshape2"], ["wide"], axis=1)
    dense(hugectr.Layer_t.Concat, ["reshape1", "dense"], ["concat1"])
    dense(hugectr.Layer_t.InnerProduct, [deep_net("concat1")], ["deep"], num_output=1)
    dense(hugectr.Layer_t.Add, ["deep", "wide"], ["logit"])
else:
    dense(hugectr.Layer_t.Reshape, ["sparse_embedding1"], ["reshape1"], leading_dim=WIDTH)
    dense(hugectr.Layer_t.Slice, ["reshape1"], ["slice11", "slice12"], ranges=[(0, 10), (10, 11)])
    dense(hugectr.Layer_t.Reshape, ["slice11"], ["reshape2"], leading_dim=10 * SLOTS)
    dense(hugectr.Layer_t.Reshape, ["slice12"], ["reshape3"], leading_dim=SLOTS)
    dense(hugectr.Layer_t.WeightMultiply, ["dense"], ["multiply1"], weight_dims=[13, 10])
    dense(hugectr.Layer_t.WeightMultiply, ["dense"], ["multiply2"], weight_dims=[13, 1])
    dense(hugectr.Layer_t.Concat, ["reshape2", "multiply1"], ["concat1"])
    dense(hugectr.Layer_t.InnerProduct, [deep_net("concat1")], ["deep"], num_output=1)
    dense(hugectr.Layer_t.FmOrder2, ["concat1"], ["fmorder2"], out_dim=10)
    dense(hugectr.Layer_t.ReduceSum, ["fmorder2"], ["second"], axis=1)
    dense(hugectr.Layer_t.Concat, ["reshape3", "multiply2"], ["concat2"])
    dense(hugectr.Layer_t.ReduceSum, ["concat2"], ["first"], axis=1)
    dense(hugectr.Layer_t.Add, ["deep", "first", "second"], ["logit"])
dense(hugectr.Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"])
model.compile()
model.summary()
model.graph_to_json(graph_config_file="graph.json")
model.fit(max_iter=300, display=100, eval_interval=100, snapshot=1000000, snapshot_prefix=args.model)
model.save_params_to_files("after")
