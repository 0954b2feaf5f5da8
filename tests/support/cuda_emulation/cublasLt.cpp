#include "tests/support/cuda_emulation/cublasLt.h"

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "hugectr_lite/core/half.h"
#include "tests/support/cuda_emulation/dlfcn.h"
#include "tests/support/cuda_emulation/stream_queues.h"

struct cublasLtContext {};
struct EmulatedMatmulDesc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t turn_a = CUBLAS_OP_N, turn_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
  void* mask = nullptr;
  int64_t mask_ld = 0;
};
struct EmulatedMatrixLayout {
  cudaDataType_t type;
  int64_t rows, columns, ld;
};
struct EmulatedPreference {
  uint64_t workspace = 0;
  uint32_t reductions = 7, a = 256, b = 256, c = 256, d = 256;
};

namespace hlite::emulation {
namespace {

constexpr uint64_t kMark = 0x656d756c61746564;  // in every algorithm of this library
constexpr int64_t kMaskUnit = 128;
constexpr uint32_t kRelu = 2, kBias = 4, kDrelu = 8, kBgrad = 16, kAux = 128;

MatmulLibrary the_library;
// Of its counts: devices of several threads use it at once.
std::mutex counting;

template <typename T, typename... Args>
cublasStatus_t create(T** object, Args... args) {
  *object = new T{args...};
  const std::lock_guard lock(counting);
  ++the_library.objects;
  ++the_library.created;
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T>
cublasStatus_t destroy(T* object) {
  if (!object) return CUBLAS_STATUS_INVALID_VALUE;
  delete object;
  const std::lock_guard lock(counting);
  --the_library.objects;
  return CUBLAS_STATUS_SUCCESS;
}

int64_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

float load(const void* data, cudaDataType_t type, int64_t i) {
  if (type == CUDA_R_16BF) return to_float(static_cast<const bf16*>(data)[i]);
  if (type == CUDA_R_16F) return to_float(static_cast<const fp16*>(data)[i]);
  return static_cast<const float*>(data)[i];
}
void store(void* data, cudaDataType_t type, int64_t i, float value) {
  if (type == CUDA_R_16BF)
    static_cast<bf16*>(data)[i] = from_float<bf16>(value);
  else if (type == CUDA_R_16F)
    static_cast<fp16*>(data)[i] = from_float<fp16>(value);
  else
    static_cast<float*>(data)[i] = value;
}

// Ten bits of fraction, ties to even.
float tf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  bits = hlite::detail::round_shift(bits, 13) << 13;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

struct Product {
  const EmulatedMatmulDesc& desc;
  const EmulatedMatrixLayout &a, &b, &d;

  [[nodiscard]] int64_t m() const { return d.rows; }
  [[nodiscard]] int64_t n() const { return d.columns; }
  [[nodiscard]] int64_t k() const { return desc.turn_a == CUBLAS_OP_N ? a.columns : a.rows; }
  [[nodiscard]] bool has(uint32_t part) const { return (desc.epilogue & part) != 0; }

  // What the real library refuses whatever the algorithm.
  [[nodiscard]] cublasStatus_t check() const {
    const int64_t a_rows = desc.turn_a == CUBLAS_OP_N ? a.rows : a.columns;
    const int64_t b_rows = desc.turn_b == CUBLAS_OP_N ? b.rows : b.columns;
    const int64_t b_columns = desc.turn_b == CUBLAS_OP_N ? b.columns : b.rows;
    if (a_rows != m() || b_rows != k() || b_columns != n()) return CUBLAS_STATUS_INVALID_VALUE;
    for (const EmulatedMatrixLayout* layout : {&a, &b, &d})
      if (layout->rows < 1 || layout->columns < 1 || layout->ld < layout->rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool types = a.type == b.type && (d.type == a.type || d.type == CUDA_R_32F);
    const bool compute = desc.compute == CUBLAS_COMPUTE_32F || a.type == CUDA_R_32F;
    if (!types || !compute || desc.scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    switch (desc.epilogue) {
      case CUBLASLT_EPILOGUE_DEFAULT:
        return CUBLAS_STATUS_SUCCESS;
      case kRelu:
      case kBias:
      case kRelu | kBias:
      case kRelu | kAux:
      case kRelu | kAux | kBias:
        break;
      case kDrelu | kAux:
      case kDrelu | kAux | kBgrad:
        if (k() == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
        break;
      default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!the_library.epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (has(kBias | kBgrad) && !desc.vector) return CUBLAS_STATUS_INVALID_VALUE;
    if (has(kBias | kBgrad) && !aligned(desc.vector, 16)) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (has(kAux) && (!desc.mask || !aligned(desc.mask, 16) || desc.mask_ld % kMaskUnit != 0 ||
                      desc.mask_ld < m()))
      return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
  }

  static bool aligned(const void* pointer, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  }
  // Whether the algorithm that loads 16 bytes can run, but for the matrices' own addresses.
  [[nodiscard]] bool rows_aligned() const {
    for (const EmulatedMatrixLayout* layout : {&a, &b, &d})
      if (layout->ld * size_of(layout->type) % 16 != 0) return false;
    return true;
  }
  [[nodiscard]] size_t workspace(int algorithm) const {
    return algorithm == 0 ? 0 : static_cast<size_t>(m() * n() * (algorithm + 1)) * sizeof(float);
  }
  [[nodiscard]] bool supports(int algorithm) const {
    return algorithm < MatmulLibrary::kAlgorithms - 1 || rows_aligned();
  }

  // op(x) [rows, columns] as floats, its `rows` neighbours.
  [[nodiscard]] std::vector<float> factor(const void* data, const EmulatedMatrixLayout& layout,
                                          bool turned, int64_t rows, int64_t columns) const {
    std::vector<float> all(static_cast<size_t>(rows * columns));
    for (int64_t column = 0; column < columns; ++column)
      for (int64_t row = 0; row < rows; ++row) {
        const float value =
            load(data, layout.type, turned ? row * layout.ld + column : column * layout.ld + row);
        all[static_cast<size_t>(column * rows + row)] =
            desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? tf32(value) : value;
      }
    return all;
  }

  // sums[row] = the sum over k, in `parts` parts, each summed from the left. `left` [k][m],
  // `column` [k] of the other factor.
  void dots(const float* left, const float* column, int parts, std::vector<float>& partial,
            std::vector<float>& sums) const {
    const auto rows = static_cast<size_t>(m());
    sums.assign(rows, 0);
    for (int part = 0; part < parts; ++part) {
      partial.assign(rows, 0);
      for (int64_t i = k() * part / parts; i < k() * (part + 1) / parts; ++i)
        for (size_t row = 0; row < rows; ++row)
          partial[row] += left[static_cast<size_t>(i) * rows + row] * column[i];
      for (size_t row = 0; row < rows; ++row) sums[row] += partial[row];
    }
  }

  // Algorithm `number` sums in number + 1 parts. before: 1 adds to what d holds, 0 does not read
  // it.
  void multiply(const void* a_data, const void* b_data, void* d_data, int number,
                float before) const {
    const bool faulty = the_library.faulty < 0 || the_library.faulty == number;
    const EpilogueFault fault = faulty ? the_library.fault : EpilogueFault::kNone;
    const auto is = [&](EpilogueFault one) { return fault == one; };
    auto* const mask = static_cast<unsigned char*>(desc.mask);
    std::vector<float> bias_gradient(static_cast<size_t>(m()));
    const bool backwards = is(EpilogueFault::kVaries) && ++the_library.varied % 2 == 0;
    const std::vector<float> left = factor(a_data, a, desc.turn_a == CUBLAS_OP_T, m(), k()),
                             right = factor(b_data, b, desc.turn_b == CUBLAS_OP_T, k(), n());
    std::vector<float> partial, sums;
    for (int64_t i = 0; i < n(); ++i) {
      const int64_t column = backwards ? n() - 1 - i : i;
      dots(left.data(), right.data() + column * k(), number + 1, partial, sums);
      for (int64_t row = 0; row < m(); ++row) {
        float z = sums[static_cast<size_t>(row)];
        if (before != 0) z += load(d_data, d.type, column * d.ld + row);
        if (has(kBias) && !is(EpilogueFault::kNoBias)) z += load(desc.vector, d.type, row);
        const int64_t bit = column * desc.mask_ld + row;
        const auto flag = static_cast<unsigned char>(1u << (bit % 8));
        if (has(kRelu) && has(kAux) && !is(EpilogueFault::kNoMask)) {
          if (z > 0 || is(EpilogueFault::kFullMask))
            mask[bit / 8] |= flag;
          else
            mask[bit / 8] &= static_cast<unsigned char>(~flag);
        }
        const bool stays = z > 0 || (z != z && the_library.relu_keeps_nan);
        if (has(kRelu) && !stays && !is(EpilogueFault::kNoRelu)) z = 0;
        if (is(EpilogueFault::kUnmaskedSums)) bias_gradient[static_cast<size_t>(row)] += z;
        if (has(kDrelu) && (mask[bit / 8] & flag) == 0 && !is(EpilogueFault::kIgnoresMask)) z = 0;
        if (!is(EpilogueFault::kUnmaskedSums)) bias_gradient[static_cast<size_t>(row)] += z;
        store(d_data, d.type, column * d.ld + row, z);
      }
    }
    if (has(kBgrad) && !is(EpilogueFault::kNoSums))
      for (int64_t row = 0; row < m(); ++row)
        store(desc.vector, d.type, row, bias_gradient[static_cast<size_t>(row)]);
  }
};

// The number of an algorithm of this library, or -1.
int number_of(const cublasLtMatmulAlgo_t& algorithm) {
  return algorithm.data[0] == kMark && algorithm.data[1] < MatmulLibrary::kAlgorithms
             ? static_cast<int>(algorithm.data[1])
             : -1;
}

// Copies an attribute of exactly that size.
template <typename T>
cublasStatus_t set(T* attribute, const void* value, size_t bytes) {
  if (!value || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Pointer>
void* address(Pointer* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

MatmulLibrary& matmul_library() { return the_library; }

void* matmul_function(const std::string& name) {
  static const std::map<std::string, void*> functions = {
      {"cublasLtGetVersion", address(cublasLtGetVersion)},
      {"cublasLtGetStatusString", address(cublasLtGetStatusString)},
      {"cublasLtCreate", address(cublasLtCreate)},
      {"cublasLtDestroy", address(cublasLtDestroy)},
      {"cublasLtMatmulDescCreate", address(cublasLtMatmulDescCreate)},
      {"cublasLtMatmulDescDestroy", address(cublasLtMatmulDescDestroy)},
      {"cublasLtMatmulDescSetAttribute", address(cublasLtMatmulDescSetAttribute)},
      {"cublasLtMatrixLayoutCreate", address(cublasLtMatrixLayoutCreate)},
      {"cublasLtMatrixLayoutDestroy", address(cublasLtMatrixLayoutDestroy)},
      {"cublasLtMatmulPreferenceCreate", address(cublasLtMatmulPreferenceCreate)},
      {"cublasLtMatmulPreferenceDestroy", address(cublasLtMatmulPreferenceDestroy)},
      {"cublasLtMatmulPreferenceSetAttribute", address(cublasLtMatmulPreferenceSetAttribute)},
      {"cublasLtMatmulAlgoGetHeuristic", address(cublasLtMatmulAlgoGetHeuristic)},
      {"cublasLtMatmulAlgoCheck", address(cublasLtMatmulAlgoCheck)},
      {"cublasLtMatmul", address(cublasLtMatmul)}};
  const auto function = functions.find(name);
  const bool found = function != functions.end() && name != the_library.missing_function;
  return found ? function->second : nullptr;
}

}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the requested functionality is not supported";
  }
  return "unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(desc, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(&desc->turn_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(&desc->turn_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(&desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(&desc->vector, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(&desc->mask, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(&desc->mask_ld, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  return create(layout, type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(&preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(&preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(&preference->a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(&preference->b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(&preference->c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(&preference->d, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  {
    const std::lock_guard lock(counting);
    ++the_library.searches;
  }
  *count = 0;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (asked <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{*desc, *a, *b, *d};
  if (const cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  const bool aligned = preference->a % 16 == 0 && preference->b % 16 == 0 &&
                       preference->c % 16 == 0 && preference->d % 16 == 0;
  for (int i = 0; i < MatmulLibrary::kAlgorithms && *count < asked; ++i) {
    if (!product.supports(i) || product.workspace(i) > preference->workspace) continue;
    if (i > 0 && (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0) continue;
    if (i == MatmulLibrary::kAlgorithms - 1 && !aligned) continue;
    results[(*count)++] = {
        {{kMark, static_cast<uint64_t>(i)}}, product.workspace(i), CUBLAS_STATUS_SUCCESS, 1.0f};
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Product product{*desc, *a, *b, *d};
  const int number = number_of(*algorithm);
  if (number < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (!product.supports(number)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = product.workspace(number);
  return product.check();
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  // Nobody here scales, and who adds does so to d itself and without an epilogue.
  const float before = *static_cast<const float*>(beta);
  if (*static_cast<const float*>(alpha) != 1 || (before != 0 && before != 1) || c != d ||
      c_layout != d_layout || !a || !b || !d || !algorithm ||
      (before != 0 && desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT))
    return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{*desc, *a_layout, *b_layout, *d_layout};
  if (const cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  const int number = number_of(*algorithm);
  if (number < 0 || product.workspace(number) > workspace_bytes ||
      (product.workspace(number) > 0 && !workspace))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool aligned =
      Product::aligned(a, 16) && Product::aligned(b, 16) && Product::aligned(d, 16);
  if (!product.supports(number) || the_library.fails[number] ||
      (number == MatmulLibrary::kAlgorithms - 1 && !aligned))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  cudaStreamCaptureStatus status;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
      check_fault_on(stream, "product") != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  hlite::emulation::submit(
      stream,
      [=, of = *desc, a_of = *a_layout, b_of = *b_layout, d_of = *d_layout] {
        const Product captured{of, a_of, b_of, d_of};
        // A real algorithm leaves its partial results there.
        if (workspace) std::memset(workspace, 0xFF, captured.workspace(number));
        captured.multiply(a, b, d, number, before);
      },
      "product");
  {
    const std::lock_guard lock(counting);
    the_library.multiplied.push_back(number);
    the_library.last_epilogue = desc->epilogue;
  }
  const auto held = StreamQueues::lock();
  machine().clock_ms += the_library.milliseconds[number];
  if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    machine().clock_ms += the_library.epilogue_milliseconds;
  return CUBLAS_STATUS_SUCCESS;
}
