// The layers of each sample model.
#include <map>
#include <stdexcept>

#include "tests/end_to_end/sample_config.h"

namespace hlite::test {
namespace {

std::string criteo(SampleText t, int slots, const char* combiner) {
  t.data(0, {{.top = "emb", .slots = slots, .features = 100, .width = 64, .combiner = combiner}});
  t.layer("Reshape", "emb", "x", fmt::format(R"("leading_dim":{})", slots * 64));
  t.dense_block("x", "h1", 200).dense_block("h1", "h2", 200).dense_block("h2", "h3", 200);
  t.fc("h3", "z", 1).loss("z");
  return t.finish(t.solver(4096), SampleText::adam("Local"));
}
std::string one_slot(const SampleConfig& c) { return criteo(SampleText(c), 1, "sum"); }
std::string multi_slots(const SampleConfig& c) { return criteo(SampleText(c), 10, "mean"); }

std::string wdl_of(const SampleConfig& c, int layers, bool reduce) {
  SampleText t(c);
  t.data(13, {{.top = "wide",
               .slots = reduce ? 2 : 1,
               .features = reduce ? 2 : 30,
               .width = 1,
               .wide = true},
              {.top = "deep"}});
  t.reshape("deep", "d", 416).layer("Concat", "d,dense", "x0");
  std::string x = "x0";
  for (int i = 1; i <= layers; ++i, x = "x" + std::to_string(i - 1))
    t.dense_block(x, "x" + std::to_string(i), 1024, "0.5");
  t.fc(x, "deep_z", 1);
  t.reshape("wide", reduce ? "w" : "wide_z", reduce ? 2 : 1);
  if (reduce) t.layer("ReduceSum", "w", "wide_z", R"("axis":1)");
  t.layer("Add", "deep_z,wide_z", "z").loss("z");
  return t.finish(t.solver(16384), c.fp16 ? SampleText::sgd("8.0") : SampleText::adam("Global"));
}
std::string wdl(const SampleConfig& c) { return wdl_of(c, 2, c.format == "Parquet"); }
std::string wdl_deep(const SampleConfig& c) { return wdl_of(c, 7, false); }

std::string deepfm(const SampleConfig& c) {
  SampleText t(c);
  t.data(13, {{.top = "emb", .width = 11}});
  t.reshape("emb", "rows", 11).slice("rows", "v,w", "[[0,10],[10,11]]");
  t.reshape("v", "vectors", 260).reshape("w", "weights", 26);
  t.slice("dense", "d1,d2", "[[0,13],[0,13]]");
  t.layer(t.multiply(), "d1", "dv", R"("weight_dims":[13,10])");
  t.layer(t.multiply(), "d2", "dw", R"("weight_dims":[13,1])");
  t.layer("Concat", "vectors,dv", "x").slice("x", "xa,xb", "[[0,390],[0,390]]");
  t.dense_block("xa", "h1", 400, "0.5").dense_block("h1", "h2", 400, "0.5");
  t.dense_block("h2", "h3", 400, "0.5").fc("h3", "deep", 1);
  t.layer("FmOrder2", "xb", "pairs", R"("out_dim":10)");
  t.layer("ReduceSum", "pairs", "second", R"("axis":1)");
  t.layer("Concat", "weights,dw", "ones").layer("ReduceSum", "ones", "first", R"("axis":1)");
  t.layer("Add", "deep,second,first", "z").loss("z");
  return t.finish(t.solver(512), SampleText::adam("Global"));
}

std::string dcn(const SampleConfig& c) {
  SampleText t(c);
  t.data(13, {{.top = "emb"}});
  t.reshape("emb", "e", 416).layer("Concat", "e,dense", "x");
  t.slice("x", "xa,xb", "[[0,429],[0,429]]");
  t.layer("MultiCross", "xa", "cross", R"("mc_param":{"num_layers":6})");
  t.dense_block("xb", "h1", 1024, "0.5").dense_block("h1", "h2", 1024, "0.5");
  t.layer("Concat", "h2,cross", "y").fc("y", "z", 1).loss("z");
  return t.finish(t.solver(4096), SampleText::adam("Global"));
}

// `fused`: with FusedInnerProduct.
std::string dlrm_of(const SampleConfig& c, bool fused) {
  SampleText t(c);
  t.data(13, {{.top = "emb", .features = 26, .width = 128, .rows = 26000}});
  std::string text;
  const auto block = [&](const std::string& bottom, const std::string& top, int out) {
    if (fused)
      t.layer("FusedInnerProduct", bottom, top,
              fmt::format(R"("fc_param":{{"num_output":{}}})", out));
    else
      t.dense_block(bottom, top, out);
  };
  block("dense", "b1", 512);
  block("b1", "b2", 256);
  block("b2", "b3", 128);
  t.layer("Interaction", "b3,emb", "x");
  block("x", "t1", 1024);
  block("t1", "t2", 1024);
  block("t2", "t3", 512);
  block("t3", "t4", 256);
  t.fc("t4", "z", 1).loss("z");
  text = t.finish(t.solver(4096), SampleText::sgd("24.0"));
  // These have a table for each slot.
  std::string sizes = "1000";
  for (int i = 1; i < 26; ++i) sizes += ",1000";
  const auto replace = [&](const std::string& what, const std::string& by) {
    const size_t at = text.find(what);
    if (at == std::string::npos) throw std::logic_error("no " + what);
    text.replace(at, what.size(), by);
  };
  replace(c.localized ? "LocalizedSlotSparseEmbeddingHash" : "DistributedSlotSparseEmbeddingHash",
          "LocalizedSlotSparseEmbeddingOneHot");
  replace("\"embedding_vec_size\"", "\"slot_size_array\":[" + sizes + "],\"embedding_vec_size\"");
  return text;
}
std::string dlrm(const SampleConfig& c) { return dlrm_of(c, false); }
std::string dlrm_fused(const SampleConfig& c) { return dlrm_of(c, true); }

// The samples' slices leave out a column each; these do not.
std::string ncf(const SampleConfig& c) {
  SampleText t(c);
  t.data(1, {{.top = "emb", .slots = 2, .features = 2, .width = 64}});
  t.reshape("emb", "x", 128).layer("Concat", "x,dense", "x0");
  t.dense_block("x0", "h1", 256, "0.5").dense_block("h1", "h2", 256, "0.5");
  t.dense_block("h2", "h3", 128, "0.5").dense_block("h3", "h4", 64, "0.5");
  t.fc("h4", "z", 1).loss("z");
  return t.finish(t.solver(4096), SampleText::adam("Global"));
}
std::string gmf(const SampleConfig& c) {
  SampleText t(c);
  t.data(1, {{.top = "emb", .slots = 2, .features = 2, .width = 16}});
  t.reshape("emb", "x", 32).slice("x", "user,item", "[[0,16],[16,32]]");
  t.layer("DotProduct", "user,item", "product").layer("Concat", "product,dense", "y");
  t.fc("y", "z", 1).loss("z");
  return t.finish(t.solver(4096), SampleText::adam("Global"));
}
std::string neumf(const SampleConfig& c) {
  SampleText t(c);
  t.data(1, {{.top = "emb", .slots = 2, .features = 2, .width = 72}});
  t.reshape("emb", "x", 144);
  t.slice("x", "mu,gu,mi,gi", "[[0,64],[64,72],[72,136],[136,144]]");
  t.layer(c.later ? "ElementwiseMultiply" : "DotProduct", "gu,gi", "product");
  t.layer("Concat", "mu,mi", "m");
  t.dense_block("m", "h1", 256, "0.5").dense_block("h1", "h2", 64, "0.5");
  t.layer("Concat", "h2,product,dense", "y").fc("y", "z", 1).loss("z");
  return t.finish(t.solver(4096), SampleText::adam("Global"));
}

// A history of ten items and the one looked at, as Deep Interest Network weighs them.
std::string din(const SampleConfig& c) {
  SampleText t(c);
  t.data(0, {{.top = "user", .slots = 1, .features = 1, .width = 18},
             {.top = "good", .slots = 11, .features = 11, .width = 18},
             {.top = "cate", .slots = 11, .features = 11, .width = 18}});
  const auto dice = [&](const std::string& bottom, const std::string& top) {
    t.layer("PReLU_Dice", bottom, top, R"("prelu_dice_param":{"alpha":0.2,"epsilon":1e-8})");
  };
  t.layer("FusedReshapeConcat", "good,cate", "his,item");
  t.slice("item", "item1,item2", "[[0,36],[0,36]]");
  t.slice("his", "his1,his2,his3,his4,his5", "[[0,36],[0,36],[0,36],[0,36],[0,36]]");
  t.layer("Scale", "item1", "scaled", R"("scale_param":{"axis":1,"factor":10})");
  t.slice("scaled", "s1,s2,s3", "[[0,36],[0,36],[0,36]]");
  t.layer("Sub", "s1,his1", "minus").layer("DotProduct", "s2,his2", "times");
  t.layer("Concat", "s3,his3,minus,times", "pairs");
  t.fc("pairs", "a1", 40);
  dice("a1", "a2");
  t.fc("a2", "a3", 1).reshape("a3", "scores", 10).layer("Softmax", "scores", "weights");
  t.layer("Scale", "weights", "wide", R"("scale_param":{"axis":0,"factor":36})");
  t.reshape("his4", "flat", 360).layer("DotProduct", "wide,flat", "weighed");
  t.reshape("weighed", "steps", 36, 10).layer("ReduceSum", "steps", "interest", R"("axis":1)");
  t.reshape("his5", "plain", 36, 10).layer("ReduceMean", "plain", "mean", R"("axis":1)");
  t.reshape("interest", "i", 36).reshape("mean", "m", 36).reshape("user", "u", 18);
  t.layer("Concat", "u,i,m,item2", "x").fc("x", "h1", 200);
  dice("h1", "h2");
  t.fc("h2", "h3", 80);
  dice("h3", "h4");
  t.fc("h4", "z", 1).loss("z");
  return t.finish(t.solver(64), SampleText::adam("Global"));
}

// Three experts, a gate for each of two tasks.
std::string mmoe(const SampleConfig& c) {
  SampleText t(c);
  t.data(0, {{.top = "emb", .slots = 40, .features = 40, .width = 16}}, 2);
  t.reshape("emb", "x", 640);
  for (const char* e : {"e1", "e2", "e3"}) t.dense_block("x", e, 16);
  t.layer("Concat", "e1,e2,e3", "experts");
  for (const std::string task : {"a", "b"}) {
    t.fc("x", task + "_gate", 3).layer("Softmax", task + "_gate", task + "_share");
    t.layer("Scale", task + "_share", task + "_wide", R"("scale_param":{"axis":0,"factor":16})");
    t.layer("ElementwiseMultiply", "experts," + task + "_wide", task + "_mix");
    t.reshape(task + "_mix", task + "_steps", 16, 3);
    t.layer("ReduceSum", task + "_steps", task + "_sum", R"("axis":1)");
    t.reshape(task + "_sum", task + "_flat", 16);
    t.dense_block(task + "_flat", task + "_tower", 8, "0.2").fc(task + "_tower", task + "_z", 1);
  }
  t.layer("Concat", "a_z,b_z", "z");
  t.layer("MultiCrossEntropyLoss", "z,label", "loss", R"("target_weight":[0.5,0.5])");
  return t.finish(t.solver(512), SampleText::sgd("0.01"));
}
std::string shared_bottom(const SampleConfig& c) {
  SampleText t(c);
  t.data(0, {{.top = "emb", .slots = 40, .features = 40, .width = 16}}, 2);
  t.reshape("emb", "x", 640).dense_block("x", "h", 256);
  for (const std::string task : {"a", "b"})
    t.dense_block("h", task + "_tower", 64, "0.2").fc(task + "_tower", task + "_z", 1);
  t.layer("Concat", "a_z,b_z", "z");
  t.layer("MultiCrossEntropyLoss", "z,label", "loss", R"("target_weight":[1.0,2.0])");
  return t.finish(t.solver(512), SampleText::sgd("0.01"));
}

}  // namespace

std::string SampleConfig::text() const {
  static const std::map<std::string, std::string (*)(const SampleConfig&)> models = {
      {"criteo", one_slot}, {"criteo_multi_slots", multi_slots},
      {"wdl", wdl},         {"wdl_deep", wdl_deep},
      {"deepfm", deepfm},   {"dcn", dcn},
      {"dlrm", dlrm},       {"dlrm_fused", dlrm_fused},
      {"ncf", ncf},         {"gmf", gmf},
      {"neumf", neumf},     {"din", din},
      {"mmoe", mmoe},       {"shared_bottom", shared_bottom}};
  return models.at(model)(*this);
}

}  // namespace hlite::test
