# hlite_build_identity: the one object that says which build a program or a plug-in is of. It is made
# anew when a header changes that both share.
include(${PROJECT_SOURCE_DIR}/hugectr_lite/cuda/sources.cmake)
set(identity ${CMAKE_BINARY_DIR}/generated/build_identity.cpp)
list(JOIN hlite_cuda_sources " " identity_sources)
add_custom_command(OUTPUT ${identity}
  COMMAND ${CMAKE_COMMAND} -Dversion=${PROJECT_VERSION} -Droot=${PROJECT_SOURCE_DIR}
    "-Dsources=${identity_sources}" -Doutput=${identity} -Ddepfile=${identity}.d
    -P ${PROJECT_SOURCE_DIR}/cmake/build_identity.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/build_identity.cmake
  DEPFILE ${identity}.d
  COMMENT "Hashing the headers that programs and the CUDA plug-in share" VERBATIM)
add_library(hlite_build_identity OBJECT ${identity})
target_link_libraries(hlite_build_identity PRIVATE hlite_options)
