// WholeTableUpdate: the update of a layer's own rows whose gradients are kept as a whole, like
// those of a dense parameter (TablesSpec::whole_gradients):
//
//   <layer>.clear        gradients 0                                      embedding
//   <layer>.gradients    += the sums of the batch's rows                  embedding
//   (penalties and clipping, which are others' steps)
//   <layer>.update       one step of the optimizer for every row          embedding
//
// The sums are a sparse update's: a step of SGD with a rate of -1 on the gradients in place of the
// weights adds each row's gradient to what is there, exactly. Every row moves in every step, so it
// costs a few passes over the tables.
#pragma once

#include "embedding/table_storage.h"
#include "embedding/tables_io.h"
#include "embedding/tables_spec.h"
#include "embedding/updated_rows.h"

namespace hlite::embedding {

class WholeTableUpdate {
 public:
  // Both must outlive it.
  WholeTableUpdate(const TablesSpec& spec, const TableStorage& storage)
      : spec_(spec), storage_(storage) {}

  void declare(plan::Buffers& buffers);
  [[nodiscard]] plan::BufferId gradients() const { return gradients_; }
  [[nodiscard]] plan::BufferId sum_rate() const { return sum_rate_; }  // float: -1 in every step
  // By which the sums are added up: what they change, and by which rule.
  [[nodiscard]] UpdatedRows summed() const;
  [[nodiscard]] static optimizer::UpdateRule sum_rule() { return {}; }  // SGD
  static constexpr float kSumRate = -1;

  // "<layer>.clear", which sets the rate, too.
  void emit_clear(plan::Plan& plan) const;
  // The step that moves the rows that `gradients` are of: "<layer>.update" of own ones,
  // "<layer>.update_replicated".
  void emit_update(plan::Plan& plan, const TablesIo& io, const WholeGradients& gradients) const;
  [[nodiscard]] WholeGradients of_own_rows() const;

 private:
  void update(const Exec& exec, const TablesIo& io, const WholeGradients& of,
              const optimizer::GradientScale& scale) const;

  const TablesSpec& spec_;
  const TableStorage& storage_;
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId gradients_ = plan::kNoBuffer, sum_rate_ = plan::kNoBuffer;
};

}  // namespace hlite::embedding
