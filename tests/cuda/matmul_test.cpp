// The context of matrix products: choosing algorithms, remembering them, and what a warm call does.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "hugectr_lite/ops/cublaslt.cuh"
#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/ops/matmul_algorithms.h"
#include "tests/cuda/matmul_library.h"
#include "tests/cuda/matmul_test_context.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

using emulation::machine;
using emulation::matmul_library;
using Library = MatmulLibraryGuard;

// A small layer that tests multiply.
class Layer {
 public:
  explicit Layer(const cuda::Backend& table, int64_t batch = 24)
      : batch_(batch),
        x_(table, std::vector<float>(24 * 16, 0.3f)),
        w_(table, std::vector<float>(16 * 8, 0.7f)),
        y_(table, 24 * 8),
        db_(table, 16) {}

  std::vector<float> forward(const MatmulStream& on) const {
    ops::fully_connected_forward(on.exec(), {x_.data(), batch_, 16}, {w_.data(), 16, 8}, {}, false,
                                 {y_.data(), batch_, 8});
    return y_.to_host(on.get());
  }
  // Everything there is, for what warm calls must not do. Uses x as scratch.
  void all(const Exec& exec) const {
    const Matrix<float> x(x_.data(), batch_, 16), y(y_.data(), batch_, 8), w(w_.data(), 16, 8);
    const ops::LayerBelow<float> below = {x, {db_.data(), 16}};
    ops::fully_connected_forward(exec, x, w, {w_.data(), 8}, true, y);
    ops::bias_relu_backward(exec, y, y, {db_.data(), 8});
    ops::fully_connected_backward_data(exec, y, w, x, below);
    ops::fully_connected_backward_weights(exec, x, y, w);
  }

 private:
  int64_t batch_;
  DeviceArray<float> x_, w_, y_, db_;
};

int last_algorithm() {
  REQUIRE_FALSE(matmul_library().multiplied.empty());
  return matmul_library().multiplied.back();
}

TEST_CASE("cuBLASLt is opened by name when it is first needed") {
  const Library library;
  library->opened.clear();
  (void)ops::gpu::load_cublaslt();
  CHECK(library->opened == "libcublasLt.so.13 ");
}

TEST_CASE("an absent cuBLASLt is an error that says where it was looked for") {
  const Library library;
  library->installed = false;
  check_contains(
      message_of<CudaError>([] { (void)ops::gpu::load_cublaslt(); }),
      {"cannot load cuBLASLt", "libcublasLt.so.13", "loader's path", "/usr/local/cuda/lib64/",
       "cannot open shared object file", "CUDA toolkit", "pip install 'hugectr_lite[cuda]'"});
  CHECK(library->opened.find("/usr/local/cuda/lib64/libcublasLt.so.13 ") != std::string::npos);
  library->installed = true;
  library->missing_function = "cublasLtMatmulAlgoCheck";
  check_contains(message_of<CudaError>([] { (void)ops::gpu::load_cublaslt(); }),
                 {"libcublasLt.so.13 has no cublasLtMatmulAlgoCheck", "undefined symbol"});
}

TEST_CASE("without a file cuBLASLt's first choice that runs is taken") {
  const Library library;
  {
    const Layer layer(emulated_cuda());
    const MatmulStream on(emulated_cuda());
    layer.forward(on);
    CHECK(last_algorithm() == 0);
  }
  library->fails[0] = true;
  const Layer layer(emulated_cuda());
  const MatmulStream on(emulated_cuda());
  layer.forward(on);
  CHECK(last_algorithm() == 1);
}

TEST_CASE("the fastest algorithm is searched once and remembered") {
  const Library library;
  const TemporaryDirectory directory;
  const std::string path = directory / "cache/algorithms.txt";
  warnings().clear();
  const MatmulOptions options = {.algorithm_file = path.c_str(), .warn = keep_warning};
  const Layer layer(emulated_cuda());
  std::vector<float> first;
  {
    const MatmulStream on(emulated_cuda(), options);
    first = layer.forward(on);
    CHECK(last_algorithm() == 2);
    CHECK(library->multiplied.size() > 4);  // all were tried
    library->multiplied.clear();
    layer.forward(on);
    CHECK(library->multiplied == std::vector<int>{2});
    CHECK(library->searches == 1);
  }
  // Another run: others would be faster now, but the file decides.
  library->milliseconds[1] = 0.5;
  library->multiplied.clear();
  {
    const MatmulStream on(emulated_cuda(), options);
    CHECK(layer.forward(on) == first);
    CHECK(library->multiplied == std::vector<int>{2, 2});  // tried, then used
    // Another shape is another entry.
    const Layer smaller(emulated_cuda(), 23);
    smaller.forward(on);
    CHECK(last_algorithm() == 1);
  }
  // Other precision as well; 16-bit products would not care.
  MatmulOptions rounding = options;
  rounding.tf32 = true;
  const MatmulStream on(emulated_cuda(), rounding);
  layer.forward(on);
  CHECK(last_algorithm() == 1);
  CHECK(warnings().empty());
}

TEST_CASE("a remembered algorithm gives the bits of the run that chose it", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const TemporaryDirectory directory;
    const std::string path = directory / "algorithms.txt";
    const MatmulOptions options = {.algorithm_file = path.c_str()};
    const Layer layer(*backend.table);
    const std::vector<float> first = layer.forward(MatmulStream(*backend.table, options));
    CHECK(std::filesystem::file_size(path) > 100);
    CHECK(layer.forward(MatmulStream(*backend.table, options)) == first);
  }
}

TEST_CASE("a damaged algorithm file is searched anew and replaced") {
  const Library library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  std::ofstream(path) << "hugectr_lite matmul algorithms 3\nhalf a line";
  const MatmulOptions options = {.algorithm_file = path.c_str(), .warn = keep_warning};
  const Layer layer(emulated_cuda());
  for (const bool again : {false, true}) {
    warnings().clear();
    library->multiplied.clear();
    const MatmulStream on(emulated_cuda(), options);
    layer.forward(on);
    CHECK(last_algorithm() == 2);
    CHECK((library->multiplied.size() == 2) == again);
    CHECK(warnings().empty() == again);
    if (!again) check_contains(warnings().at(0), {path + ":2:"});
  }
}

TEST_CASE("a remembered algorithm that does not run here is searched anew") {
  const Library library;
  const TemporaryDirectory directory;
  const std::string path = directory / "algorithms.txt";
  const MatmulOptions options = {.algorithm_file = path.c_str(), .warn = keep_warning};
  const Layer layer(emulated_cuda());
  layer.forward(MatmulStream(emulated_cuda(), options));
  // The same key with another library's algorithm, put there by the file's own means.
  std::ifstream remembered(path);
  std::string line, key;
  std::getline(remembered, line);
  std::getline(remembered, key, ' ');
  const ops::LockedAlgorithms::Warn silent = [](const std::string&) {};
  CHECK(ops::LockedAlgorithms(path, silent).put(key, {{42}}));
  library->multiplied.clear();
  layer.forward(MatmulStream(emulated_cuda(), options));
  CHECK(last_algorithm() == 2);
  CHECK(library->multiplied.size() > 4);
}

TEST_CASE("where nothing can be remembered the first choice is taken, with a warning") {
  const Library library;
  const TemporaryDirectory directory;
  std::ofstream(directory / "file") << "";
  std::filesystem::create_directories(directory / "taken/full");
  for (const char* name : {"file/algorithms.txt", "taken"}) {
    const std::string path = directory / name;
    warnings().clear();
    const MatmulOptions options = {.algorithm_file = path.c_str(), .warn = keep_warning};
    const MatmulStream on(emulated_cuda(), options);
    for (const int64_t batch : {24, 23, 22}) {
      library->multiplied.clear();
      const Layer layer(emulated_cuda(), batch);
      layer.forward(on);
      CHECK(last_algorithm() == 0);
    }
    CHECK(library->multiplied.size() == 2);  // no search any more: once to try, once to multiply
    REQUIRE_FALSE(warnings().empty());
    check_contains(warnings().back(), {path, "first choice"});
    const std::set<std::string> different(warnings().begin(), warnings().end());
    CHECK(different.size() == warnings().size());
  }
}

TEST_CASE("a warm call allocates nothing and can be captured") {
  const Library library;
  const Layer layer(emulated_cuda());
  const MatmulStream on(emulated_cuda());
  layer.all(on.exec());
  const int created = library->created, searches = library->searches;
  const int blocks = machine().device_blocks, events = machine().events;
  void* graph = nullptr;
  emulated_cuda().capture_begin(on.exec().stream);
  layer.all(on.exec());
  emulated_cuda().capture_end(on.exec().stream, &graph);
  CHECK(library->created == created);
  CHECK(library->searches == searches);
  CHECK(machine().device_blocks == blocks);
  CHECK(machine().events == events);
  emulated_cuda().graph_destroy(graph);
}

TEST_CASE("a new shape in a capture is an error that says so") {
  const Library library;
  const Layer layer(emulated_cuda());
  const MatmulStream on(emulated_cuda());
  emulated_cuda().capture_begin(on.exec().stream);
  check_contains(message_of<DeviceError>([&] { layer.all(on.exec()); }),
                 {"matrix product emulated_device/9.0/1/130100/", "/8/24/16 is new",
                  "run once before a CUDA graph captures it"});
  void* graph = nullptr;
  emulated_cuda().capture_end(on.exec().stream, &graph);
  emulated_cuda().graph_destroy(graph);
  layer.all(on.exec());
}

TEST_CASE("a context gives back all that it took") {
  const Library library;
  const int blocks = machine().device_blocks, events = machine().events;
  const int objects = library->objects;
  {
    const TemporaryDirectory directory;
    const std::string path = directory / "algorithms.txt";
    const Layer layer(emulated_cuda());
    const MatmulStream on(emulated_cuda(), {.algorithm_file = path.c_str()});
    layer.all(on.exec());
    CHECK(library->objects > objects);
  }
  CHECK(library->objects == objects);
  CHECK(machine().device_blocks == blocks);
  CHECK(machine().events == events);

  // A context that cannot be made takes nothing either.
  machine().next_error = cudaErrorMemoryAllocation;
  CHECK_THROWS_AS(MatmulStream(emulated_cuda()), DeviceError);
  CHECK(library->objects == objects);
}

TEST_CASE("an epilogue that cuBLASLt lacks is said once a shape") {
  const Library library;
  library->epilogues = false;
  warnings().clear();
  const Layer layer(emulated_cuda());
  const MatmulStream on(emulated_cuda(), {.warn = keep_warning});
  layer.all(on.exec());
  layer.all(on.exec());
  REQUIRE(warnings().size() == 1);  // forward's; backward is given no mask
  check_contains(warnings()[0], {"/8/24/16: cuBLASLt has no algorithm with epilogue 6"});
}

TEST_CASE("the emulated cuBLASLt refuses what the real one does") {
  const Library library;
  const DeviceArray<float> memory(emulated_cuda(), 1024);
  float* const data = memory.data();
  cublasLtHandle_t handle = nullptr;
  REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  // d [8,4] = a [8,k] b [k,4] with ReLU's mask, as the caller changes it.
  struct Call {
    int64_t k = 8, mask_ld = 128;
    cudaDataType_t a = CUDA_R_16BF, b = CUDA_R_16BF, d = CUDA_R_16BF;
    uint32_t epilogue = CUBLASLT_EPILOGUE_RELU_AUX;
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    size_t mask_shift = 0;
    bool bias = false;
    size_t bias_shift = 0;
  };
  const auto status = [&](const Call& call) {
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulDescCreate(&desc, call.compute, CUDA_R_32F);
    void* const mask = reinterpret_cast<char*>(data + 512) + call.mask_shift;
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      CHECK(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)) ==
            CUBLAS_STATUS_SUCCESS);
    };
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, call.epilogue);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.mask_ld);
    void* const bias = reinterpret_cast<char*>(data + 768) + call.bias_shift;
    if (call.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    cublasLtMatrixLayoutCreate(&a, call.a, 8, static_cast<uint64_t>(call.k), 8);
    cublasLtMatrixLayoutCreate(&b, call.b, static_cast<uint64_t>(call.k), 4, call.k);
    cublasLtMatrixLayoutCreate(&d, call.d, 8, 4, 8);
    const cublasLtMatmulAlgo_t first = {{0x656d756c61746564}};
    const float one = 1, zero = 0;
    const cublasStatus_t result =
        cublasLtMatmul(handle, desc, &one, data, a, data, b, &zero, data + 256, d, data + 256, d,
                       &first, nullptr, 0, nullptr);
    for (cublasLtMatrixLayout_t layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(desc);
    return result;
  };
  CHECK(status({}) == CUBLAS_STATUS_SUCCESS);
  CHECK(status({.mask_ld = 0}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status({.mask_ld = 136}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status({.mask_shift = 8}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status({.epilogue = CUBLASLT_EPILOGUE_BIAS}) == CUBLAS_STATUS_INVALID_VALUE);  // no bias
  CHECK(status({.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias = true}) == CUBLAS_STATUS_SUCCESS);
  for (const size_t shift : {2, 4, 8})
    CHECK(status({.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias = true, .bias_shift = shift}) ==
          CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(status({.a = CUDA_R_16F}) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(status({.a = CUDA_R_32F, .b = CUDA_R_32F}) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(status({.compute = CUBLAS_COMPUTE_32F_FAST_TF32}) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(status({.k = 1, .epilogue = CUBLASLT_EPILOGUE_DRELU}) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(cublasLtDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("a product that cuBLASLt cannot do at all is an error with its sizes") {
  const Library library;
  for (bool& fails : library->fails) fails = true;
  const Layer layer(emulated_cuda());
  const MatmulStream on(emulated_cuda());
  check_contains(message_of<DeviceError>([&] { layer.forward(on); }),
                 {"fully_connected_forward: cuBLASLt cannot multiply [8,16] by [16,24]"});
}

}  // namespace
}  // namespace hlite::test
