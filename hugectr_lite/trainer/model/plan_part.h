// PlanPart: one of the parts that a model is made of. It names its buffers, and adds its steps to
// the plans, stage by stage.
#pragma once

#include "hugectr_lite/network/layer.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::trainer {

// The stages of an iteration, in their order: the steps of all parts in one stage are added before
// those of the next. Dependencies come from what steps read and write, as ever.
enum class Stage {
  kCopyIn,        // the batch
  kLookup,        // rows of the tables -> vectors
  kRates,         // step number and learning rates
  kForward,       // up to the loss
  kBackward,      // gradients of the network
  kRowGradients,  // of the tables' rows, on their owners
  kSum,           // of gradients over ranks
  kRegularize,    // what comes behind the sum
  kLossScale,     // whether the updates take place
  kDenseUpdate,
  kRowUpdate,
};
inline constexpr Stage kTrainStages[] = {
    Stage::kCopyIn,    Stage::kLookup,       Stage::kRates,    Stage::kForward,
    Stage::kBackward,  Stage::kRowGradients, Stage::kSum,      Stage::kRegularize,
    Stage::kLossScale, Stage::kDenseUpdate,  Stage::kRowUpdate};
inline constexpr Stage kEvalStages[] = {Stage::kCopyIn, Stage::kLookup, Stage::kForward};

class PlanPart {
 public:
  virtual ~PlanPart() = default;
  // Names the part's buffers. Once, in the order of the model's list: a part may use what those
  // before it have named.
  virtual void declare(plan::Buffers& buffers) = 0;
  // Adds the part's steps of one stage, if it has any there. After all parts were declared.
  virtual void emit(plan::Plan& plan, Stage stage, network::Phase phase) = 0;
};

}  // namespace hlite::trainer
