"""DLRM with an embedding collection, one lookup for all tables or one for each: collection.py [--each]."""
import argparse

import hugectr
import mlperf_logger_that_is_not_installed as logger
from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("--each", action="store_true")
parser.add_argument("--dynamic", action="store_true")
parser.add_argument("--unknown_seed", action="store_true")
args = parser.parse_args()
ROWS, HOTNESS = [100, 20, 7, 50], [1, 3, 2, 1]
logger.start(key=logger.INIT_START)
comm = MPI.COMM_WORLD


class Callback(hugectr.TrainingCallback):
    def on_training_start(self):
        logger.event("start")


solver = hugectr.CreateSolver(
    model_name="dlrm", seed=logger.seed() if args.unknown_seed else 3, max_eval_batches=2, batchsize_eval=128,
    batchsize=64, lr=0.05, warmup_steps=10, decay_start=20, decay_steps=30, decay_power=2.0, end_lr=0.0,
    vvgpu=[list(range(2))] * comm.Get_size(), repeat_dataset=True, use_mixed_precision=False,
    metrics_spec={hugectr.MetricsType.AUC: 0.8, hugectr.MetricsType.AverageLoss: 0.0},
    all_reduce_algo=hugectr.AllReduceAlgo.OneShot, grouped_all_reduce=True, train_inter_iteration_overlap=True,
    use_embedding_collection=True, training_callbacks=[Callback()])
optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.AdaGrad, update_type=hugectr.Update_t.Local,
                                    initial_accu_value=0.1, epsilon=1e-8)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.RawAsync, source=["train.bin"], eval_source="val.bin",
    check_type=hugectr.Check_t.Non, num_samples=6400, eval_num_samples=256, cache_eval_data=1, slot_size_array=ROWS,
    async_param=hugectr.AsyncParam(num_threads=1, num_batches_per_thread=4, shuffle=False, multi_hot_reader=True,
                                   is_dense_float=True))
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim=1, label_name="label", dense_dim=5, dense_name="dense",
                        data_reader_sparse_param_array=[hugectr.DataReaderSparseParam(f"data{i}", hotness, True, 1)
                                                        for i, hotness in enumerate(HOTNESS)]))
tables = [hugectr.EmbeddingTableConfig(name=str(i), max_vocabulary_size=-1 if args.dynamic else rows, ev_size=8)
          for i, rows in enumerate(ROWS)]
collection = hugectr.EmbeddingCollectionConfig(use_exclusive_keys=True,
                                               comm_strategy=hugectr.CommunicationStrategy.Uniform)
if args.each:
    for i, table in enumerate(tables):
        collection.embedding_lookup(table_config=table, bottom_name=f"data{i}", top_name=f"vec{i}", combiner="sum")
else:
    collection.embedding_lookup(table_config=tables, bottom_name=[f"data{i}" for i in range(4)], top_name="vectors",
                                combiner=["sum"] * 4)
collection.shard(shard_matrix=[["0", "1"], ["2", "3"]], shard_strategy=[("mp", ["0", "1", "2", "3"])])
model.add(collection)
if args.each:
    model.add(hugectr.DenseLayer(layer_type=hugectr.Layer_t.Concat, bottom_names=[f"vec{i}" for i in range(4)],
                                 top_names=["vectors"]))
model.add(hugectr.DenseLayer(layer_type=hugectr.Layer_t.MLP, bottom_names=["dense"], top_names=["mlp1"],
                             num_outputs=[16, 8], act_type=hugectr.Activation_t.Relu,
                             compute_config=hugectr.DenseLayerComputeConfig(async_wgrad=True, fuse_wb=False)))
model.add(hugectr.DenseLayer(layer_type=hugectr.Layer_t.Interaction, bottom_names=["mlp1", "vectors"],
                             top_names=["interaction1", "interaction_grad"]))
model.add(hugectr.DenseLayer(layer_type=hugectr.Layer_t.MLP, bottom_names=["interaction1", "interaction_grad"],
                             top_names=["mlp2"], num_outputs=[16, 1],
                             activations=[hugectr.Activation_t.Relu, hugectr.Activation_t.Non]))
model.add(hugectr.DenseLayer(layer_type=hugectr.Layer_t.BinaryCrossEntropyLoss, bottom_names=["mlp2", "label"],
                             top_names=["loss"]))
model.compile()
model.summary()
logger.event(key=logger.TRAIN_SAMPLES, value=logger.rows("/nowhere"), metadata={logger.EPOCH: 0.0})
model.fit(max_iter=100, display=10, eval_interval=50, snapshot=1000, snapshot_prefix="dlrm")
