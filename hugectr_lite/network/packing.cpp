#include "hugectr_lite/network/packing.h"

#include <algorithm>
#include <map>
#include <set>

#include "hugectr_lite/network/layer_parts.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/packed_rows.h"
#include "hugectr_lite/ops/sequence.h"

namespace hlite::network {
namespace {

using LayerEntry = Network::LayerEntry;
using TensorEntry = Network::TensorEntry;

constexpr int kPadded = -1;  // TensorEntry::packed

bool contains(const std::vector<size_t>& list, size_t i) {
  return std::find(list.begin(), list.end(), i) != list.end();
}

// Sets who makes and reads the tensors. Those that no layer makes any more have no readers.
void connect(const std::vector<LayerEntry>& layers, std::vector<TensorEntry>& tensors) {
  for (TensorEntry& t : tensors) {
    t.consumers.clear();
    t.producer = -1;
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerEntry& e = layers[l];
    for (size_t b = 0; b < e.bottoms.size(); ++b)
      tensors[e.bottoms[b]].consumers.emplace_back(l, b);
    for (const size_t t : e.tops) tensors[t].producer = static_cast<int>(l);
  }
}

// A tensor packed, or otherwise, or with its padding again.
class RepackLayer final : public Layer {
 public:
  using Layer::Layer;

  void emit_forward(plan::Plan& plan, const LayerIo& io, Phase) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_move(plan, io, ".fprop", x, x.value, y, y.value);
  }
  void emit_backward(plan::Plan& plan, const LayerIo& io) const override {
    const LayerTensor &x = io.bottoms[0], &y = io.tops[0];
    add_move(plan, io, ".bprop", y, y.grad, x, x.grad);
  }

 private:
  void add_move(plan::Plan& plan, const LayerIo& io, const char* step, const LayerTensor& x,
                BufferId from, const LayerTensor& y, BufferId to) const {
    add_typed_step(
        plan, io.type,
        {.name = name() + step, .reads = {from, x.offsets, y.offsets}, .writes = {to}},
        [=, dims = Dims{rows_of_sample(x.dims), x.dims.back()}]<typename T>(const StepViews<T>& v) {
          ops::move_rows<T>(
              v.exec,
              {.kind = ops::RowMove::Kind::kSame, .from_rows = v.rows(x), .to_rows = v.rows(y)},
              v.cube(from, dims), v.cube(to, dims));
        });
  }
};

// What is known of a tensor: the lengths of the history that its rows are of, and of the one that
// its last dimension runs over.
struct Positions {
  std::string rows, columns;
  std::string zero_rows;      // beyond these lengths, rows are 0
  bool zero_columns = false;  // beyond `columns`, columns are 0
};
enum class Along { kRows, kColumns };

class Packer {
 public:
  Packer(std::vector<LayerEntry>& layers, std::vector<TensorEntry>& tensors,
         const std::vector<NetworkInput>& inputs)
      : layers_(layers),
        tensors_(tensors),
        known_(tensors.size()),
        packed_(layers.size(), kPadded),
        forms_(tensors.size(), kPadded) {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const Dims& dims = tensors_[t].dims;
      if (!dims.is_lengths) known_[t].rows = dims.lengths;
    }
    for (const LayerEntry& e : layers_) {
      learn(e);
      if (e.shape.last_rows > 0) counts_.insert(e.shape.last_rows);
    }
    for (size_t l = layers_.size(); l-- > 0;) packed_[l] = decide(l);
    for (size_t t = 0; t < inputs.size(); ++t)
      if (inputs[t].may_be_packed) tensors_[t].packed = form_of_input(t);
    for (size_t l = 0; l < layers_.size(); ++l) {
      read_as_.emplace_back();
      for (size_t b = 0; b < layers_[l].bottoms.size(); ++b)
        read_as_.back().push_back(form_to_read(l, b));
    }
  }

  [[nodiscard]] bool packs(size_t layer) const { return packed_[layer] != kPadded; }

  std::vector<PackedHistory> rewrite(size_t inputs) {
    std::vector<TensorEntry> old_tensors = std::move(tensors_);
    std::vector<LayerEntry> old_layers = std::move(layers_);
    tensors_.clear();
    layers_.clear();
    std::vector<size_t> place(old_tensors.size());
    for (size_t t = 0; t < inputs; ++t) {
      place[t] = tensors_.size();
      tensors_.push_back(old_tensors[t]);
    }
    for (size_t l = 0; l < old_layers.size(); ++l) {
      LayerEntry& e = old_layers[l];
      for (size_t b = 0; b < e.bottoms.size(); ++b)
        e.bottoms[b] = repacked(place[e.bottoms[b]], read_as_[l][b], e.layer->node());
      for (const size_t t : e.tops) {
        place[t] = tensors_.size();
        tensors_.push_back(old_tensors[t]);
        if (!tensors_.back().dims.is_lengths) tensors_.back().packed = packed_[l];
      }
      const size_t first = tensors_.size() - e.tops.size();
      for (size_t i = 0; i < e.tops.size(); ++i) e.tops[i] = first + i;
      layers_.push_back(std::move(e));
    }
    connect(layers_, tensors_);
    return std::move(histories_);
  }

 private:
  [[nodiscard]] const Dims& dims_of(size_t t) const { return tensors_[t].dims; }
  // A view that leaves rows where they are.
  [[nodiscard]] bool keeps_rows(const LayerEntry& e) const {
    const Dims &x = dims_of(e.bottoms[0]), &y = dims_of(e.tops[0]);
    return e.layer->traits().is_view && rows_of_sample(x) == rows_of_sample(y) &&
           x.back() == y.back();
  }

  void learn(const LayerEntry& e) {
    if (e.tops.empty()) return;
    Positions& top = known_[e.tops[0]];
    if (e.shape.is_mask) {
      top.zero_rows = dims_of(e.bottoms[0]).lengths;
      top.columns = dims_of(e.bottoms[1]).lengths;
      top.zero_columns = true;
    } else if (e.layer->traits().is_view) {
      const Positions& of = known_[e.bottoms[0]];
      const Dims &x = dims_of(e.bottoms[0]), &y = dims_of(e.tops[0]);
      if (x.back() == y.back()) {
        top.columns = of.columns;
        top.zero_columns = of.zero_columns;
        if (keeps_rows(e)) top.zero_rows = of.zero_rows;
      } else if (x.back() == 1 && y.back() == rows_of_sample(x)) {
        top.columns = of.rows;
      }
    } else if (e.shape.masked && e.shape.masked->alike) {
      const Positions& mask = known_[e.bottoms[e.shape.masked->mask]];
      if (mask.zero_columns) top.columns = mask.columns;
      top.zero_columns = mask.zero_columns;
    }
  }

  // Returns true if no reader of tensor t looks at what is beyond the lengths of the history.
  [[nodiscard]] bool unseen(size_t t, Along along, const PackedHistory& h) const {
    const auto& consumers = tensors_[t].consumers;
    return std::all_of(consumers.begin(), consumers.end(), [&](const auto& consumer) {
      return overlooks(consumer.first, consumer.second, along, h);
    });
  }
  [[nodiscard]] bool overlooks(size_t layer, size_t bottom, Along along,
                               const PackedHistory& h) const {
    const LayerEntry& e = layers_[layer];
    if (e.layer->traits().is_view) {
      const Positions& top = known_[e.tops[0]];
      if (along == Along::kRows && top.rows == h.lengths) return unseen(e.tops[0], Along::kRows, h);
      return h.last == 0 && top.columns == h.lengths && unseen(e.tops[0], Along::kColumns, h);
    }
    if (along == Along::kRows && is_packed_within(wanted(layer, bottom), h)) return true;
    if (h.last > 0)
      return bottom == 0 && e.shape.last_rows > 0 && e.shape.last_rows <= h.last &&
             dims_of(e.bottoms[1]).lengths == h.lengths;
    if (along == Along::kRows && e.layer->traits().takes_lengths)
      return std::any_of(e.bottoms.begin(), e.bottoms.end(), [&](size_t t) {
        return dims_of(t).is_lengths && dims_of(t).lengths == h.lengths;
      });
    if (!e.shape.masked) return false;
    const MaskedBottoms& masked = *e.shape.masked;
    const Positions& mask = known_[e.bottoms[masked.mask]];
    const bool by_columns =
        contains(masked.by_columns, bottom) && mask.zero_columns && mask.columns == h.lengths;
    const bool by_rows = contains(masked.by_rows, bottom) && mask.zero_rows == h.lengths;
    if (masked.alike) return along == Along::kRows ? by_rows : by_columns;
    return along == Along::kRows && (by_columns || by_rows);
  }
  // By h, or by fewer of its rows.
  [[nodiscard]] bool is_packed_within(int packed, const PackedHistory& h) const {
    if (packed == kPadded) return false;
    const PackedHistory& of = histories_[static_cast<size_t>(packed)];
    return of.lengths == h.lengths && of.rows == h.rows &&
           (h.last == 0 || (of.last > 0 && of.last <= h.last));
  }
  // Returns true if a bottom's rows are those of the top.
  [[nodiscard]] static bool goes_along(const LayerShape& shape, size_t bottom) {
    return shape.packs_with ? contains(*shape.packs_with, bottom)
                            : !contains(shape.by_sample, bottom);
  }
  // What a layer's bottom must be packed by.
  [[nodiscard]] int wanted(size_t layer, size_t bottom) const {
    return goes_along(layers_[layer].shape, bottom) ? packed_[layer] : kPadded;
  }
  // The same of one bottom, where the layer takes what there is.
  [[nodiscard]] int form_to_read(size_t layer, size_t bottom) const {
    const LayerEntry& e = layers_[layer];
    const size_t t = e.bottoms[bottom];
    if (!contains(e.shape.takes_packed, bottom)) return wanted(layer, bottom);
    const int producer = tensors_[t].producer;
    const int made = producer < 0 ? tensors_[t].packed : packed_[static_cast<size_t>(producer)];
    for (const int form : {made, forms_[t]})
      if (form != kPadded &&
          overlooks(layer, bottom, Along::kRows, histories_[static_cast<size_t>(form)]))
        return form;
    return kPadded;
  }

  // How an input comes: packed, if all that read it take it so.
  int form_of_input(size_t t) {
    const PackedHistory h = {known_[t].rows, rows_of_sample(dims_of(t))};
    const auto& consumers = tensors_[t].consumers;
    const bool packed = !h.lengths.empty() && has_lengths(h) && !consumers.empty() &&
                        unseen(t, Along::kRows, h) &&
                        std::all_of(consumers.begin(), consumers.end(), [&](const auto& consumer) {
                          const auto [layer, bottom] = consumer;
                          return contains(layers_[layer].shape.takes_packed, bottom) ||
                                 wanted(layer, bottom) == index_of(h);
                        });
    return packed ? index_of(h) : kPadded;
  }
  // The data may name none.
  [[nodiscard]] bool has_lengths(const PackedHistory& h) const {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [&](const TensorEntry& t) { return t.name == h.lengths; });
  }

  int index_of(const PackedHistory& h) {
    for (int i = 0; i < static_cast<int>(histories_.size()); ++i)
      if (is_packed_within(i, h) && histories_[static_cast<size_t>(i)].last == h.last) return i;
    histories_.push_back(h);
    return static_cast<int>(histories_.size()) - 1;
  }

  // Which history the layer's tops are packed by, as all layers above are decided.
  int decide(size_t l) {
    const LayerEntry& e = layers_[l];
    if (e.tops.empty() || e.bottoms.empty()) return kPadded;
    const size_t top = e.tops[0];
    if (e.shape.repeats_row) return asked_for(top);
    if (keeps_rows(e)) {
      const int packed = asked_for(top);
      if (packed != kPadded) forms_[e.bottoms[0]] = packed;
      return packed;
    }
    PackedHistory h = {known_[top].rows, rows_of_sample(dims_of(top))};
    if ((e.shape.rows != Rows::kAlone && !e.shape.packs_with) || h.lengths.empty()) return kPadded;
    if (!has_lengths(h)) return kPadded;
    for (size_t b = 0; b < e.bottoms.size(); ++b) {
      const Dims& x = dims_of(e.bottoms[b]);
      if (e.shape.packs_with && !goes_along(e.shape, b)) continue;
      if (rows_of_sample(x) != (goes_along(e.shape, b) ? h.rows : 1) || x.is_lengths)
        return kPadded;
    }
    // As few rows as will do. One whose rows come from all over the bottoms' makes all.
    const auto will_do = [&](int64_t last) {
      h.last = last;
      return std::all_of(e.tops.begin(), e.tops.end(), [&](size_t t) {
        return dims_of(t).is_lengths || unseen(t, Along::kRows, h);
      });
    };
    const bool selects = e.shape.mixes_rows || !e.shape.packs_with || !e.shape.packs_with->empty();
    if (!(selects && std::any_of(counts_.begin(), counts_.end(), will_do)) && !will_do(0) &&
        !e.shape.zero_padding)
      return kPadded;
    const int packed = index_of(h);
    if (e.shape.mixes_rows) forms_[e.bottoms[0]] = index_of({h.lengths, h.rows});
    for (size_t b = 0; b < e.bottoms.size(); ++b)
      if (goes_along(e.shape, b)) forms_[e.bottoms[b]] = packed;
    return packed;
  }
  // The history that all readers of t are packed by, if they are.
  int asked_for(size_t t) {
    int packed = kPadded;
    for (const auto& [layer, bottom] : tensors_[t].consumers) {
      if (contains(layers_[layer].shape.takes_packed, bottom)) continue;
      const int asked = wanted(layer, bottom);
      if (asked == kPadded || (packed != kPadded && packed != asked)) return kPadded;
      packed = asked;
    }
    return packed;
  }

  // Tensor t in the form asked for.
  size_t repacked(size_t t, int packed, const config::JsonNode& node) {
    if (tensors_[t].packed == packed) return t;
    const auto [made, is_new] = made_.try_emplace({t, packed}, tensors_.size());
    if (!is_new) return made->second;
    TensorEntry other = tensors_[t];
    const bool last = packed != kPadded && histories_[static_cast<size_t>(packed)].last > 0;
    other.name += packed == kPadded ? ".unpacked" : last ? ".last" : ".packed";
    other.packed = packed;
    LayerEntry entry;
    entry.layer = std::make_unique<RepackLayer>(
        node,
        Wiring{
            other.name, packed == kPadded ? "Unpack" : "Pack", {tensors_[t].name}, {other.name}});
    entry.shape = {.tops = {other.dims}, .rows = Rows::kCounted};
    entry.bottoms = {t};
    entry.tops = {tensors_.size()};
    tensors_.push_back(std::move(other));
    layers_.push_back(std::move(entry));
    return made->second;
  }

  std::vector<LayerEntry>& layers_;
  std::vector<TensorEntry>& tensors_;
  std::vector<Positions> known_;           // of each tensor
  std::vector<int> packed_;                // of each layer: which history; kPadded
  std::vector<int> forms_;                 // of each tensor: how packed layers want it
  std::vector<std::vector<int>> read_as_;  // of each layer: how it reads its bottoms
  std::vector<PackedHistory> histories_;
  std::set<int64_t> counts_;                       // of last rows that layers read
  std::map<std::pair<size_t, int>, size_t> made_;  // tensors in another form
};

// Inner products of [q, h, q - h, q * h] with one q a sample (pair_product.h), and layers that they
// make superfluous.
class PairProducts {
 public:
  PairProducts(std::vector<LayerEntry>& layers, std::vector<TensorEntry>& tensors)
      : layers_(layers), tensors_(tensors), replaced_(layers.size()) {}

  void find(const Packer& packer) {
    for (size_t l = 0; l < layers_.size(); ++l)
      if (packer.packs(l)) replace(l);
    size_t kept = 0;
    for (size_t l = 0; l < layers_.size(); ++l)
      if (!replaced_[l] && kept++ != l) layers_[kept - 1] = std::move(layers_[l]);
    layers_.resize(kept);
    connect(layers_, tensors_);
  }

 private:
  // The layer of one of these types that makes t for `readers` readers; or null.
  const LayerEntry* maker(size_t t, std::initializer_list<const char*> types,
                          size_t readers) const {
    const TensorEntry& of = tensors_[t];
    if (of.producer < 0 || of.consumers.size() != readers) return nullptr;
    const LayerEntry& e = layers_[static_cast<size_t>(of.producer)];
    return std::find(types.begin(), types.end(), e.layer->type()) != types.end() ? &e : nullptr;
  }

  void replace(size_t l) {
    LayerEntry& e = layers_[l];
    if (!e.layer->traits().is_inner_product || e.layer->traits().has_relu) return;
    const LayerEntry* const concat = maker(e.bottoms[0], {"Concat"}, 1);
    if (!concat || concat->bottoms.size() != 4) return;
    const size_t repeated = concat->bottoms[0], h = concat->bottoms[1];
    const std::vector<size_t> pair = {repeated, h};
    const LayerEntry* const scale = maker(repeated, {"Scale"}, 3);
    const LayerEntry* const sub = maker(concat->bottoms[2], {"Sub"}, 1);
    const LayerEntry* const product =
        maker(concat->bottoms[3], {"ElementwiseMultiply", "DotProduct"}, 1);
    if (!scale || !scale->shape.repeats_row || !sub || sub->bottoms != pair || !product ||
        product->bottoms != pair)
      return;
    for (const LayerEntry* const gone : {concat, scale, sub, product})
      replaced_[static_cast<size_t>(gone - layers_.data())] = true;
    e.bottoms = {scale->bottoms[0], h};
    e.shape = pair_product_shape(std::move(e.shape), tensors_[h].dims);
    e.layer = make_pair_product(e.layer->node(), {e.layer->name(),
                                                  e.layer->type(),
                                                  {tensors_[e.bottoms[0]].name, tensors_[h].name},
                                                  {e.layer->tops()[0]}});
  }

  std::vector<LayerEntry>& layers_;
  std::vector<TensorEntry>& tensors_;
  std::vector<bool> replaced_;
};

}  // namespace

std::vector<PackedHistory> pack_histories(std::vector<LayerEntry>& layers,
                                          std::vector<TensorEntry>& tensors,
                                          const std::vector<NetworkInput>& inputs) {
  PairProducts(layers, tensors).find(Packer(layers, tensors, {}));
  return Packer(layers, tensors, inputs).rewrite(inputs.size());
}

void Network::declare_offsets(Buffers& buffers) {
  for (PackedHistory& h : packed_)
    h.offsets = buffers.add(fmt::format("{}.offsets{}{}", h.lengths, h.rows,
                                        h.last > 0 ? fmt::format(".last{}", h.last) : ""),
                            plan::BufferKind::kActivation,
                            (2 * setup_.max_batch + 1) * static_cast<int64_t>(sizeof(int64_t)));
}

BufferId Network::offsets_of(const TensorEntry& tensor) const {
  return tensor.packed < 0 ? kNoBuffer : packed_[static_cast<size_t>(tensor.packed)].offsets;
}

// Of the histories whose lengths that layer made, or of inputs.
void Network::emit_offsets(plan::Plan& plan, int producer) const {
  for (const PackedHistory& h : packed_)
    for (const TensorEntry& t : tensors_)
      if (t.dims.is_lengths && t.name == h.lengths && t.producer == producer)
        add_typed_step(
            plan, FloatType::kFloat,
            {.name = plan.buffers().name(h.offsets), .reads = {t.value}, .writes = {h.offsets}},
            [=, lengths = t.value]<typename T>(const StepViews<T>& v) {
              auto* const offsets = v.buffers.template data<int64_t>(h.offsets);
              ops::row_offsets(v.exec, vector(v.buffers, lengths, v.batch), h.rows, h.last,
                               {offsets, v.batch + 1}, {offsets + v.batch + 1, v.batch});
            });
}

}  // namespace hlite::network
