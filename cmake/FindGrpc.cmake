# Finds gRPC's C++ library and protobuf and defines the target hlite::grpc. Their own CMake packages end the configuration
# where one of Debian's packages is missing that nothing here needs. Sets Grpc_MISSING, a list of what is not there, and
# PROTOBUF_PROTOC.
include(OptionalPart)
find_path(GRPC_INCLUDE_DIR grpcpp/grpcpp.h)
find_path(PROTOBUF_INCLUDE_DIR google/protobuf/message.h)
find_program(PROTOBUF_PROTOC protoc)
set(Grpc_MISSING)
hlite_require(Grpc_MISSING GRPC_INCLUDE_DIR "grpcpp/grpcpp.h (libgrpc++-dev)")
hlite_require(Grpc_MISSING PROTOBUF_INCLUDE_DIR "google/protobuf/message.h (libprotobuf-dev)")
hlite_require(Grpc_MISSING PROTOBUF_PROTOC "protoc (protobuf-compiler)")
set(libraries)
foreach(library grpc++ grpc gpr absl_synchronization protobuf)
  string(TOUPPER "${library}" variable)
  string(REPLACE "++" "PP" variable "${variable}_LIBRARY")
  find_library(${variable} ${library})
  string(REGEX REPLACE "^gpr$" "grpc" package ${library})
  string(REGEX REPLACE "^absl_.*" "absl" package ${package})
  hlite_require(Grpc_MISSING ${variable} "lib${library}.so (lib${package}-dev)")
  list(APPEND libraries ${${variable}})
endforeach()
if(NOT Grpc_MISSING)
  if(NOT TARGET hlite::grpc)
    add_library(hlite::grpc INTERFACE IMPORTED GLOBAL)
    target_include_directories(hlite::grpc SYSTEM INTERFACE ${GRPC_INCLUDE_DIR} ${PROTOBUF_INCLUDE_DIR})
    target_link_libraries(hlite::grpc INTERFACE ${libraries} Threads::Threads)
  endif()
  hlite_require_links(Grpc_MISSING HLITE_GRPC_LINKS gRPC hlite::grpc [[
#include <google/protobuf/message.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
struct Call : grpc::ServerGenericBidiReactor {
  void OnDone() override { delete this; }
};
struct Service : grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    auto* call = new Call;
    call->Finish(grpc::Status::OK);
    return call;
  }
};
int main() {
  GOOGLE_PROTOBUF_VERIFY_VERSION;
  Service service;
  return grpc::ServerBuilder().RegisterCallbackGenericService(&service).BuildAndStart() ? 0 : 1;
}]])
endif()
