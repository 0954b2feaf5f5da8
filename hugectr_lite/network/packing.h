// Packing of histories: the valid rows of a tensor, without the padding between them.
//
// A layer that treats each row alone (Rows::kAlone) has nothing to compute of padding, unless a
// layer above looks at what it makes of it. So its tensors are packed (LayerTensor::offsets) where
// every reader of its tops is packed itself, takes the history's lengths, or reads them under a
// mask of these lengths (MaskedBottoms). HSTU reads and makes packed rows whoever reads them
// (LayerShape::zero_padding). Where SequenceLast alone reads what a layer makes, through others
// perhaps, that layer computes the last rows alone, of all rows below if it mixes them
// (LayerShape::mixes_rows). Where packed tensors meet others, layers that the config does not know
// move the valid rows, and make padding zeros. Results are those of the padded
// network but for rounding: padding that nobody looks at has no gradient either. There, an inner
// product of [q, h, q - h, q * h] takes the place of the layers that make these (pair_product.h).
#pragma once

#include "hugectr_lite/network/network.h"

namespace hlite::network {

// Decides what is packed, sets TensorEntry::packed, and inserts layers. The first tensors, the
// inputs, keep their places. Returns the histories, without buffers.
std::vector<PackedHistory> pack_histories(std::vector<Network::LayerEntry>& layers,
                                          std::vector<Network::TensorEntry>& tensors,
                                          const std::vector<NetworkInput>& inputs);

}  // namespace hlite::network
