// libhlite_trace.so: what a program does on its GPUs, piece by piece, also inside of graphs.
//
//   CUDA_INJECTION64_PATH=.../libhlite_trace.so HLITE_TRACE=FILE program ...
//
// The driver opens the library when the program first calls it, and CUPTI hands over a record of
// each kernel, copy and fill. FILE gets lines of JSON, which trace_report.py reads; %p in its name
// is the process. Times are nanoseconds.
//
//   {"kind":"trace","program":"train","pid":7,"cupti":130001}
//   {"kind":"name","id":0,"name":"void hlite::..."}    before the first kernel of that name
//   {"kind":"kernel","name":0,"start":1,"end":2,"device":0,"stream":7,"channel":3,"graph":1,
//    "node":9,"launch":12,"grid":132,"block":256,"registers":32,"shared":0}
//   {"kind":"memcpy","copy":"HtoD","bytes":4,"start":...,"launch":12}     likewise "memset"
//   {"kind":"end","records":3,"dropped":0,"left_out":0}
//
// Pieces of one launch of a graph have its number `launch`; graph 0: none. The program never fails
// for it: what goes wrong is said once on standard error, and the trace ends there. After
// $HLITE_TRACE_RECORDS (2,000,000) no more are written.
#include <cupti.h>
#include <cxxabi.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace {

constexpr size_t kBufferBytes = size_t{4} << 20, kFileBytes = size_t{1} << 20;

struct Trace {
  std::mutex mutex;
  FILE* file = nullptr;
  uint64_t records = 0, limit = 2'000'000, left_out = 0, dropped = 0;
  std::unordered_map<std::string, size_t> names;
};
// Never destroyed: CUPTI's thread may come after everything else.
Trace& trace() {
  static auto* const the_trace = new Trace;
  return *the_trace;
}

void complain(const char* what, const char* why) {
  static std::atomic<bool> done = false;
  if (!done.exchange(true)) std::fprintf(stderr, "libhlite_trace: %s: %s\n", what, why);
}
bool succeeds(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return true;
  const char* why = nullptr;
  if (cuptiGetResultString(result, &why) != CUPTI_SUCCESS || !why) why = "an unknown error";
  complain(call, why);
  return false;
}

std::string quoted(const char* text) {
  std::string json = "\"";
  for (; *text; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\') json += '\\';
    json += c < ' ' ? ' ' : static_cast<char>(c);
  }
  return json + '"';
}

// Its number, after a line that says what it is called.
size_t number_of(Trace& t, const char* mangled) {
  const auto [found, is_new] = t.names.try_emplace(mangled ? mangled : "?", t.names.size());
  if (is_new) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(found->first.c_str(), nullptr, nullptr, &status), &std::free);
    std::fprintf(t.file, "{\"kind\":\"name\",\"id\":%zu,\"name\":%s}\n", found->second,
                 quoted(name ? name.get() : found->first.c_str()).c_str());
  }
  return found->second;
}

// What all kinds have in common.
template <typename Record>
std::string when_and_where(const Record& r) {
  std::array<char, 320> text{};
  std::snprintf(text.data(), text.size(),
                "\"start\":%" PRIu64 ",\"end\":%" PRIu64
                ",\"device\":%u,\"stream\":%u,\"channel\":%u,\"graph\":%u,\"node\":%" PRIu64
                ",\"launch\":%u",
                r.start, r.end, r.deviceId, r.streamId, r.channelID, r.graphId, r.graphNodeId,
                r.correlationId);
  return text.data();
}

const char* direction(uint8_t copy) {
  static constexpr const char* kNames[] = {"?",    "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                           "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  return copy < std::size(kNames) ? kNames[copy] : "?";
}

// CUPTI packs its records, so none is read in place.
template <typename Record>
Record copy_of(const CUpti_Activity* activity) {
  Record record;
  std::memcpy(&record, activity, sizeof record);
  return record;
}

template <typename Record>
void write_copy(Trace& t, const CUpti_Activity* activity) {
  const auto r = copy_of<Record>(activity);
  std::fprintf(t.file, "{\"kind\":\"memcpy\",\"copy\":\"%s\",\"bytes\":%" PRIu64 ",%s}\n",
               direction(r.copyKind), static_cast<uint64_t>(r.bytes), when_and_where(r).c_str());
}

void write(Trace& t, const CUpti_Activity* activity) {
  if (t.records >= t.limit) {
    ++t.left_out;
    return;
  }
  ++t.records;
  switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto r = copy_of<CUpti_ActivityKernel10>(activity);
      const size_t name = number_of(t, r.name);
      std::fprintf(t.file,
                   "{\"kind\":\"kernel\",\"name\":%zu,%s,\"grid\":%" PRId64
                   ",\"block\":%d,\"registers\":%u,\"shared\":%d}\n",
                   name, when_and_where(r).c_str(), int64_t{r.gridX} * r.gridY * r.gridZ,
                   r.blockX * r.blockY * r.blockZ, unsigned{r.registersPerThread},
                   r.staticSharedMemory + r.dynamicSharedMemory);
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return write_copy<CUpti_ActivityMemcpy6>(t, activity);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return write_copy<CUpti_ActivityMemcpyPtoP4>(t, activity);
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto r = copy_of<CUpti_ActivityMemset4>(activity);
      std::fprintf(t.file, "{\"kind\":\"memset\",\"bytes\":%" PRIu64 ",%s}\n",
                   static_cast<uint64_t>(r.bytes), when_and_where(r).c_str());
      return;
    }
    default:
      --t.records;
  }
}

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;  // none: CUPTI counts what it drops
  *most_records = 0;
}

void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                               size_t valid) {
  try {
    Trace& t = trace();
    const std::lock_guard lock(t.mutex);
    CUpti_Activity* activity = nullptr;
    while (t.file && buffer && valid > 0) {
      const CUptiResult result = cuptiActivityGetNextRecord(buffer, valid, &activity);
      if (result == CUPTI_ERROR_MAX_LIMIT_REACHED ||
          !succeeds(result, "cuptiActivityGetNextRecord"))
        break;
      write(t, activity);
    }
    size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
      t.dropped += dropped;
  } catch (const std::exception& error) {  // memory
    complain("the trace has holes", error.what());
  }
  std::free(buffer);
}

void finish() {
  // Not under the lock, as it calls buffer_completed().
  succeeds(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  Trace& t = trace();
  const std::lock_guard lock(t.mutex);
  if (!t.file) return;
  std::fprintf(t.file,
               "{\"kind\":\"end\",\"records\":%" PRIu64 ",\"dropped\":%" PRIu64
               ",\"left_out\":%" PRIu64 "}\n",
               t.records, t.dropped, t.left_out);
  const bool failed = std::ferror(t.file) != 0;
  if (std::fclose(t.file) != 0 || failed) complain("HLITE_TRACE", "the file could not be written");
  t.file = nullptr;
}

bool open_file(Trace& t) {
  const char* const path = std::getenv("HLITE_TRACE");
  if (!path || !*path) {
    complain("HLITE_TRACE", "expected the name of a file, found nothing; no trace is written");
    return false;
  }
  std::string name = path;
  if (const size_t at = name.find("%p"); at != std::string::npos)
    name.replace(at, 2, std::to_string(getpid()));
  if (const char* const most = std::getenv("HLITE_TRACE_RECORDS"))
    t.limit = std::strtoull(most, nullptr, 10);
  t.file = std::fopen(name.c_str(), "we");
  if (!t.file) {
    complain(name.c_str(), std::strerror(errno));
    return false;
  }
  std::setvbuf(t.file, nullptr, _IOFBF, kFileBytes);
  uint32_t version = 0;
  (void)cuptiGetVersion(&version);
  std::fprintf(t.file, "{\"kind\":\"trace\",\"program\":%s,\"pid\":%d,\"cupti\":%u}\n",
               quoted(program_invocation_short_name).c_str(), getpid(), version);
  return true;
}

}  // namespace

// Called by the driver once it is ready.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  try {
    static std::atomic<bool> called = false;
    if (called.exchange(true) || !open_file(trace())) return 1;
    bool all = succeeds(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed),
                        "cuptiActivityRegisterCallbacks");
    for (const CUpti_ActivityKind kind :
         {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
          CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET})
      all = all && succeeds(cuptiActivityEnable(kind), "cuptiActivityEnable");
    std::atexit(finish);
  } catch (const std::exception& error) {
    complain("no trace is written", error.what());
  }
  return 1;
}
