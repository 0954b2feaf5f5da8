// Mix-ups whose shapes fit, by luck or because nothing but numbers differs: each is refused, or
// warned of, by name.
#include "tests/end_to_end/mix_ups.h"
#include "tests/support/errors.h"

#include <functional>

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
constexpr int kDone = 0, kConfig = 2, kData = 3;  // exit codes; done: with a warning

struct MixUp {
  const char* what;
  int code;
  Words command;
  Words words;  // in what it says
  std::function<void(const MixUps&)> first = {};
};

Words set(const std::string& change) { return {"--set", change}; }

Words both(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Words text(const std::string& prepared, const std::string& input, Words more = {}) {
  return MixUps::predict(
      both({"--model", "model", "--prepared", prepared, "--input", input}, more));
}

Words records(const std::string& input, Words more = {}) {
  return MixUps::predict(both({"--model", "model", "--input", input}, more));
}

Words check(const std::string& change, const std::string& folder = "a",
            const std::string& ending = ".bin") {
  return MixUps::train(folder + "/train" + ending, folder + "/val" + ending,
                       both(set(change), {"--check"}));
}

// A copy of `folder` as "m", in which a file is replaced.
auto with_file(const std::string& folder, const std::string& file, const std::string& by) {
  return [=](const MixUps& run) {
    run.copy(folder, "m");
    fs::copy(run / by, run / ("m/" + file), fs::copy_options::overwrite_existing);
  };
}

// The lines of test.csv, changed.
auto with_lines(const std::string& what, const std::string& by) {
  return [=](const MixUps& run) {
    write_text(run / "new.csv", replaced(read_text(run / "test.csv"), what, by));
  };
}

// Column `column` (from 0) of text becomes `change` of it.
std::string with_column(const std::string& lines, size_t column,
                        const std::function<std::string(const std::string&)>& change) {
  std::string out;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    size_t begin = at;
    for (size_t c = 0; c < column; ++c) begin = lines.find(',', begin) + 1;
    const size_t stop = std::min(lines.find(',', begin), end);
    const std::string field = lines.substr(begin, stop - begin);
    out += lines.substr(at, begin - at) + (at == 0 ? field : change(field)) +
           lines.substr(stop, end + 1 - stop);
    at = end + 1;
  }
  return out;
}

auto with_changed(size_t column, std::function<std::string(const std::string&)> change) {
  return [=](const MixUps& run) {
    write_text(run / "new.csv", with_column(read_text(run / "test.csv"), column, change));
  };
}

// clang-format off
std::vector<MixUp> of_predictions() {
  return {
      {"text by another preparation, of the same sizes", kData,
       text("b", "test.csv"), {"b/manifest.json", "model was trained on", "vocabulary of slots user, item, kind"}},
      {"the same, for exported weights", kData,
       MixUps::predict({"--model", "model.safetensors", "--config", "config.json", "--prepared", "b", "--input", "test.csv"}),
       {"b/manifest.json", "model.safetensors was trained on", "vocabulary of slots"}},
      {"records of another preparation", kData,
       records("b/test.bin"), {"b/manifest.json", "model was trained on", "vocabulary of slots user, item, kind"}},
      {"the same, on purpose", kDone,
       records("b/test.bin", {"--allow-other-data"}), {"warning", "b/manifest.json", "vocabulary of slots user, item, kind"}},
      {"two slots exchanged, whose tables have the same sizes", kData,
       text("order", "test.csv"), {"order of slots: user, item, here item, user"}},
      {"a number that is not transformed", kData, text("none", "test.csv"), {"transform of dense feature age (standardize", "here none)"}},
      {"a number that is transformed by the statistics of other rows", kData,
       text("older", "test.csv"), {"transform of dense feature age (standardize"}},
      {"the label the other way round", kData, text("label", "test.csv"), {"value of rule label (1 for \"yes\"", "here 1 for \"no\""}},
      {"another text for missing values", kData, text("missing", "test.csv"), {"value of rule missing (\"\", here \"?\")"}},
      {"records whose manifest is not there", kDone,
       records("alone.bin"),
       {"alone.bin: no manifest says how it was prepared", "model was trained on"}, [](const MixUps& run) { fs::copy(run / "b/test.bin", run / "alone.bin"); }},
      {"a test set that is not the one of its manifest", kData,
       records("m/test.bin"), {"m/test.bin", "m/manifest.json", "prepare it again"}, with_file("a", "test.bin", "b/test.bin")},
      {"ids written as numbers", kDone,
       text("a", "new.csv"),
       {"warning", "new.csv: many categories are unknown: user 100.0 % (0.0 % in training)"}, with_changed(3, [](const std::string& user) { return std::to_string(std::stoi(user.substr(1))); })},
      {"ids written as numbers, where that is refused", kData,
       text("a", "new.csv", {"--max-unknown", "0.5"}), {"new.csv: column user: expected at most 50.0 %", "found 100.0 % of 128 rows"}},
      {"categories in capitals", kDone,
       text("a", "new.csv"), {"warning", "unknown: item 100.0 %"}, with_changed(4, [](const std::string& item) { return "I" + item.substr(1); })},
      {"integers that became decimals are the same categories", kDone,
       text("a", "new.csv"), {"of all categories 0.0 % unknown"}, with_changed(5, [](const std::string& kind) { return kind + ".0"; })},
      {"integers that became other numbers", kData,
       text("a", "new.csv"),
       {"new.csv:2: column 5 (kind): expected an integer, the type of the column, found"}, with_changed(5, [](const std::string& kind) { return kind + ".5"; })},
      {"blanks around the fields", kDone,
       text("a", "new.csv"), {"warning", "unknown: item 100.0 %"}, with_changed(4, [](const std::string& item) { return " " + item; })},
      {"an empty column", kDone,
       text("a", "new.csv"),
       {"warning", "new.csv: many categories are missing: user 100.0 % (0.0 % in training)"}, with_changed(3, [](const std::string&) { return ""; })},
      {"two columns exchanged, without a header", kDone,
       MixUps::predict({"--model", "model", "--prepared", "plain", "--input", "new.csv"}), {"warning", "unknown: user 100.0 %", "item 100.0 %"},
       [](const MixUps& run) {
         const std::string lines = read_text(run / "plain.csv");
         std::string out;
         for (size_t at = 0; at < lines.size();) {
           const size_t user = lines.find(",u", at) + 1, item = lines.find(',', user) + 1,
                        kind = lines.find(',', item) + 1, end = lines.find('\n', at) + 1;
           out += lines.substr(at, user - at) + lines.substr(item, kind - item) +
                  lines.substr(user, item - user) + lines.substr(kind, end - kind);
           at = end;
         }
         write_text(run / "new.csv", out);
       }},
      {"columns exchanged, a number in the place of another field", kData,
       MixUps::predict({"--model", "model", "--prepared", "plain", "--input", "new.csv"}),
       {"new.csv:1: column", "found \"u0"}, [](const MixUps& run) { write_text(run / "new.csv", "yes,u00003,12,40,i07,2\n"); }},
      {"a header that lacks a column", kData,
       text("a", "new.csv"), {"new.csv:1: expected a column \"user\" in the header", "customer"}, with_lines("user", "customer")},
      {"lines with a label where none is expected", kData,
       MixUps::predict({"--model", "model", "--prepared", "plain", "--input", "plain.csv", "--no-label"}),
       {"plain.csv:1: column 0 (age): expected a finite number, found"}},
      {"text in the place of records", kData, records("test.csv"), {"test.csv: 3256 bytes is no multiple of the record size 24"}},
      {"a preparation whose vocabulary is another's", kData,
       text("m", "test.csv"),
       {"m/vocabulary/00_user.txt: expected the checksum of manifest.json"}, with_file("a", "vocabulary/00_user.txt", "b/vocabulary/00_user.txt")},
      {"a checkpoint with the weights of another", kData,
       MixUps::predict({"--model", "m", "--prepared", "a", "--input", "test.csv"}),
       {"m/weights.safetensors: it is damaged: expected checksum"}, with_file("model", "weights.safetensors", "model_b/weights.safetensors")},
      {"a checkpoint with the manifest of another", kData,
       MixUps::predict({"--model", "m", "--prepared", "b", "--input", "test.csv"}),
       {"m/weights.safetensors: it is damaged: expected checksum"}, with_file("model", "manifest.json", "model_b/manifest.json")},
      {"exported weights with the config of another model", kData,
       MixUps::predict({"--model", "model.safetensors", "--config", "config.json", "--set", "layers.t1.name=\"top\"", "--prepared", "a", "--input", "test.csv"}),
       {"its tensors are not those of the model", "top.weight"}},
  };
}

std::vector<MixUp> of_preparations() {
  const auto prepare = [](const char* out, const char* val, Words more = {}) {
    return both({HLITE_CSV_PREP, "--schema", "a.schema.json", "--train", "train.csv", "--val", val,
                 "--out", out, "--threads", "1", "--quiet"},
                more);
  };
  const auto numbers = with_changed(
      3, [](const std::string& user) { return std::to_string(std::stoi(user.substr(1))); });
  return {
      {"a preparation into the folder of another", kConfig,
       prepare("b", "val.csv"), {"b: expected no files of an earlier run, found", "train.bin", "--force"}},
      {"one file for training and validation", kConfig,
       prepare("same", "train.csv"), {"train.csv: expected a file for training or for validation"}},
      {"validation rows with ids written as numbers", kDone,
       prepare("numbers", "new.csv"), {"warning", "val: many categories are unknown: user 100.0 %"}, numbers},
      {"the same, where that is refused", kData,
       prepare("refused", "new.csv", {"--max-unknown", "0.5"}), {"val: column user: expected at most 50.0 %"}},
      {"validation rows without a column", kData,
       prepare("lacking", "new.csv"), {"new.csv:1: expected a column \"user\" in the header"}, with_lines("user", "customer")},
  };
}

std::vector<MixUp> of_training() {
  const auto train = [](const char* source, const char* eval, Words more = {}) {
    return MixUps::train(source, eval, std::move(more));
  };
  return {
      {"an evaluation set of another preparation", kData,
       train("a/train.bin", "b/val.bin"), {"b/manifest.json", "a/manifest.json", "vocabulary of slots user, item, kind"}},
      {"a test set of another preparation", kData,
       train("a/train.bin", "a/val.bin", set("layers.data.test_source=b/test.bin")),
       {"b/manifest.json", "a/manifest.json", "vocabulary of slots user, item, kind"}},
      {"the same, by --check", kData, train("a/train.bin", "order/val.bin", {"--check"}), {"order/manifest.json", "order of slots"}},
      {"multi-hot lists by another seed", kData,
       train("lists/train.bin", "lists2/val.bin"), {"lists2/manifest.json", "value of rule multi-hot lists (2,1,1, seed 0, here 2,1,1, seed 1)"}},
      {"hashes of tokens in another range", kData,
       train("hash/train.bin", "hash2/val.bin"), {"hash2/manifest.json", "value of rule tokens (modulo 0, here modulo 1000)"},
       [](const MixUps& run) {
         run.must_run({HLITE_CRITEO_SYNTH, "--train", "60", "--test", "40", "--out", "synth"});
         for (const char* out : {"hash", "hash2"})
           run.must_run({HLITE_CRITEO_PREP, "--train", "synth.train.tsv", "--val", "synth.test.tsv",
                         "--hash", "50", "--max-ind-range",
                         out == std::string("hash") ? "0" : "1000", "--out", out, "--quiet",
                         "--threads", "1"});
       }},
      {"an evaluation set left from an older preparation, which the manifest does not name", kDone,
       train("m/train.bin", "m/left.bin"), {"warning", "m/left.bin: ", "m/manifest.json does not name this file"}, with_file("a", "left.bin", "b/val.bin")},
      {"an older evaluation set of the same size", kData,
       train("m/train.bin", "m/val.bin"),
       {"m/val.bin: expected a sample of its bytes", "m/manifest.json", "prepare it again"}, with_file("a", "val.bin", "b/val.bin")},
      {"an older training set of the same size, by --check", kData,
       train("m/train.bin", "m/val.bin", {"--check"}),
       {"m/train.bin: expected a sample of its bytes", "m/manifest.json"}, with_file("a", "train.bin", "b/train.bin")},
      {"a training set that is cut short", kData,
       train("m/train.bin", "m/val.bin"), {"m/train.bin: expected 9600 bytes, as m/manifest.json says, found 4800", "cut short"},
       [](const MixUps& run) {
         run.copy("a", "m");
         fs::resize_file(run / "m/train.bin", 4800);
       }},
      {"the evaluation set as training data", kDone,
       train("a/val.bin", "a/test.bin"), {"warning", "source a/val.bin: a/manifest.json calls it the split \"val\""}},
      {"training and evaluation data exchanged", kDone,
       train("a/val.bin", "a/train.bin"), {"warning", "source a/val.bin", "eval_source a/train.bin: a/manifest.json calls it the split \"train\""}},
      {"the training data for evaluation", kDone,
       train("a/train.bin", "a/train.bin"), {"warning", "eval_source a/train.bin: this is the training data itself"}},
      {"table sizes in another order", kData,
       check("layers.emb.sparse_embedding_hparam.slot_size_array=[31,6,31]"),
       {"a/train.bin: expected 31 rows for the table of slot 1 (item), as a/manifest.json says, found 6 (the same sizes in another order)", "\"slot_size_array\": \"a/manifest.json\""}},
      {"the table sizes of another preparation", kData,
       check("layers.emb.sparse_embedding_hparam.slot_size_array=rare/manifest.json"),
       {"a/train.bin: expected 31 rows for the table of slot 0 (user)", "as a/manifest.json says"}},
      {"floats for integers", kData,
       check("layers.data.float_label_dense=false"), {"a/train.bin: expected float32 labels and float32 dense features", "found int32"}},
      {"one number more and one slot less, which is the same record", kData,
       MixUps::train("a/train.bin", "a/val.bin", {"--set", "layers.data.dense.dense_dim=3", "--set", "layers.data.sparse.0.slot_num=2", "--set", "layers.data.sparse.0.max_feature_num_per_sample=2", "--set", "layers.emb.sparse_embedding_hparam.slot_size_array=[31,31]", "--check"}),
       {"a/train.bin: expected 2 dense features and 3 slots, as a/manifest.json says", "found 3 dense features and 2 slots"}},
      {"two keys in another slot, which is the same record", kData,
       MixUps::train("lists/train.bin", "lists/val.bin", {"--set", "layers.data.float_label_dense=false", "--set", "layers.data.sparse.0.max_nnz=2", "--set", "layers.data.sparse.0.nnz_per_slot=[1,2,1]", "--set", "layers.data.sparse.0.max_feature_num_per_sample=4", "--set", "layers.data.async_param.multi_hot_reader=true", "--set", "layers.emb.type=HybridSparseEmbedding", "--check"}),
       {"lists/train.bin: expected [2,1,1] keys of the slots, as lists/manifest.json says", "found [1,2,1]"}},
      {"raw records read as Norm", kData,
       check("layers.data.format=Norm"), {"a/train.bin: expected the format raw, as a/manifest.json says, found Norm"}},
      {"Norm files read as raw records", kData,
       check("layers.data.format=RawAsync", "norm", "_list.txt"), {"norm/train_list.txt: expected the format norm", "found RawAsync"}},
      {"keys of Norm files taken as those of one large table", kData,
       MixUps::train("norm/train_list.txt", "norm/val_list.txt", {"--set", "layers.data.format=Norm", "--set", "layers.data.keys=\"global\"", "--check"}),
       {"norm/train_list.txt: expected keys local to their slots, as norm/manifest.json says"}},
      {"a Norm file of another preparation", kData,
       MixUps::train("m/train_list.txt", "m/val_list.txt", {"--set", "layers.data.format=Norm", "--set", "layers.data.check=Sum"}),
       {"m/train_list.txt: expected", "m/manifest.json", "found"},
       [](const MixUps& run) {
         run.copy("norm", "m");
         fs::copy(run / "m/val_norm/00000.norm", run / "m/train_norm/00000.norm",
                  fs::copy_options::overwrite_existing);
       }},
  };
}

std::vector<MixUp> of_models() {
  const auto train = [](const char* folder, Words more) {
    const std::string name = folder;
    return MixUps::train(name + "/train.bin", name + "/val.bin", std::move(more));
  };
  return {
      {"a run resumed on other data", kData,
       train("b", {"--resume", "model"}), {"b/manifest.json", "model was trained on", "vocabulary of slots user, item, kind"}},
      {"a run resumed on the same rows in another order", kDone,
       train("shuffled", {"--resume", "model", "--set", "solver.max_iter=14"}),
       {"warning", "model was trained on another train.bin", "shuffled/manifest.json", "at a position of the former"}},
      {"a run resumed on slots in another order, by --check", kData,
       train("order", {"--resume", "model", "--check"}), {"order/manifest.json", "order of slots: user, item, here item, user"}},
      {"initial weights of a model of other data", kData,
       train("b", {"--init", "model"}), {"b/manifest.json", "model was trained on", "vocabulary of slots user, item, kind"}},
      {"the same, for exported weights", kData,
       train("b", {"--init", "model.safetensors"}), {"b/manifest.json", "model.safetensors was trained on", "vocabulary of slots"}},
      {"the same, on purpose", kDone,
       train("b", {"--init", "model", "--allow-other-data"}), {"warning", "b/manifest.json", "vocabulary of slots user, item, kind"}},
      {"initial weights of a model whose numbers had other statistics", kData,
       train("older", {"--init", "model"}), {"older/manifest.json", "transform of dense feature age"}},
      {"initial weights of the same preparation, of rows in another order", kDone,
       train("shuffled", {"--init", "model"}), {"model was trained on another train.bin", "shuffled/manifest.json"}},
      {"optimizer states as initial weights", kData,
       train("a", {"--init", "model/optimizer.safetensors"}), {"model/optimizer.safetensors: its tensors are not those of the model"}},
      {"a run resumed with another batch size", kConfig,
       train("a", {"--resume", "model", "--set", "solver.batchsize=64"}), {"solver.batchsize: expected 32, that of the checkpoint model, found 64", "--init"}},
      {"a run resumed with another layer", kData,
       train("a", {"--resume", "model", "--set", "layers.b1.name=\"bottom\""}), {"its tensors are not those of the model", "bottom.weight"}},
      {"a folder of data in the place of a checkpoint", kData, train("a", {"--resume", "b"}), {"b/manifest.json", "hugectr_lite checkpoint"}},
      {"a preparation to go with the model, where the records came from no text", kConfig,
       train("m", {"--save", "saved", "--with-preparation"}),
       {"--with-preparation: expected the manifest of csv_prep or criteo_prep in the folder of m/train.bin"},
       [](const MixUps& run) {
         run.copy("a", "m");
         fs::remove(run / "m/manifest.json");
       }},
  };
}
// clang-format on

}  // namespace

TEST_CASE("what is mixed up is refused or warned of, by name") {
  const MixUps run;
  std::vector<MixUp> table = of_predictions();
  for (const auto& more : {of_preparations(), of_training(), of_models()})
    table.insert(table.end(), more.begin(), more.end());
  REQUIRE(table.size() >= 40);
  for (const MixUp& row : table) {
    if (row.first) row.first(run);
    const ProgramResult result = run.run(row.command);
    INFO(row.what << "\n"
                  << fmt::format("{}", fmt::join(row.command, " ")) << "\n"
                  << result.out << result.err);
    CHECK(result.code == row.code);
    // Paths as the command has them.
    const std::string said = replaced(result.out + result.err, run.path() + "/", "");
    for (const std::string& word : row.words) {
      INFO("expected: " << word);
      check_contains(said, {word});
    }
  }
}

}  // namespace hlite::test
