// The optimizers by name, apart from the parser: kernels use them too.
#pragma once

namespace hlite::config {

enum class OptimizerType { kSgd, kMomentum, kNesterov, kAdam, kAdaGrad };
enum class UpdateType { kLocal, kGlobal, kLazyGlobal };

}  // namespace hlite::config
