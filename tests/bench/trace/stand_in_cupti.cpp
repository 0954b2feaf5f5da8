// Stands in for CUPTI under libhlite_trace.so, where no GPU is: its functions, found first because
// this is preloaded, hand over a few records as the real ones would. $STAND_IN_CUPTI says what goes
// wrong: "register", "enable" or "records".
#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

CUpti_BuffersCallbackRequestFunc requested;
CUpti_BuffersCallbackCompleteFunc completed;
int enabled, next;

bool fails(const char* what) {
  const char* const fault = std::getenv("STAND_IN_CUPTI");
  return fault && std::string(fault) == what;
}

constexpr int kRecords = 5;
// Of one launch of a graph.
template <typename Record>
void common(Record& r, CUpti_ActivityKind kind, uint64_t start, uint64_t end, uint32_t stream) {
  r.kind = kind;
  r.start = start;
  r.end = end;
  r.streamId = stream;
  r.graphId = 3;
  r.graphNodeId = (uint64_t{3} << 32) + 1;
  r.correlationId = 77;
  r.channelID = 5;
}
CUpti_ActivityKernel10 kernel(const char* name, uint64_t start, uint64_t end) {
  CUpti_ActivityKernel10 r{};
  common(r, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, start, end, 7);
  r.name = name;
  r.gridX = 70000;
  r.gridY = r.gridZ = r.blockY = r.blockZ = 1;
  r.blockX = 256;
  r.registersPerThread = 40;
  r.dynamicSharedMemory = 1024;
  return r;
}

CUpti_Activity* activity(int i) {
  static CUpti_ActivityKernel10 first = kernel("_ZN5hlite4copyIfEEvPT_", 1000, 2000);
  static CUpti_ActivityKernel10 again = kernel("_ZN5hlite4copyIfEEvPT_", 4000, 5000);
  static CUpti_ActivityMemcpy6 memcpy_record{};
  common(memcpy_record, CUPTI_ACTIVITY_KIND_MEMCPY, 1500, 2500, 8);
  memcpy_record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  memcpy_record.bytes = uint64_t{5} << 32;
  static CUpti_ActivityMemset4 memset_record{};
  common(memset_record, CUPTI_ACTIVITY_KIND_MEMSET, 2600, 2700, 8);
  memset_record.bytes = 4;
  static CUpti_ActivityMemcpyPtoP4 peer{};
  common(peer, CUPTI_ACTIVITY_KIND_MEMCPY2, 6000, 6500, 8);
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  void* const all[kRecords] = {&first, &memcpy_record, &memset_record, &again, &peer};
  return static_cast<CUpti_Activity*>(all[i]);
}

}  // namespace

extern "C" {
CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = 130000;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_OF_THE_STAND_IN";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  requested = request;
  completed = complete;
  return fails("register") ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  ++enabled;
  return fails("enable") ? CUPTI_ERROR_NOT_COMPATIBLE : CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t*, size_t, CUpti_Activity** record) {
  if (fails("records")) return CUPTI_ERROR_INVALID_KIND;
  if (next == kRecords) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = activity(next++);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 2;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  if (enabled < 4 || fails("enable") || fails("register")) return CUPTI_SUCCESS;
  uint8_t* buffer = nullptr;
  size_t bytes = 0, most = 1;
  requested(&buffer, &bytes, &most);
  completed(nullptr, 0, buffer, bytes, buffer ? 8 : 0);
  return CUPTI_SUCCESS;
}
}
