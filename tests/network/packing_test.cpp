// Histories without their padding: which tensors are packed, and that no number tells.
#include "hugectr_lite/network/packing.h"

#include <set>

#include "tests/network/layer_case.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

constexpr int64_t kLength = 5;

// DIN's attention of a target over a history, and BST's block over history and target.
const std::string kDin =
    R"({"type":"Reshape","bottom":"target","top":"t","leading_dim":4},
  {"type":"Scale","bottom":"t","top":"ts","scale_param":{"axis":1,"factor":5}},
  {"type":"Reshape","bottom":"history","top":"hs","leading_dim":4},
  {"type":"Sub","bottom":["ts","hs"],"top":"d"},
  {"type":"ElementwiseMultiply","bottom":["ts","hs"],"top":"p"},
  {"type":"Concat","bottom":["ts","hs","d","p"],"top":"x"},)" +
    fc("x", "a1", 6) + R"(,{"type":"Sigmoid","bottom":"a1","top":"a"},)" + fc("a", "a2", 1) +
    R"(,{"type":"Reshape","bottom":"a2","top":"s","leading_dim":5},
  {"type":"SequenceMask","bottom":["history_len","history_len"],"top":"m4","max_sequence_len_to":5},
  {"type":"Reshape","bottom":"m4","top":"m","leading_dim":5},
  {"type":"Softmax","bottom":["s","m"],"top":"w","factor":0.5},
  {"type":"Reshape","bottom":"w","top":"w3","leading_dim":5,"time_step":1},
  {"type":"MatrixMultiply","bottom":["w3","history"],"top":"i3"},
  {"type":"Reshape","bottom":"i3","top":"i"},
  {"type":"ReduceMean","bottom":["history","history_len"],"top":"r3","axis":1},
  {"type":"Reshape","bottom":"r3","top":"r"},
  {"type":"Concat","bottom":["i","r","t"],"top":"c"},)" +
    fc("c", "z", 1);
const std::string kBlock =
    R"({"type":"SequenceConcat","bottom":["history","history_len","target"],"top":["q","q_len"]},
  {"type":"PositionEmbedding","bottom":["q","q_len"],"top":"pos"},
  {"type":"SequenceMask","bottom":["q_len","q_len"],"top":"m","max_sequence_len_from":6,"max_sequence_len_to":6},)" +
    fc("pos", "bq", 4) + "," + fc("pos", "bk", 4) + "," + fc("pos", "bv", 4) +
    R"(,{"type":"MultiHeadAttention","bottom":["bq","bk","bv","m"],"top":"y","num_attention_heads":2},)" +
    fc("y", "o", 4) + R"(,{"type":"Dropout","bottom":"o","top":"od","rate":0.3},
  {"type":"Add","bottom":["od","pos"],"top":"sum"},
  {"type":"LayerNorm","bottom":"sum","top":"n","ln_param":{"eps":1e-5}},
  {"type":"FusedInnerProduct","bottom":"n","top":"f1","fc_param":{"num_output":7}},)" +
    fc("f1", "f2", 4) + R"(,{"type":"Add","bottom":["f2","n"],"top":"b"},)";
const std::string kBst = kBlock +
                         R"({"type":"Slice","bottom":"b","top":["b1","b2"],"ranges":[[0,3],[2,4]]},
  {"type":"SequenceLast","bottom":["b1","q_len"],"top":"l3"},
  {"type":"ReduceSum","bottom":["b2","q_len"],"top":"s3","axis":1},
  {"type":"Reshape","bottom":"l3","top":"l"},{"type":"Reshape","bottom":"s3","top":"s"},
  {"type":"Concat","bottom":["l","s"],"top":"c"},)" +
                         fc("c", "z", 1);
// Two layers of HSTU, of which one is also read without lengths.
const std::string kHstu =
    R"({"type":"SequenceConcat","bottom":["history","history_len","target"],"top":["q","q_len"]},
  {"type":"PositionEmbedding","bottom":["q","q_len"],"top":"pos"},)" +
    fc("pos", "x", 4) +
    R"(,{"name":"h1","type":"HSTU","bottom":["x","q_len"],"top":"y1","hstu_param":{"num_heads":2,
    "attention_dim":3,"hidden_dim":2,"eps":0.01,"max_attn_len":4,"dropout":0.3,"group_norm":true}},
  {"name":"h2","type":"HSTU","bottom":["y1","q_len"],"top":"y2","hstu_param":{"num_heads":1,
    "attention_dim":3,"hidden_dim":5,"eps":0.01,"num_candidates":1,"contextual_seq_len":1}},
  {"type":"SequenceLast","bottom":["y2","q_len"],"top":"l3"},
  {"type":"ReduceSum","bottom":"y1","top":"s3","axis":1},
  {"type":"Reshape","bottom":"l3","top":"l"},{"type":"Reshape","bottom":"s3","top":"s"},
  {"type":"Concat","bottom":["l","s"],"top":"c"},)" +
    fc("c", "z", 1);

// Blocks of which the last rows alone are read.
std::string last_rows(int64_t count) {
  return kBlock +
         fmt::format(R"({{"type":"SequenceLast","bottom":["b","q_len"],"top":"l3","count":{}}},
      {{"type":"Reshape","bottom":"l3","top":"c"}},)",
                     count) +
         fc("c", "z", 1);
}

NetworkFixture history_net(const std::string& layers, int64_t batch, bool packs,
                           FloatType type = FloatType::kFloat) {
  std::vector<NetworkFixture::Input> inputs = {{"label", {1}}, {"target", {1, 4}, true}};
  add_history(inputs, "history", {kLength, 4});
  return NetworkFixture(layers + "," + kLoss, inputs, batch, 2, false, type, nullptr, packs);
}

std::set<std::string> packed_tensors(NetworkFixture& f) {
  std::set<std::string> names;
  for (const auto& t : f.net().tensors())
    if (t.packed >= 0) names.insert(t.name);
  return names;
}

std::vector<float> logits_of(NetworkFixture& f, int64_t samples) {
  f.evaluate(samples);
  const auto z = f.floats(f.net().logits());
  return {z.begin(), z.begin() + samples};
}

void set_lengths(NetworkFixture& f, const std::vector<float>& lengths) {
  std::copy(lengths.begin(), lengths.end(), f.tensor("history_len").begin());
  f.fill_padding(0);
}

}  // namespace

TEST_CASE("layers that treat rows of a history alone are packed where nobody looks at padding") {
  auto din = history_net(kDin, 7, true);
  CHECK(packed_tensors(din) == std::set<std::string>{"a", "a1", "a2", "history.packed", "hs"});
  // [q, h, q - h, q * h] is not even made.
  CHECK(din.train_plan().index_of("a1.fold") > 0);
  CHECK_THROWS_AS(din.train_plan().index_of("x.fprop"), Error);
  CHECK(din.net().described().size() == history_net(kDin, 7, false).net().described().size());
  auto bst = history_net(kBst, 7, true);
  CHECK(packed_tensors(bst) == std::set<std::string>{"b", "b1", "b2", "bk", "bq", "bv", "f1", "f2",
                                                     "n", "o", "od", "pos", "q", "sum", "y"});
  auto hstu = history_net(kHstu, 7, true);
  CHECK(packed_tensors(hstu) == std::set<std::string>{"pos", "q", "x", "y1", "y2"});
  auto padded = history_net(kDin, 7, false);
  CHECK(packed_tensors(padded).empty());
}

TEST_CASE("of rows that SequenceLast alone reads, the last are computed") {
  for (const int64_t count : {1, 2, 6}) {
    auto f = history_net(last_rows(count), 7, true);
    std::map<std::string, int64_t> rows;  // of the batch
    set_lengths(f, {0, 1, 2, 3, 4, 5, 5});
    f.evaluate(7);
    for (const auto& t : f.net().tensors())
      if (const auto offsets = f.net().offsets(f.buffers(), t, 7); !offsets.empty())
        rows[t.name] = offsets.back();
    const int64_t all = 27, last = count == 1 ? 7 : count == 2 ? 13 : all;
    for (const char* const name : {"q", "pos", "bk", "bv"}) CHECK(rows.at(name) == all);
    for (const char* const name : {"bq", "y", "o", "od", "sum", "n", "f1", "f2", "b", "pos.last"})
      CHECK(rows.at(name) == last);
  }
  auto f = history_net(kHstu, 7, true);
  set_lengths(f, {0, 1, 2, 3, 4, 5, 5});
  f.evaluate(7);
  std::map<std::string, int64_t> rows;
  for (const auto& t : f.net().tensors())
    if (const auto offsets = f.net().offsets(f.buffers(), t, 7); !offsets.empty())
      rows[t.name] = offsets.back();
  CHECK(rows.at("y1") == 27);
  CHECK(rows.at("y2") == 7);
}

TEST_CASE("packed histories have the losses and gradients of padded ones") {
  const std::vector<std::vector<float>> lengths = {
      {0, 1, 2, 3, 4, 5, 2}, {0, 0, 0, 0, 0, 0, 0}, {5, 5, 5, 5, 5, 5, 5}, {3}, {0}, {5}};
  for (const std::string& layers : {kDin, kBst, kHstu, last_rows(1), last_rows(2), last_rows(6)})
    for (const auto& of : lengths) {
      const auto batch = static_cast<int64_t>(of.size());
      auto packed = history_net(layers, batch, true), padded = history_net(layers, batch, false);
      // What the buffers hold of a batch before does not matter.
      packed.train();
      for (NetworkFixture* f : {&packed, &padded}) {
        set_lengths(*f, of);
        f->train();
      }
      INFO(layers << " " << fmt::format("{}", fmt::join(of, " ")));
      CHECK(packed.loss() == Approx(padded.loss()).epsilon(1e-6));
      const auto got = packed.gradients(), want = padded.gradients();
      for (const auto& [name, values] : want)
        check_close(std::span<const float>(got.at(name)), std::span<const float>(values),
                    {1e-6, 1e-6}, name.c_str());
    }
}

TEST_CASE("scores of packed histories do not depend on the batch") {
  for (const FloatType type : {FloatType::kFloat, FloatType::kBf16})
    for (const std::string& layers : {kDin, kBst, kHstu, last_rows(1), last_rows(2)}) {
      constexpr int64_t kMany = 300;
      auto f = history_net(layers, kMany, true, type);
      const std::vector<float> all = logits_of(f, kMany);
      for (const int64_t few : {int64_t{1}, int64_t{6}, int64_t{150}})
        CHECK(same_values(logits_of(f, few), std::vector<float>(all.begin(), all.begin() + few)));
      // A sample behind others, whose histories are now other ones.
      auto other = history_net(layers, kMany, true, type);
      for (int64_t b = 0; b + 1 < kMany; ++b)
        other.tensor("history_len")[static_cast<size_t>(b)] = static_cast<float>(b % 2);
      CHECK(logits_of(other, kMany).back() == all.back());
    }
}

TEST_CASE("padding that a layer looks at is computed") {
  const auto packed = [](const std::string& layers) {
    auto f = history_net(layers, 3, true);
    return packed_tensors(f);
  };
  const std::string mean = R"(,{"type":"Reshape","bottom":"m","top":"c"},)" + fc("c", "z", 1);
  const std::string counted =
      R"(,{"type":"ReduceMean","bottom":["h","history_len"],"top":"m","axis":1})" + mean;
  CHECK(packed(fc("history", "h", 3) + counted) == std::set<std::string>{"h", "history.packed"});
  // Statistics, and a mean of all rows.
  CHECK(packed(fc("history", "g", 3) +
               R"(,{"type":"Reshape","bottom":"g","top":"gs","leading_dim":3},
      {"type":"BatchNorm","bottom":"gs","top":"hs","bn_param":{"factor":0.9,"eps":1e-5}},
      {"type":"Reshape","bottom":"hs","top":"h","leading_dim":3,"time_step":5})" +
               counted)
            .empty());
  CHECK(packed(fc("history", "h", 3) + R"(,{"type":"ReduceMean","bottom":"h","top":"m","axis":1})" +
               mean)
            .empty());
  CHECK(packed(fc("history", "h", 3) + R"(,{"type":"Reshape","bottom":"h","top":"c"},)" +
               fc("c", "z", 1))
            .empty());
  // One reader that looks is enough.
  CHECK(packed(fc("history", "h", 3) + R"(,{"type":"Reshape","bottom":"h","top":"k"})" +
               R"(,{"type":"ReduceMean","bottom":["h","history_len"],"top":"m","axis":1},
                   {"type":"Reshape","bottom":"m","top":"m2"},
                   {"type":"Concat","bottom":["k","m2"],"top":"c"},)" +
               fc("c", "z", 1))
            .empty());
  // A softmax without a mask, and one whose mask does not end with the history.
  const auto softmax = [](const std::string& rest) {
    return fc("history", "h", 1) +
           R"(,{"type":"Reshape","bottom":"h","top":"s","leading_dim":5},)" + rest +
           R"(,{"type":"Reshape","bottom":"w","top":"c"},)" + fc("c", "z", 1);
  };
  CHECK(packed(softmax(R"({"type":"Softmax","bottom":"s","top":"w"})")).empty());
  CHECK(packed(softmax(R"({"type":"Sigmoid","bottom":"s","top":"n"},
                          {"type":"Softmax","bottom":["s","n"],"top":"w"})"))
            .empty());
  CHECK_FALSE(packed(softmax(R"({"type":"SequenceMask","bottom":["history_len","history_len"],
      "top":"m4","max_sequence_len_to":5},{"type":"Reshape","bottom":"m4","top":"m","leading_dim":5},
      {"type":"Softmax","bottom":["s","m"],"top":"w"})"))
                  .empty());
}

}  // namespace hlite::test
