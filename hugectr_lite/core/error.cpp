#include "hugectr_lite/core/error.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace hlite {

void fail_check(const char* place, const char* condition, fmt::string_view format,
                fmt::format_args args) {
  throw Error(fmt::format("{}: {} failed: {}", place, condition, fmt::vformat(format, args)));
}

Failure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.what(), error.exit_code()};
  } catch (const std::filesystem::filesystem_error& error) {
    return {fmt::format("{}: {}", error.path1().string(), error.code().message()), kExitData};
  } catch (const std::bad_alloc&) {
    return {"out of memory", kExitData};
  } catch (const std::system_error& error) {
    return {fmt::format("the system refused: {}", error.what()), kExitInternal};
  } catch (const std::exception& error) {
    return {fmt::format("internal error: {}", error.what()), kExitInternal};
  }
}

}  // namespace hlite
