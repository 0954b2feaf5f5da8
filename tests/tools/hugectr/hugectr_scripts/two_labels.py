"""A model of two labels, whose slots share vocabularies by sizes of 0."""
import hugectr

solver = hugectr.CreateSolver(max_eval_batches=2, batchsize_eval=64, batchsize=64, vvgpu=[[0]], repeat_dataset=False,
                              metrics_spec={hugectr.MetricsType.AUC: 1.0, hugectr.MetricsType.HitRate: 0.8},
                              use_mixed_precision=True, scaler=16348.0)
reader = hugectr.DataReaderParams(data_reader_type=hugectr.DataReaderType_t.Parquet, source=["train.txt"],
                                  eval_source="val.txt", check_type=hugectr.Check_t.Sum,
                                  slot_size_array=[30, 0, 0, 12])
optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.SGD, update_type=hugectr.Update_t.Local)
other = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.Ftrl, update_type=hugectr.Update_t.Local, beta=0.9,
                                lambda1=0.1, lambda2=0.2)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dims=[1, 1], label_names=["rich", "married"], dense_dim=0, dense_name="dense",
                        data_reader_sparse_param_array=[hugectr.DataReaderSparseParam("user", 1, True, 1),
                                                        hugectr.DataReaderSparseParam("goods", 1, True, 3)]))
for name, bottom in (("e_user", "user"), ("e_goods", "goods")):
    model.add(hugectr.SparseEmbedding(hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 1, 4, "mean", name,
                                      bottom, optimizer=other))
model.add(hugectr.DenseLayer(hugectr.Layer_t.Reshape, ["e_user"], ["r_user"], leading_dim=4))
model.add(hugectr.DenseLayer(hugectr.Layer_t.Reshape, ["e_goods"], ["r_goods"], leading_dim=12))
model.add(hugectr.DenseLayer(hugectr.Layer_t.Concat, ["r_user", "r_goods"], ["all"]))
model.add(hugectr.DenseLayer(hugectr.Layer_t.InnerProduct, ["all"], ["hidden"], num_output=8))
model.add(hugectr.DenseLayer(hugectr.Layer_t.PReLU_Dice, ["hidden"], ["dice"], elu_alpha=0.2, eps=1e-8))
for task in ("rich", "married"):
    model.add(hugectr.DenseLayer(hugectr.Layer_t.InnerProduct, ["dice"], ["z_" + task], num_output=1))
for task in ("married", "rich"):
    model.add(hugectr.DenseLayer(hugectr.Layer_t.BinaryCrossEntropyLoss, ["z_" + task, task], ["loss_" + task]))
model.compile(loss_names=["rich", "married"], loss_weights=[0.75, 0.25])
model.fit(num_epochs=3)
