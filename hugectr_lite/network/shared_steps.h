// Steps that several layers, or the network itself, add. All tensors are of `type` where nothing
// else is said.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/ops/elementwise.h"

namespace hlite::network {

// to = from, both of the shape of `like`.
void add_copy_step(plan::Plan& plan, FloatType type, const std::string& name, BufferId from,
                   BufferId to, const LayerTensor& like);

// `to` = `from`, both of the shape of `like`, under the mask of this rank's samples in this iteration
// (ops/dropout.h); that of a row does not depend on packing. `to` may be `from`.
struct DropoutSpec {
  double rate = 0;
  uint64_t stream = 0;  // random::stream_of() of a name
};
void add_dropout_step(plan::Plan& plan, const LayerIo& io, const DropoutSpec& spec,
                      const std::string& name, BufferId from, BufferId to, const LayerTensor& like);

// out = inputs[0] + inputs[1] + ..., or - or *, in that order, all of the shape of `like`.
void add_elementwise_step(plan::Plan& plan, FloatType type, const std::string& name,
                          ops::Elementwise how, const std::vector<BufferId>& inputs, BufferId out,
                          const LayerTensor& like);

// Columns [begin, begin + columns) of `from` [rows, width], to go to column `to_begin` on.
struct ColumnMove {
  BufferId from = kNoBuffer;
  int64_t width = 0, begin = 0, to_begin = 0, columns = 0;
};
// `to` [rows, width] put together: each column the sum of what moves there, or 0.
void add_columns_step(plan::Plan& plan, FloatType type, const std::string& name,
                      const std::vector<ColumnMove>& moves, BufferId to, int64_t width,
                      const RowCount& rows = {});

// The sums of all ranks, where there are several.
void add_gather_step(plan::Plan& plan, const LayerIo& io, const std::string& name,
                     const RankSums& sums);

// `to` [B, columns] of `type` = `from` [B, width], float, and zeros in the columns beyond.
struct CastFromFloat {
  BufferId from = kNoBuffer, to = kNoBuffer;
  int64_t width = 0, columns = 0;
};
void add_cast_from_float(plan::Plan& plan, FloatType type, const std::string& name,
                         const CastFromFloat& cast);

// `to` [B, width], float = `from` [B, width] of `type`.
void add_cast_to_float(plan::Plan& plan, FloatType type, const std::string& name, BufferId from,
                       BufferId to, int64_t width);

// `to` [B, width], float = f(`from` [B, width]) of `type`.
void add_affine_step(plan::Plan& plan, FloatType type, const std::string& name,
                     const ops::Affine& f, BufferId from, BufferId to, int64_t width);

}  // namespace hlite::network
