#include "tests/support/cuda_emulation/matmul_product.h"

#include <cstring>

#include "hugectr_lite/core/half.h"

namespace hlite::emulation {
namespace {

constexpr int64_t kMaskUnit = 128;
constexpr uint32_t kRelu = 2, kBias = 4, kDrelu = 8, kBgrad = 16, kAux = 128, kBgradA = 256;

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

float rounded(float value, cudaDataType_t type) {
  float stored = 0;
  store(&stored, type, 0, value);
  return load(&stored, type, 0);
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

// sums[row] = the sum over k, in `parts` parts, each summed from the left. `left` [k][m],
// `column` [k] of the other factor.
void dots(int64_t m, int64_t k, const float* left, const float* column, int parts,
          std::vector<float>& partial, std::vector<float>& sums) {
  const auto rows = static_cast<size_t>(m);
  sums.assign(rows, 0);
  for (int part = 0; part < parts; ++part) {
    partial.assign(rows, 0);
    for (int64_t i = k * part / parts; i < k * (part + 1) / parts; ++i)
      for (size_t row = 0; row < rows; ++row)
        partial[row] += left[static_cast<size_t>(i) * rows + row] * column[i];
    for (size_t row = 0; row < rows; ++row) sums[row] += partial[row];
  }
}

}  // namespace

cublasStatus_t MatmulProduct::check() const {
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
  return check_epilogue();
}

cublasStatus_t MatmulProduct::check_epilogue() const {
  switch (desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return CUBLAS_STATUS_SUCCESS;
    case kRelu:
    case kBias:
    case kRelu | kBias:
    case kRelu | kAux:
    case kRelu | kAux | kBias:
    case kBgradA:
      break;
    case kDrelu | kAux:
    case kDrelu | kAux | kBgrad:
      if (k() == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
      break;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!matmul_library().epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (has(kBias | kBgrad | kBgradA) && !desc.vector) return CUBLAS_STATUS_INVALID_VALUE;
  if (has(kBias | kBgrad | kBgradA) && !aligned(desc.vector, 16))
    return CUBLAS_STATUS_EXECUTION_FAILED;
  if (has(kAux) && (!desc.mask || !aligned(desc.mask, 16) || desc.mask_ld % kMaskUnit != 0 ||
                    desc.mask_ld < m()))
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

// Returns true if the algorithm that loads 16 bytes can run, apart from the matrices' addresses.
bool MatmulProduct::rows_aligned() const {
  for (const EmulatedMatrixLayout* layout : {&a, &b, &d})
    if (layout->ld * size_of(layout->type) % 16 != 0) return false;
  return true;
}

// op(x) [rows, columns] as floats, its `rows` neighbours.
std::vector<float> MatmulProduct::factor(const void* data, const EmulatedMatrixLayout& layout,
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

void MatmulProduct::multiply(const void* a_data, const void* b_data, void* d_data, int number,
                             float before) const {
  const int64_t rows = m(), columns = n(), depth = k();
  const bool faulty = matmul_library().faulty < 0 || matmul_library().faulty == number;
  const EpilogueFault fault = faulty ? matmul_library().fault : EpilogueFault::kNone;
  const auto is = [&](EpilogueFault one) { return fault == one; };
  auto* const mask = static_cast<unsigned char*>(desc.mask);
  std::vector<float> bias_gradient(static_cast<size_t>(rows));
  const bool backwards =
      is(EpilogueFault::kVaries) && ++matmul_library().varied % matmul_library().varies_every == 0;
  const std::vector<float> left = factor(a_data, a, desc.turn_a == CUBLAS_OP_T, rows, depth),
                           right = factor(b_data, b, desc.turn_b == CUBLAS_OP_T, depth, columns);
  std::vector<float> partial, sums;
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t column = backwards ? columns - 1 - i : i;
    dots(rows, depth, left.data(), right.data() + column * depth, number + 1, partial, sums);
    for (int64_t row = 0; row < rows; ++row) {
      float z = sums[static_cast<size_t>(row)];
      // Like the real library, which rounds a sum of parts before it adds what d holds.
      if ((before != 0 && number > 0) || (has(kBias) && is(EpilogueFault::kRoundsTwice)))
        z = rounded(z, d.type);
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
      const bool stays = z > 0 || (z != z && matmul_library().relu_keeps_nan);
      if (has(kRelu) && !stays && !is(EpilogueFault::kNoRelu)) z = 0;
      if (has(kBgrad) && is(EpilogueFault::kUnmaskedSums))
        bias_gradient[static_cast<size_t>(row)] += z;
      if (has(kDrelu) && (mask[bit / 8] & flag) == 0 && !is(EpilogueFault::kIgnoresMask)) z = 0;
      if (has(kBgrad) && !is(EpilogueFault::kUnmaskedSums))
        bias_gradient[static_cast<size_t>(row)] += z;
      store(d_data, d.type, column * d.ld + row, z);
    }
  }
  if (has(kBgradA))
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t term = backwards ? depth - 1 - i : i;
        bias_gradient[static_cast<size_t>(row)] += left[static_cast<size_t>(term * rows + row)];
      }
  if (has(kBgrad | kBgradA) && !is(EpilogueFault::kNoSums))
    for (int64_t row = 0; row < rows; ++row)
      store(desc.vector, d.type, row, bias_gradient[static_cast<size_t>(row)]);
}

}  // namespace hlite::emulation
