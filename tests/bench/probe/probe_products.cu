// P1: every product of DLRM and DCNv2 with each epilogue, and what cuBLASLt makes of it.
#include <bit>
#include <cmath>
#include <cstdio>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/mix.h"
#include "tests/bench/probe/probe_device.cuh"

namespace hlite::probe {
namespace {

constexpr int kThreads = 256;
constexpr int kRepeats = 20;  // under load, whose bits are compared
constexpr int64_t kMaskBits = 128;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

constexpr int64_t mask_bits(int64_t rows) { return (rows + kMaskBits - 1) / kMaskBits * kMaskBits; }

__global__ void fill_kernel(bf16* data, int64_t n, uint64_t seed) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x)
    data[i] = from_float<bf16>(
        static_cast<float>(mix(static_cast<uint64_t>(i) * 2 + seed) >> 40) * 0x1p-23f - 1);
}

__global__ void fill_words_kernel(uint32_t* data, int64_t n, uint64_t seed) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x)
    data[i] = static_cast<uint32_t>(mix(static_cast<uint64_t>(i) + seed));
}

// Adds to *digest a number that depends on every word and its place, in no order.
__global__ void digest_kernel(const uint32_t* words, int64_t n, unsigned long long* digest) {
  unsigned long long sum = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x)
    sum += mix((static_cast<uint64_t>(i) << 32) ^ words[i]);
  for (int other = kWarp / 2; other > 0; other /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, other);
  if (threadIdx.x % kWarp == 0) atomicAdd(digest, sum);
}

// What is found of a result against the plain product in float.
struct Found {
  unsigned long long differ;      // elements with other bits than the rounded expectation
  unsigned long long mask_wrong;  // bits of a written mask that do not fit the result
  unsigned most, worst;           // bits of the largest |expected| and |result - expected|
};

struct Expected {
  const float* plain;
  const bf16* bias;     // or null
  const uint8_t* mask;  // or null
  bool relu, reads_mask;
  int64_t m, n, mask_bits;
};

template <typename T>
__global__ void compare_kernel(const T* result, Expected e, Found* found) {
  unsigned long long differ = 0, mask_wrong = 0;
  float most = 0, worst = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < e.m * e.n;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i % e.m, column = i / e.m;
    float value = e.plain[i];
    if (e.bias) value += to_float(e.bias[row]);
    if (e.relu && value < 0) value = 0;
    bool bit = true;
    if (e.mask) {
      const int64_t at = column * e.mask_bits + row;
      bit = (e.mask[at / 8] >> (at % 8) & 1) != 0;
    }
    if (e.reads_mask && !bit) value = 0;
    const float rounded = to_float(from_float<T>(value)), is = to_float(result[i]);
    differ += detail::bits_of(rounded) != detail::bits_of(is) && rounded != is;  // -0 is 0
    if (e.mask && !e.reads_mask) mask_wrong += bit ? is < 0 : is > 0;
    const float difference = fabsf(is - rounded), size = fabsf(rounded);
    worst = difference > worst || difference != difference ? difference : worst;
    most = size > most ? size : most;
  }
  atomicAdd(&found->differ, differ);
  atomicAdd(&found->mask_wrong, mask_wrong);
  atomicMax(&found->most, detail::bits_of(most));
  atomicMax(&found->worst, detail::bits_of(worst));
}

// sums[row] against the sum of `of` [m,n], column-major, over its columns: a thread a row.
template <typename S>
__global__ void compare_sums_kernel(const S* sums, const bf16* of, int64_t m, int64_t n,
                                    Found* found) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= m) return;
  double sum = 0;
  for (int64_t column = 0; column < n; ++column)
    sum += static_cast<double>(to_float(of[column * m + row]));
  const double off = static_cast<double>(to_float(sums[row])) - sum;
  atomicMax(&found->most, detail::bits_of(static_cast<float>(sum < 0 ? -sum : sum)));
  atomicMax(&found->worst, detail::bits_of(static_cast<float>(off < 0 ? -off : off)));
}

LaunchShape shape_for(const char* name, int64_t n, cudaStream_t stream) {
  return {
      .name = name, .grid = grid_for(n, kThreads, 2048), .block = dim3(kThreads), .stream = stream};
}

// Of the largest expectation; 1e30 where it is no number at all.
double relative(const Found& found) {
  const auto most = static_cast<double>(detail::float_of(found.most)),
             worst = static_cast<double>(detail::float_of(found.worst));
  return std::isfinite(most) && std::isfinite(worst) ? worst / (most > 0 ? most : 1) : 1e30;
}

bool has(const Epilogue& epilogue, int part) { return (epilogue.number & part) != 0; }

class ProductProbe {
 public:
  explicit ProductProbe(const Context& context)
      : context_(context),
        batches_(context.small ? std::vector<int64_t>{16}
                               : std::vector<int64_t>(kBatches.begin(), kBatches.end())),
        a_(largest([](const Product& p) { return p.m * p.k; })),
        b_(largest([](const Product& p) { return p.k * p.n; })),
        d_(largest([](const Product& p) { return p.m * p.n * (p.float_result ? 2 : 1); })),
        plain_(largest([](const Product& p) { return p.m * p.n; })),
        bias_(largest([](const Product& p) { return p.m; })),
        sums_(bias_.size()),
        mask_(largest([](const Product& p) { return mask_bits(p.m) * p.n / 32; })),
        workspace_(PreparedProduct::kWorkspaceBytes),
        load_(context.small ? 1024 : int64_t{1} << 27),
        load_to_(load_.size()),
        digests_(kRepeats),
        found_(1) {
    fill_bf16(a_.data(), a_.size(), 1, stream_.get());
    fill_bf16(b_.data(), b_.size(), 2, stream_.get());
    fill_bf16(bias_.data(), bias_.size(), 3, stream_.get());
    load_.zero(stream_.get());
    stream_.synchronize();
  }

  void run() {
    const std::vector<int> targets = sm_targets(multiprocessors());
    // What says most first: the whole device, then parts of it.
    for (const bool whole : {true, false})
      for (const int64_t batch : batches_)
        for (const Product& product : small(products_of(batch)))
          for (const int sms : targets)
            if ((sms == 0) == whole)
              for (const Epilogue& epilogue : product.epilogues) {
                if (context_.left() <= 0)
                  throw CudaError("its time is over at " + product.name + ", batch " +
                                  std::to_string(batch));
                measure(product, batch, epilogue, sms);
              }
  }

 private:
  // A product of an emulated GPU is one of the shapes' kinds, with few rows.
  [[nodiscard]] std::vector<Product> small(std::vector<Product> products) const {
    if (!context_.small) return products;
    for (Product& p : products)
      for (int64_t* size : {&p.m, &p.n, &p.k}) *size = std::min<int64_t>(*size, 16);
    products.resize(3);
    return products;
  }
  template <typename Size>
  [[nodiscard]] int64_t largest(const Size& size) const {
    int64_t most = 1;
    for (const Product& p : small(products_of(batches_.front()))) most = std::max(most, size(p));
    return most;
  }

  void measure(const Product& product, int64_t batch, const Epilogue& epilogue, int sms) {
    const bool reads_mask = has(epilogue, kDrelu);
    Operands operands{.a = a_.data(), .b = b_.data(), .d = d_.data()};
    if (has(epilogue, kBias)) operands.bias = bias_.data();
    if (has(epilogue, kBgrad | kBgrada)) operands.sums = sums_.data();
    if (has(epilogue, kAux)) operands.mask = mask_.data();
    if (reads_mask)
      launch(shape_for("fill_words", mask_.size(), stream_.get()), fill_words_kernel, mask_.data(),
             mask_.size(), uint64_t{4});
    const auto prepared = library_.prepare(product, epilogue, product.float_result, operands, sms,
                                           PreparedProduct::kMostAsked);
    const ProductLibrary::Best best = ProductLibrary::fastest(
        *prepared, stream_.get(), workspace_.data(), [&] { return context_.left() > 0; });
    const bool any = best.candidate >= 0;
    sums_.zero(stream_.get());  // what is not written differs
    const auto of = static_cast<size_t>(std::max(0, best.candidate));
    int64_t varied = 0;
    double differ = kNone, worst = kNone, sums_worst = kNone, mask_wrong = kNone;
    if (any) {
      varied = varied_repeats(*prepared, of, product, operands, best.us);
      if (sms == 0) {
        const Found found = compare(*prepared, of, product, epilogue, operands);
        const auto elements = static_cast<double>(product.m * product.n);
        differ = static_cast<double>(found.differ) / elements;
        worst = relative(found);
        if (operands.mask && !reads_mask)
          mask_wrong = static_cast<double>(found.mask_wrong) / elements;
        if (operands.sums) sums_worst = compare_sums(product, epilogue);
      }
    }
    context_.put(Record("P1")
                     .add("product", product.name)
                     .add("batch", batch)
                     .add("epilogue", epilogue.name)
                     .add("sms", sms)
                     .add("us", any ? best.us : kNone)
                     .add("tflops", any ? product.flops() / best.us * 1e-6 : kNone)
                     .add("us_first", any ? best.us_first : kNone)
                     .add("candidates", static_cast<int64_t>(prepared->candidates()))
                     .add("ran", best.ran)
                     .add("varied", varied)
                     .add("repeats", any ? kRepeats : 0)
                     .add("differ", differ)
                     .add("worst", worst)
                     .add("sums_worst", sums_worst)
                     .add("mask_wrong", mask_wrong)
                     .add("algorithm", any ? prepared->algorithm(of) : ""));
  }

  // Repeats of the same product while the device copies that gave other bits than the first.
  int64_t varied_repeats(const PreparedProduct& prepared, size_t candidate, const Product& product,
                         const Operands& operands, double us) const {
    digests_.zero(stream_.get());
    stream_.synchronize();
    constexpr double kCopyUs = 60;
    const int copies =
        context_.small ? 1
                       : static_cast<int>(std::clamp(kRepeats * (us + 100) / kCopyUs, 20.0, 400.0));
    for (int i = 0; i < copies; ++i)
      HLITE_CUDA(cudaMemcpyAsync(load_to_.data(), load_.data(), load_.bytes(), cudaMemcpyDefault,
                                 other_.get()));
    const bool writes_mask = operands.mask && product.turn_a == false;
    for (int i = 0; i < kRepeats; ++i) {
      const auto digest = [&](const void* data, int64_t words) {
        add_digest(data, words, digests_.data() + i, stream_.get());
      };
      if (!prepared.run(candidate, stream_.get(), workspace_.data()))
        throw CudaError(product.name + ": a product that ran does so no more");
      digest(operands.d, product.m * product.n / (product.float_result ? 1 : 2));
      if (writes_mask) digest(operands.mask, mask_bits(product.m) * product.n / 32);
      if (operands.sums) digest(operands.sums, product.m / (product.float_result ? 1 : 2));
    }
    const auto digests = digests_.to_host(stream_.get());
    other_.synchronize();
    return count_different({digests.begin(), digests.end()});
  }

  // The result in d_ against the plain product, which is made anew in float.
  Found compare(const PreparedProduct& prepared, size_t candidate, const Product& product,
                const Epilogue& epilogue, const Operands& operands) const {
    Operands of = operands;
    of.d = plain_.data();
    const auto plain = library_.prepare(product, kPlain, true, of, 0, 1);
    if (plain->candidates() == 0 || !plain->run(0, stream_.get(), workspace_.data()) ||
        !prepared.run(candidate, stream_.get(), workspace_.data()))
      throw CudaError(product.name + ": there is no plain product in float to compare with");
    found_.zero(stream_.get());
    const Expected expected{.plain = plain_.data(),
                            .bias = static_cast<const bf16*>(operands.bias),
                            .mask = static_cast<const uint8_t*>(operands.mask),
                            .relu = has(epilogue, kRelu),
                            .reads_mask = has(epilogue, kDrelu),
                            .m = product.m,
                            .n = product.n,
                            .mask_bits = mask_bits(product.m)};
    const LaunchShape shape = shape_for("compare", product.m * product.n, stream_.get());
    if (product.float_result)
      launch(shape, compare_kernel<float>, reinterpret_cast<const float*>(d_.data()), expected,
             found_.data());
    else
      launch(shape, compare_kernel<bf16>, static_cast<const bf16*>(d_.data()), expected,
             found_.data());
    return found_.to_host(stream_.get())[0];
  }

  double compare_sums(const Product& product, const Epilogue& epilogue) const {
    found_.zero(stream_.get());
    const LaunchShape shape{.name = "compare_sums",
                            .grid = grid_for(product.m, kWarp),
                            .block = dim3(kWarp),
                            .stream = stream_.get()};
    if (has(epilogue, kBgrada))
      launch(shape, compare_sums_kernel<float>, static_cast<const float*>(sums_.data()),
             static_cast<const bf16*>(a_.data()), product.m, product.k, found_.data());
    else
      launch(shape, compare_sums_kernel<bf16>, reinterpret_cast<const bf16*>(sums_.data()),
             static_cast<const bf16*>(d_.data()), product.m, product.n, found_.data());
    return relative(found_.to_host(stream_.get())[0]);
  }

  const Context& context_;
  std::vector<int64_t> batches_;
  ProbeStream stream_, other_;
  ProductLibrary library_;
  Array<bf16> a_, b_, d_;
  Array<float> plain_;
  Array<bf16> bias_;
  Array<float> sums_;
  Array<uint32_t> mask_;
  Array<char> workspace_, load_, load_to_;
  Array<unsigned long long> digests_;
  Array<Found> found_;
};

}  // namespace

int multiprocessors() {
  int device = 0, count = 0;
  HLITE_CUDA(cudaGetDevice(&device));
  HLITE_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

void add_digest(const void* data, int64_t words, unsigned long long* digest, void* stream) {
  launch(shape_for("digest", words, static_cast<cudaStream_t>(stream)), digest_kernel,
         static_cast<const uint32_t*>(data), words, digest);
}

void fill_bf16(void* data, int64_t n, uint64_t seed, void* stream) {
  launch(shape_for("fill", n, static_cast<cudaStream_t>(stream)), fill_kernel,
         static_cast<bf16*>(data), n, seed << 50);
}

PreparedProduct::PreparedProduct(cublasLtHandle_t handle, const Product& p,
                                 const Epilogue& epilogue, bool float_result,
                                 const Operands& operands, int sms, int asked)
    : handle_(handle), operands_(operands) {
  const ops::gpu::CublasLt& lt = ops::gpu::cublaslt();
  const auto layout = [&](cublasLtMatrixLayout_t* to, cudaDataType_t type, int64_t rows,
                          int64_t columns) {
    HLITE_CUBLASLT(lt.layout_create(to, type, static_cast<uint64_t>(rows),
                                    static_cast<uint64_t>(columns), rows));
  };
  layout(&a_, CUDA_R_16BF, p.turn_a ? p.k : p.m, p.turn_a ? p.m : p.k);
  layout(&b_, CUDA_R_16BF, p.turn_b ? p.n : p.k, p.turn_b ? p.k : p.n);
  layout(&d_, float_result ? CUDA_R_32F : CUDA_R_16BF, p.m, p.n);
  HLITE_CUBLASLT(lt.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    HLITE_CUBLASLT(lt.desc_set(desc_, attribute, &value, sizeof(value)));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.turn_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.turn_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<cublasLtEpilogue_t>(epilogue.number));
  if (has(epilogue, kBias)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (has(epilogue, kBgrad | kBgrada)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.sums);
  if (has(epilogue, kAux)) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.mask);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, mask_bits(p.m));
  }
  if (sms > 0) set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t{sms});

  cublasLtMatmulPreference_t preference = nullptr;
  HLITE_CUBLASLT(lt.preference_create(&preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    HLITE_CUBLASLT(lt.preference_set(preference, attribute, &value, sizeof(value)));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, uint32_t{256});
  cublasLtMatmulHeuristicResult_t found[kMostAsked] = {};
  int count = 0;
  const cublasStatus_t status = lt.heuristic(handle_, desc_, a_, b_, d_, d_, preference,
                                             std::min(asked, kMostAsked), found, &count);
  (void)lt.preference_destroy(preference);
  // As in ops/matmul_search.cu: either may be said of a combination that it does not know.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return;
  ops::gpu::check_cublaslt(status, "cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS)
      algorithms_.push_back(std::bit_cast<Algorithm>(found[i].algo));
}

PreparedProduct::~PreparedProduct() {
  const ops::gpu::CublasLt& lt = ops::gpu::cublaslt();
  for (const cublasLtMatrixLayout_t layout : {a_, b_, d_})
    if (layout) (void)lt.layout_destroy(layout);
  if (desc_) (void)lt.desc_destroy(desc_);
}

bool PreparedProduct::run(size_t candidate, cudaStream_t stream, void* workspace) const {
  const float one = 1, zero = 0;
  const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(algorithms_[candidate]);
  const cublasStatus_t status = ops::gpu::cublaslt().matmul(
      handle_, desc_, &one, operands_.a, a_, operands_.b, b_, &zero, operands_.d, d_, operands_.d,
      d_, &algorithm, workspace, kWorkspaceBytes, stream);
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  (void)cudaGetLastError();
  return false;
}

std::string PreparedProduct::algorithm(size_t candidate) const {
  std::string text;
  for (const uint64_t word : algorithms_[candidate]) {
    char number[20];
    std::snprintf(number, sizeof number, "%s%016llx", text.empty() ? "" : ",",
                  static_cast<unsigned long long>(word));
    text += number;
  }
  return text;
}

ProductLibrary::Best ProductLibrary::fastest(const PreparedProduct& prepared, cudaStream_t stream,
                                             void* workspace, const std::function<bool()>& left) {
  // One time shows which are worth a better one.
  constexpr double kWorth = 1.6, kTimedUs = 200;
  constexpr double kShortUs = 20, kCallUs = 5;  // the host may be slower than such a product
  constexpr int kTimings = 3, kMostRepeats = 20;
  Best best;
  const Timer timer;
  for (size_t i = 0; i < prepared.candidates(); ++i) {
    if (best.ran > 0 && !left()) break;
    if (!prepared.run(i, stream, workspace)) continue;
    const auto run = [&] { (void)prepared.run(i, stream, workspace); };
    const double once = timer.best(stream, 1, 1, run);
    ++best.ran;
    const bool first = best.candidate < 0;
    if (!first && once > kWorth * best.us) continue;
    const int times =
        static_cast<int>(std::clamp(kTimedUs / std::max(once, 1.0), 1.0, double{kMostRepeats}));
    const double us =
        timer.best(stream, kTimings, times, run, once < kShortUs ? kCallUs * times : 0);
    if (first) best.us_first = us;
    if (first || us < best.us) {
      best.us = us;
      best.candidate = static_cast<int>(i);
    }
  }
  return best;
}

std::function<void(void* stream)> weight_gradients(const Context& context, int64_t batch, int sms) {
  struct State {
    ProductLibrary library;
    std::vector<std::unique_ptr<Array<char>>> memory;
    std::vector<std::pair<std::unique_ptr<PreparedProduct>, size_t>> products;
  };
  const auto state = std::make_shared<State>();
  const auto take = [&](int64_t bytes) {
    state->memory.push_back(std::make_unique<Array<char>>(bytes));
    return static_cast<void*>(state->memory.back()->data());
  };
  void* const workspace = take(int64_t{PreparedProduct::kWorkspaceBytes});
  const ProbeStream stream;
  for (const Product& p : products_of(batch)) {
    const bool large =
        p.name == "dlrm.z1.wgrad" || p.name == "dlrm.z2.wgrad" || p.name == "dlrm.z3.wgrad";
    if (!large) continue;
    Operands operands{.a = take(2 * p.m * p.k), .b = take(2 * p.k * p.n), .d = take(4 * p.m * p.n)};
    operands.sums = take(4 * p.m);
    fill_bf16(const_cast<void*>(operands.a), p.m * p.k, 1, stream.get());
    fill_bf16(const_cast<void*>(operands.b), p.k * p.n, 2, stream.get());
    auto prepared = state->library.prepare(p, kSumsOfA, true, operands, sms, 16);
    if (prepared->candidates() == 0)
      prepared = state->library.prepare(p, kPlain, true, operands, sms, 16);
    const auto best = ProductLibrary::fastest(*prepared, stream.get(), workspace,
                                              [&] { return context.left() > 0; });
    if (best.candidate < 0) throw CudaError(p.name + ": cuBLASLt has no algorithm that runs");
    state->products.emplace_back(std::move(prepared), static_cast<size_t>(best.candidate));
  }
  stream.synchronize();
  return [state, workspace](void* on) {
    for (const auto& [prepared, candidate] : state->products)
      if (!prepared->run(candidate, static_cast<cudaStream_t>(on), workspace))
        throw CudaError("a product that ran does so no more");
  };
}

void probe_products(const Context& context) { ProductProbe(context).run(); }

}  // namespace hlite::probe
