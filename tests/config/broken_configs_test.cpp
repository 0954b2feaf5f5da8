// A table of the faults that the blocks of a config can have: the message names file, line and JSON
// path, what was expected and what was found. It leaves out misspelt keys, and values that the
// declaration of a key refuses by their type, range or choices: block_test.cpp has those, and
// docs/configs.md, which key_reference_test.cpp compares with the declarations, says which they are.
#include <set>

#include "tests/config/broken_config.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using config::parse_train_config;

// clang-format off
const std::vector<BrokenConfig> kRows = {
  // Top level.
  {"unknown block", "\"all_reduce\": {", "\"all_reduces\": {", "all_reduces", {"unknown key", "did you mean \"all_reduce\"?"}},
  {"unknown block far from all", "\"all_reduce\": {", "\"clairvoyance\": {", "clairvoyance", {"unknown key", "known keys: all_reduce, layers, optimizer, solver, strict"}},
  {"no solver", "\"solver\": {", "\"trainer\": {", "", {"missing key \"solver\""}, "{"},
  {"solver misspelt", "\"solver\": {", "\"sovler\": {", "sovler", {"unknown key", "did you mean \"solver\"?"}},
  {"solver not an object", "--set", "solver=3", "solver", {"expected an object, found 3"}},
  {"all_reduce ordered", "--set", "all_reduce={\"ordered\":false}", "all_reduce.ordered", {"expected algo NCCL with ordered false, found Oneshot"}},

  // Solver.
  {"lr_policy", "\"fixed\"", "\"poly\"", "solver.lr_policy", {"expected \"fixed\", found \"poly\""}},
  {"max_iter and num_epochs", "--set", "solver.num_epochs=2", "solver.num_epochs", {"expected max_iter or num_epochs, found both"}},
  {"batchsize not divisible", "\"gpu\": [0]", "\"gpu\": [0, 1, 2]", "solver.batchsize", {"expected a multiple of the 3 ranks in gpu, found 256"}, "\"batchsize\":"},
  {"batchsize_eval over ranks", "\"gpu\": [0],\n    \"batchsize\": 256,\n    \"batchsize_eval\": 512", "\"gpu\": [0, 1, 2],\n    \"batchsize\": 258,\n    \"batchsize_eval\": 512", "solver.batchsize_eval", {"expected a multiple of the 3 ranks in gpu, found 512"}, "\"batchsize_eval\""},
  {"eval without batches", "    \"eval_batches\": 4,\n", "", "solver.eval_interval", {"expected eval_batches >= 1 as eval_interval is 50, found none"}, "\"eval_interval\""},
  {"eval with no batches", "\"eval_batches\": 4", "\"eval_batches\": 0", "solver.eval_batches", {"expected eval_batches >= 1", "found 0"}},
  {"metric unknown", "\"AverageLoss\"", "\"Accuracy\"", "solver.eval_metrics[1]", {"expected \"AUC\", \"AUC:x\" with x in [0, 1], \"AverageLoss\", \"", "\"NDCG@k\" or \"HitRate@k\" with an integer k >= 1, found \"Accuracy\""}},
  {"metric at no place", "\"AverageLoss\"", "\"NDCG@0\"", "solver.eval_metrics[1]", {"an integer k >= 1, found \"NDCG@0\""}},
  {"metric at a fraction", "\"AverageLoss\"", "\"HitRate@2.5\"", "solver.eval_metrics[1]", {"an integer k >= 1, found \"HitRate@2.5\""}},
  {"metric of groups without them", "\"AverageLoss\"", "\"GAUC\"", "solver.eval_metrics", {"eval_group_slot, the slot whose key groups the samples, is required with GAUC"}},
  {"further metric twice", "\"AUC:0.99\", \"AverageLoss\"", "\"Calibration\", \"Calibration\"", "solver.eval_metrics[1]", {"expected each metric once, found \"Calibration\""}},
  {"groups without a metric", "--set", "solver.eval_group_slot=1", "solver.eval_group_slot", {"GAUC, NDCG@k or HitRate@k in eval_metrics is required with eval_group_slot"}},
  {"groups of no slot", "\"AverageLoss\"]", "\"GAUC\"], \"eval_group_slot\": 3", "solver.eval_group_slot", {"expected one of the 3 slots, counted from 0, found 3"}},
  {"evaluations by epochs and iterations", "--set", "solver.eval_every_epochs=1", "solver.eval_every_epochs", {"expected eval_interval or eval_every_epochs, found both"}},
  {"plateau without evaluations", "\"eval_interval\": 50", "\"eval_interval\": 0, \"lr_plateau\": {}", "solver.lr_plateau", {"eval_every_epochs or eval_interval is required with it"}},
  {"early stop without evaluations", "\"eval_interval\": 50", "\"eval_interval\": 0, \"early_stop\": {}", "solver.early_stop", {"eval_every_epochs or eval_interval is required with it"}},
  {"plateau of no metric", "--set", "solver.lr_plateau={\"monitor\":\"GAUC\"}", "solver.lr_plateau.monitor", {"expected one of \"AUC\", \"AverageLoss\", \"AUC-AverageLoss\", found \"GAUC\""}},
  {"samples and batches shuffled", "--set", "layers[0].shuffle_samples=true", "layers[0].shuffle_samples", {"expected shuffle_samples or async_param.shuffle, found both"}},
  {"metric of later versions", "\"AverageLoss\"", "\"HitRate:0.8\"", "solver.eval_metrics[1]", {"\"HitRate\" is known but not supported"}},
  {"AUC target above 1", "AUC:0.99", "AUC:80.25", "solver.eval_metrics[0]", {"x in [0, 1]", "found \"AUC:80.25\""}},
  {"AUC target not a number", "AUC:0.99", "AUC:0.9x", "solver.eval_metrics[0]", {"found \"AUC:0.9x\""}},
  {"AUC target missing", "AUC:0.99", "AUC:", "solver.eval_metrics[0]", {"found \"AUC:\""}},
  {"AUC target nan", "AUC:0.99", "AUC:nan", "solver.eval_metrics[0]", {"found \"AUC:nan\""}},
  {"metric twice", "\"AverageLoss\"", "\"AUC\"", "solver.eval_metrics[1]", {"expected each metric once, found \"AUC\""}},
  {"metrics not a list", "--set", "solver.eval_metrics=AUC", "solver.eval_metrics", {"expected a list of metrics, found \"AUC\""}},
  {"gpu not a list", "[0],", "0,", "solver.gpu", {"expected a non-empty list", "found 0"}},
  {"gpu empty", "[0],", "[],", "solver.gpu", {"expected a non-empty list", "found an empty list"}},
  {"gpu row empty", "[0],", "[[0], []],", "solver.gpu[1]", {"expected a non-empty list of GPU ids, found an empty list"}},
  {"gpu twice", "[0],", "[0, 1, 0],", "solver.gpu[2]", {"expected each GPU id once per node, found 0"}},
  {"gpu twice in a row", "[0],", "[[0, 1], [1, 1]],", "solver.gpu[1][1]", {"expected each GPU id once per node, found 1"}},
  {"gpu negative", "[0],", "[-1],", "solver.gpu[0]", {"expected a GPU id in [0, 65535], found -1"}},
  {"gpu a name", "[0],", "[\"cuda:0\"],", "solver.gpu[0]", {"expected a GPU id", "found \"cuda:0\""}},
  {"gpu mixed", "[0],", "[[0], 1],", "solver.gpu[1]", {"expected a non-empty list of GPU ids, found 1"}},
  {"gpu mixed the other way", "[0],", "[0, [1]],", "solver.gpu[1]", {"expected a GPU id", "found a list of 1"}},
  {"gpu rows ragged", "[0],", "[[0, 1], [0]], \"device_layout\": \"NodeFirst\",", "solver.gpu", {"expected rows of one length for device_layout \"NodeFirst\", found 2 and 1"}},
  {"mixed_precision", "--set", "solver.mixed_precision=1000", "solver.mixed_precision", {"expected a loss scale of 128, 256, 512 or 1024, found 1000"}},
  {"mixed_precision boolean", "--set", "solver.mixed_precision=true", "solver.mixed_precision", {"expected a loss scale", "found true"}},
  {"mixed_precision and TF32", "\"enable_overlap\": true", "\"mixed_precision\": 1024, \"enable_tf32_compute\": true", "solver.enable_tf32_compute", {"expected mixed_precision or enable_tf32_compute, found both"}},
  {"mixed_precision and fp32", "\"enable_overlap\": true", "\"mixed_precision\": 1024, \"precision\": \"fp32\"", "solver.precision", {"with mixed_precision, found \"fp32\""}},
  {"TF32 and bf16", "\"enable_overlap\": true", "\"enable_tf32_compute\": true, \"precision\": \"bf16\"", "solver.precision", {"expected \"fp32\" with enable_tf32_compute, found \"bf16\""}},
  {"memory for tables without a disk", "--set", R"(solver.embedding_memory={"host_gb":1})", "solver.embedding_memory", {"expected host_gb and disk together, found no disk"}},
  {"a disk for tables without memory", "--set", R"(solver.embedding_memory={"disk":".","gpu_gb":1})", "solver.embedding_memory", {"expected host_gb and disk together, found no host_gb"}},
  {"memory for tables nowhere", "--set", R"(solver.embedding_memory={"disk_gb":1})", "solver.embedding_memory", {"expected gpu_gb, or host_gb and disk, found neither"}},
  {"memory by another word", "--set", "solver.embedding_memory=all", "solver.embedding_memory", {"expected \"auto\" or an object, found \"all\""}},
  {"memory by a number", "--set", "solver.embedding_memory=8", "solver.embedding_memory", {"expected \"auto\" or an object, found 8"}},
  {"64-bit keys", "--set", "solver.input_key_type=I64", "solver.input_key_type", {"\"I64\" is known but not supported", "expected \"I32\""}},
  {"key type", "--set", "solver.input_key_type=I16", "solver.input_key_type", {"found \"I16\""}},
  {"initial weights", "--set", "solver.dense_model_file=/", "solver.dense_model_file", {"expected no dense_model_file, found /", "--init"}},
  {"initial tables", "--set", "solver.sparse_model_file=[\"none\", \"/\"]", "solver.sparse_model_file", {"expected no sparse_model_file, found /", "safetensors"}},
  {"auc_threshold and AUC:x", "--set", "solver.auc_threshold=0.8", "solver.auc_threshold", {"expected auc_threshold or \"AUC:x\" in eval_metrics, found both"}},
  {"auc_threshold without AUC", "\"AUC:0.99\", \"AverageLoss\"]", "\"AverageLoss\"], \"auc_threshold\": 0.5", "solver.auc_threshold", {"\"AUC\" in eval_metrics is required with auc_threshold"}},
  {"predictions without evaluations", "\"eval_interval\": 50", "\"export_predictions_prefix\": \"p_\"", "solver.export_predictions_prefix", {"eval_interval or eval_every_epochs is required with it"}},
  {"data of 2.0", "--set", "data={}", "data", {"known but not supported: it is of HugeCTR 2.0, whose configs have no Data layer; since 2.1 the first of the layers"}},
  {"inference", "--set", "inference={}", "inference", {"known but not supported", "serve and predict"}},
  {"eval lengths", "--set", "solver.max_eval_samples=4", "solver.max_eval_samples", {"expected either eval_batches or max_eval_samples, found both"}},
  {"eval with no samples", "\"eval_batches\": 4", "\"max_eval_samples\": 0", "solver.max_eval_samples", {"expected max_eval_samples >= 1", "found 0"}},
  {"Python name of gpu", "\"gpu\"", "\"vvgpu\"", "solver.vvgpu", {"known but not supported", "use gpu"}},
  {"Python overlap switch", "--set", "solver.overlap_lr=true", "solver.overlap_lr", {"known but not supported", "use enable_overlap"}},
  {"Python all-reduce switch", "--set", "solver.grouped_all_reduce=true", "solver.grouped_all_reduce", {"known but not supported", "all_reduce"}},

  // Optimizer.
  {"optimizer type missing", "    \"type\": \"SGD\",\n", "", "optimizer", {"missing key \"type\""}, "\"optimizer\""},
  {"optimizer type", "\"SGD\"", "\"RMSProp\"", "optimizer.type", {"expected one of \"SGD\", \"MomentumSGD\", \"Nesterov\", \"Adam\", \"AdamW\", \"AdaGrad\", \"RowWiseAdaGrad\", \"RowWiseAdam\", \"Ftrl\", found \"RMSProp\""}},
  {"both update types", "--set", "optimizer.global_update=false", "optimizer.global_update", {"expected update_type or global_update, found both"}},
  {"hparam of another type", "--set", "optimizer.adam_hparam={}", "optimizer.adam_hparam", {"expected only sgd_hparam with type \"SGD\", found adam_hparam"}},
  {"hparam does not fit the type", "\"SGD\"", "\"Adam\"", "optimizer.sgd_hparam", {"expected only adam_hparam with type \"Adam\", found sgd_hparam"}, "\"sgd_hparam\""},
  {"learning_rate missing", "      \"learning_rate\": 0.5,\n", "", "optimizer.sgd_hparam", {"missing key \"learning_rate\""}, "\"sgd_hparam\""},
  {"learning_rate negative", "0.5", "-0.5", "optimizer.sgd_hparam.learning_rate", {"expected a number >= 0, found -0.5"}},
  {"learning_rate a string", "0.5", "\"0.5\"", "optimizer.sgd_hparam.learning_rate", {"expected a number >= 0, found \"0.5\""}},
  {"decay of no length", "      \"decay_steps\": 90,\n", "", "optimizer.sgd_hparam.decay_start", {"decay_steps, the length of the decay, is required with decay_start"}, "\"decay_start\""},
  {"decay that never starts", "      \"decay_start\": 100,\n", "", "optimizer.sgd_hparam.decay_steps", {"decay_start is required with it"}, "\"decay_steps\""},
  {"decay that only ends", "      \"decay_start\": 100,\n      \"decay_steps\": 90,\n      \"decay_power\": 2.0,\n", "", "optimizer.sgd_hparam.end_lr", {"decay_start is required with it"}, "\"end_lr\""},
  {"decay to a higher rate", "0.125", "0.75", "optimizer.sgd_hparam.end_lr", {"expected at most learning_rate (0.5), found 0.75"}},
  {"key of another hparam", "\"atomic_update\": true", "\"momentum_factor\": 0.9", "optimizer.sgd_hparam.momentum_factor", {"unknown key"}},
  {"Adam without a rate", "--set", "optimizer={\"type\": \"Adam\", \"adam_hparam\": {\"beta1\": 0.9}}", "optimizer.adam_hparam", {"missing key \"learning_rate\""}},
  {"Adam with two rates", "--set", "optimizer={\"type\": \"Adam\", \"adam_hparam\": {\"learning_rate\": 1, \"alpha\": 1}}", "optimizer.adam_hparam.alpha", {"expected learning_rate or alpha, found both"}},
  {"AdamW with Adam's key", "--set", "optimizer={\"type\": \"AdamW\", \"adamw_hparam\": {\"learning_rate\": 1, \"corrected_epsilon\": true}}", "optimizer.adamw_hparam.corrected_epsilon", {"unknown key"}},
  {"weight decay with atomic updates", "\"atomic_update\": true", "\"atomic_update\": true, \"weight_decay\": 0.1", "optimizer.sgd_hparam.weight_decay", {"weight_decay cannot be combined with atomic_update"}},
  {"exponential decay without its rate", "\"decay_power\": 2.0", "\"decay\": \"exponential\"", "optimizer.sgd_hparam.decay", {"decay_rate, the factor of the decay, is required with it"}},
  {"power of another decay", "\"decay_power\": 2.0", "\"decay_power\": 2.0, \"decay\": \"cosine\"", "optimizer.sgd_hparam.decay_power", {"decay \"polynomial\" is required with decay_power"}},
  {"rate of another decay", "\"decay_power\": 2.0", "\"decay_rate\": 0.5", "optimizer.sgd_hparam.decay_rate", {"decay \"exponential\" is required with decay_rate"}},
  {"decay without a start", "--set", "optimizer={\"type\": \"AdamW\", \"adamw_hparam\": {\"learning_rate\": 1, \"decay\": \"cosine\"}}", "optimizer.adamw_hparam.decay", {"decay_start is required with it"}},
  {"both AdaGrad names", "--set", "optimizer={\"type\": \"AdaGrad\", \"adagrad_hparam\": {\"learning_rate\": 1, \"initial_accumulator\": 0, \"initial_accu_value\": 0}}", "optimizer.adagrad_hparam.initial_accu_value", {"expected initial_accumulator or initial_accu_value, found both"}},
  {"RowWiseAdaGrad with AdaGrad's block", "--set", "optimizer={\"type\": \"RowWiseAdaGrad\", \"adagrad_hparam\": {\"learning_rate\": 1}}", "optimizer.adagrad_hparam", {"expected only row_wise_adagrad_hparam with type \"RowWiseAdaGrad\", found adagrad_hparam"}},
  {"RowWiseAdaGrad without a rate", "--set", "optimizer={\"type\": \"RowWiseAdaGrad\", \"row_wise_adagrad_hparam\": {}}", "optimizer.row_wise_adagrad_hparam", {"missing key \"learning_rate\""}},
  {"RowWiseAdam with Adam's block", "--set", "optimizer={\"type\": \"RowWiseAdam\", \"adam_hparam\": {\"learning_rate\": 1}}", "optimizer.adam_hparam", {"expected only row_wise_adam_hparam with type \"RowWiseAdam\", found adam_hparam"}},
  {"RowWiseAdam without a rate", "--set", "optimizer={\"type\": \"RowWiseAdam\", \"row_wise_adam_hparam\": {\"alpha\": 1}}", "optimizer.row_wise_adam_hparam", {"missing key \"learning_rate\""}},
  {"both RowWiseAdaGrad names", "--set", "optimizer={\"type\": \"RowWiseAdaGrad\", \"row_wise_adagrad_hparam\": {\"learning_rate\": 1, \"initial_accumulator\": 0, \"initial_accu_value\": 0}}", "optimizer.row_wise_adagrad_hparam.initial_accu_value", {"expected initial_accumulator or initial_accu_value, found both"}},
  {"Ftrl without lambda1", "--set", "optimizer={\"type\": \"Ftrl\", \"ftrl_hparam\": {\"learning_rate\": 1, \"beta\": 1, \"lambda2\": 0}}", "optimizer.ftrl_hparam", {"missing key \"lambda1\""}},
  {"Ftrl rate of 0", "--set", "optimizer={\"type\": \"Ftrl\", \"ftrl_hparam\": {\"learning_rate\": 0, \"beta\": 1, \"lambda1\": 0, \"lambda2\": 0}}", "optimizer.ftrl_hparam.learning_rate", {"expected a number > 0, found 0"}},
  {"Ftrl rate that decays to 0", "--set", "optimizer={\"type\": \"Ftrl\", \"ftrl_hparam\": {\"learning_rate\": 1, \"beta\": 1, \"lambda1\": 0, \"lambda2\": 0, \"decay_start\": 5, \"end_lr\": 0}}", "optimizer.ftrl_hparam.end_lr", {"expected a number > 0, found 0"}},

  // Layers.
  {"layers missing", "\"layers\": [", "\"net\": [", "", {"missing key \"layers\""}, "{"},
  {"layers empty", "--set", "layers=[]", "layers", {"expected a non-empty list of layers, found an empty list"}},
  {"layers not a list", "--set", "layers={}", "layers", {"expected a non-empty list of layers, found an object"}},
  {"layer not an object", "--set", "layers[1]=fc", "layers[1]", {"expected an object, found \"fc\""}},
  {"layer without type", "      \"type\": \"InnerProduct\",\n", "", "layers[1]", {"missing key \"type\""}, "    {\n      \"name\": \"fc\""},
  {"layer type no string", "\"InnerProduct\"", "12", "layers[1].type", {"expected a string, found 12"}},
  {"second Data layer", "\"InnerProduct\"", "\"Data\"", "layers[1].type", {"only layers[0] is the Data layer", "found \"Data\""}},
  {"first layer not Data", "\"type\": \"Data\"", "\"type\": \"ReLU\"", "layers[0].type", {"expected \"Data\", found \"ReLU\""}},

  // Data layer.
  {"format missing", "      \"format\": \"RawAsync\",\n", "", "layers[0].async_param.shuffle", {"expected false, as Norm files are read in order, found true"}, "\"shuffle\": true"},
  {"Norm shuffled", "\"RawAsync\"", "\"Norm\"", "layers[0].async_param.shuffle", {"expected false, as Norm files are read in order, found true"}, "\"shuffle\": true"},
  {"Parquet shuffled", "\"RawAsync\"", "\"Parquet\"", "layers[0].async_param.shuffle", {"expected false, as Parquet files are read in order, found true"}, "\"shuffle\": true"},
  {"columns of raw data", "--set", R"(layers.data.columns={"labels": ["a"], "cats": ["b"]})", "layers[0].columns", {"format \"Parquet\" is required with columns, found RawAsync"}, ""},
  {"format", "\"RawAsync\"", "\"CSV\"", "layers[0].format", {"expected one of \"Raw\", \"RawAsync\"", "found \"CSV\""}},
  {"Norm without check", "\"RawAsync\",\n      \"source\": \"train.bin\",\n      \"eval_source\": \"val.bin\",\n      \"check\": \"None\",", "\"Norm\",\n      \"source\": \"train.bin\",\n      \"eval_source\": \"val.bin\",", "layers[0]", {"missing key \"check\""}, "    {\n      \"name\": \"data\""},
  {"source missing", "      \"source\": \"train.bin\",\n", "", "layers[0]", {"missing key \"source\""}, "    {\n      \"name\": \"data\""},
  {"eval_source missing", "      \"eval_source\": \"val.bin\",\n", "", "layers[0]", {"missing key \"eval_source\", which solver.eval_interval needs"}, "    {\n      \"name\": \"data\""},
  {"check Sum", "\"check\": \"None\"", "\"check\": \"Sum\"", "layers[0].check", {"expected \"None\", as the format RawAsync has no checksums, found \"Sum\""}},
  {"slot sizes too few", "[100, 50, 7]", "[100, 50]", "layers[0].slot_size_array", {"expected a list of slot_num (3) sizes, found 2"}},
  {"slot size negative", "[100, 50, 7]", "[100, -1, 7]", "layers[0].slot_size_array[1]", {"expected an integer in [0, 4294967295], found -1"}},
  {"last slot size zero", "[100, 50, 7]", "[100, 50, 0]", "layers[0].slot_size_array", {"expected a size above 0 for the last slot, found 0"}},
  {"slot size beyond 32 bits", "[100, 50, 7]", "[100, 50, 4294967296]", "layers[0].slot_size_array[2]", {"found 4294967296"}},
  {"slot sizes no list", "[100, 50, 7]", "157", "layers[0].slot_size_array", {"expected a list of integers, or the path of a manifest, found 157"}},
  {"slot sizes from nowhere", "[100, 50, 7]", "\"no_such_manifest.json\"", "layers[0].slot_size_array", {"no_such_manifest.json: expected a manifest, found no such file"}},
  {"slot sizes from no name", "[100, 50, 7]", "\"\"", "layers[0].slot_size_array", {"expected a list of integers, or the path of a manifest, found \"\""}},
  {"slot sizes from a folder", "[100, 50, 7]", "\"/\"", "layers[0].slot_size_array", {"/: expected a manifest, found no such file"}},
  {"sparse empty", "--set", "layers.data.sparse=[]", "layers[0].sparse", {"expected a list of sparse inputs, found an empty list"}},
  {"sparse no list", "--set", "layers.data.sparse={}", "layers[0].sparse", {"expected a list of sparse inputs, found an object"}},
  {"second sparse input", "--set", "layers.data.sparse=[{\"top\": \"k\", \"type\": \"LocalizedSlot\", \"max_feature_num_per_sample\": 3, \"slot_num\": 3}, {}]", "layers[0].sparse[1]", {"missing key \"top\""}},
  {"two sparse inputs of one name", "--set", "layers.data.sparse=[{\"top\": \"k\", \"type\": \"LocalizedSlot\", \"max_feature_num_per_sample\": 2, \"slot_num\": 2}, {\"top\": \"k\", \"type\": \"LocalizedSlot\", \"max_feature_num_per_sample\": 1, \"slot_num\": 1}]", "layers[0].sparse[1].top", {"expected a name that no other sparse input has, found \"k\""}},
  {"too few features", "\"max_feature_num_per_sample\": 3", "\"max_feature_num_per_sample\": 2", "layers[0].sparse[0].max_feature_num_per_sample", {"expected an integer in [3, 16777216], found 2"}},
  {"multi-hot", "\"max_nnz\": 1", "\"max_nnz\": 2", "layers[0].sparse[0].max_nnz", {"expected 1, or nnz_per_slot", "fixed number of keys, found 2"}},
  {"multi-hot by default", "\"max_feature_num_per_sample\": 3,\n          \"max_nnz\": 1", "\"max_feature_num_per_sample\": 30", "layers[0].sparse[0].max_feature_num_per_sample", {"expected slot_num (3), or \"max_nnz\": 1, found 30"}},
  {"nnz_per_slot zero", "\"max_nnz\": 1", "\"nnz_per_slot\": 0", "layers[0].sparse[0].nnz_per_slot", {"expected an integer in [1, 1048576], found 0"}},
  {"nnz_per_slot not a number", "\"max_nnz\": 1", "\"nnz_per_slot\": \"3\"", "layers[0].sparse[0].nnz_per_slot", {"expected an integer in [1, 1048576], found \"3\""}},
  {"nnz_per_slot of two slots", "\"max_nnz\": 1", "\"nnz_per_slot\": [1, 1]", "layers[0].sparse[0].nnz_per_slot", {"expected one number, or one for each of the 3 slots, found a list of 2"}},
  {"nnz_per_slot of a slot", "\"max_nnz\": 1", "\"nnz_per_slot\": [1, -1, 1]", "layers[0].sparse[0].nnz_per_slot[1]", {"expected an integer in [1, 1048576], found -1"}},
  {"nnz_per_slot too many", "\"max_nnz\": 1", "\"nnz_per_slot\": 1048576", "layers[0].sparse[0].nnz_per_slot", {"expected at most 1048576 keys in all slots together, found 3145728"}},
  {"nnz_per_slot and max_nnz", "\"max_nnz\": 1", "\"max_nnz\": 2, \"nnz_per_slot\": [1, 3, 1]", "layers[0].sparse[0].max_nnz", {"expected 3, the maximum of nnz_per_slot, found 2"}},
  {"features fewer than keys", "\"max_nnz\": 1", "\"nnz_per_slot\": [1, 3, 1]", "layers[0].sparse[0].max_feature_num_per_sample", {"expected at least 5, the sum of nnz_per_slot, found 3"}, "\"max_feature_num"},
  {"dense top taken", "\"top\": \"x\",\n        \"dense", "\"top\": \"y\",\n        \"dense", "layers[0].dense.top", {"expected a name that is not the label's, found \"y\""}},
  {"sparse top taken", "\"top\": \"k\"", "\"top\": \"x\"", "layers[0].sparse[0].top", {"expected a name that is neither the label's nor the dense input's, found \"x\""}},
  {"io_block_size", "\"io_block_size\": 4096", "\"io_block_size\": 4000", "layers[0].async_param.io_block_size", {"expected a multiple of io_alignment (512)", "found 4000"}},
  {"io_block_size zero", "\"io_block_size\": 4096", "\"io_block_size\": 0", "layers[0].async_param.io_block_size", {"found 0"}},
  {"io_alignment small", "\"io_alignment\": 512", "\"io_alignment\": 256", "layers[0].async_param.io_alignment", {"expected a power of two >= 512, found 256"}},
  {"io_alignment odd", "\"io_alignment\": 512", "\"io_alignment\": 1000", "layers[0].async_param.io_alignment", {"expected a power of two >= 512, found 1000"}},
  {"oov_key without its policy", "\"check\": \"None\"", "\"check\": \"None\", \"key_policy\": \"clamp\", \"oov_key\": 1", "layers[0].oov_key", {"key_policy \"oov\" is required with oov_key"}},
  {"global keys of raw data", "\"check\": \"None\"", "\"check\": \"None\", \"keys\": \"global\"", "layers[0].keys", {"expected \"local\", as keys of RawAsync files are local to their slot, found \"global\""}},
};
// clang-format on

}  // namespace

TEST_CASE("The config that the table breaks is valid") {
  const auto config = parse_train_config(kMinimalConfig, "minimal.json", {});
  CHECK(config->layers.size() == 2);
}

TEST_CASE("Every broken config is named with line, path, expected and found") {
  std::set<std::string> names;
  for (const BrokenConfig& row : kRows) {
    CHECK(names.insert(row.name).second);
    CHECK(!row.says.empty());
    check_broken(row, kMinimalConfig, [](const std::string& text, const auto& overrides) {
      parse_train_config(text, "minimal.json", overrides);
    });
  }
}

TEST_CASE("Every fault of a multi-hot config is named") {
  std::string valid = kMinimalConfig;
  const std::string one = "\"max_feature_num_per_sample\": 3,\n          \"max_nnz\": 1";
  valid.replace(valid.find(one), one.size(), "\"nnz_per_slot\": [4, 1, 2]");
  const auto load = [](const std::string& text, const std::vector<std::string>& overrides) {
    return parse_train_config(text, "minimal.json", overrides);
  };
  load(valid, {});
  // clang-format off
  const BrokenConfig row = {"not the reader", "\"shuffle\": true", "\"multi_hot_reader\": false", "layers[0].async_param.multi_hot_reader", {"expected true, as nnz_per_slot has slots of several keys, found false"}};
  // clang-format on
  check_broken(row, valid, load);
  CHECK(message_of<ConfigError>([&] {
          load(valid, {"layers.data.float_label_dense=true",
                       "layers.data.async_param.is_dense_float=false"});
        }) ==
        "--set layers.data.async_param.is_dense_float: layers[0].async_param.is_dense_float: "
        "expected true with \"float_label_dense\": true, found false");
}

TEST_CASE("Every fault of a Norm config is named") {
  std::string valid = kMinimalConfig;
  const auto replace = [&](const std::string& from, const std::string& to) {
    valid.replace(valid.find(from), from.size(), to);
  };
  replace("\"RawAsync\"", "\"Norm\"");
  replace("\"check\": \"None\"", "\"check\": \"Sum\"");
  replace("\"shuffle\": true", "\"shuffle\": false");
  replace("\"max_nnz\": 1", "\"max_nnz\": 4");
  const auto load = [](const std::string& text, const std::vector<std::string>& overrides) {
    return parse_train_config(text, "minimal.json", overrides);
  };
  load(valid, {});
  // clang-format off
  const std::vector<BrokenConfig> rows = {
    {"too many keys", "\"max_nnz\": 4", "\"max_nnz\": 500000", "layers[0].sparse[0].max_nnz", {"expected at most 1048576 keys in all slots together, found 3 slots of up to 500000 keys"}},
    {"too many features", "\"max_feature_num_per_sample\": 3,\n          \"max_nnz\": 4", "\"max_feature_num_per_sample\": 500002", "layers[0].sparse[0].max_feature_num_per_sample", {"found 3 slots of up to 500000 keys; set max_nnz or nnz_per_slot to the number of keys per slot"}},
    {"fixed at what length", "\"max_nnz\": 4", "\"max_nnz\": 4, \"is_fixed_length\": true", "layers[0].sparse[0].is_fixed_length", {"nnz_per_slot is required with is_fixed_length"}},
    {"check", "\"Sum\"", "\"CRC\"", "layers[0].check", {"expected one of \"None\", \"Sum\", found \"CRC\""}},
    {"keys of other inputs", "--set", "layers.data.sparse=[{\"top\": \"k\", \"type\": \"LocalizedSlot\", \"max_feature_num_per_sample\": 3, \"max_nnz\": 600000, \"slot_num\": 1}, {\"top\": \"k2\", \"type\": \"LocalizedSlot\", \"max_feature_num_per_sample\": 1, \"max_nnz\": 600000, \"slot_num\": 1}]", "layers[0].sparse", {"expected at most 1048576 keys in all inputs together, found 1200000"}},
  };
  // clang-format on
  for (const BrokenConfig& row : rows) check_broken(row, valid, load);
}

TEST_CASE("Unknown keys of one block are reported together") {
  std::string message;
  try {
    parse_train_config(kMinimalConfig, "minimal.json",
                       {"solver.overlap=true", "solver.shuffel=1", "solver.max_itr=3"});
  } catch (const ConfigError& error) {
    message = error.what();
  }
  CHECK(message.find("--set solver.overlap: solver.overlap: unknown key") == 0);
  check_contains(message, {"\n--set solver.shuffel: solver.shuffel: unknown key",
                           "\n--set solver.max_itr: solver.max_itr: unknown key; did you mean "
                           "\"max_iter\"?"});
}

TEST_CASE("Every prefix of a valid config is a ConfigError") {
  const std::string text = kMinimalConfig;
  const size_t end = text.rfind('}');
  for (size_t length = 0; length <= end; ++length) {
    INFO("length " << length);
    CHECK_THROWS_AS(parse_train_config(text.substr(0, length), "cut.json", {}), ConfigError);
  }
  CHECK_NOTHROW(parse_train_config(text.substr(0, end + 1), "whole.json", {}));
}

TEST_CASE("Every one-byte change of a valid config parses or is a ConfigError") {
  const std::string text = kMinimalConfig;
  size_t refused = 0, accepted = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = "\"{}[],:0-x\\\n\xFF\0"[i % 13];
    try {
      parse_train_config(changed, "changed.json", {});
      ++accepted;
    } catch (const ConfigError&) {
      ++refused;  // any other exception fails the test
    }
  }
  CHECK(refused > accepted);
  CHECK(refused + accepted == text.size());
}

}  // namespace hlite::test
