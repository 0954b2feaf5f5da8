# Optional parts of the build. Each has a cache variable HLITE_WITH_<NAME>: AUTO (built where all that it needs is found), ON
# (an error where something is missing) or OFF. Whatever state its packages are in, AUTO never ends the configuration.

# hlite_optional_part(<NAME> <words>): declares the variable. <words> say what is built, as in "the gRPC plug-in".
macro(hlite_optional_part name words)
  set(HLITE_WITH_${name} AUTO CACHE STRING "Build ${words}: AUTO (where what it needs is found), ON or OFF")
  set_property(CACHE HLITE_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT HLITE_WITH_${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "HLITE_WITH_${name}: expected AUTO, ON or OFF, found ${HLITE_WITH_${name}}")
  endif()
endmacro()

# hlite_decide_part(<NAME> <words> [<what is missing>...]): sets HLITE_<NAME>_ENABLED (0 or 1) for all folders, and says so.
function(hlite_decide_part name words)
  set(enabled 1)
  set(status yes)
  if(HLITE_WITH_${name} STREQUAL OFF)
    set(enabled 0)
    set(status "no (HLITE_WITH_${name} is OFF)")
  elseif(ARGN)
    list(JOIN ARGN ", " missing)
    if(HLITE_WITH_${name} STREQUAL ON)
      message(FATAL_ERROR "HLITE_WITH_${name} is ON, but for ${words} this is missing: ${missing}")
    endif()
    set(enabled 0)
    set(status "no, missing: ${missing}")
  endif()
  set(HLITE_${name}_ENABLED ${enabled} CACHE INTERNAL "whether ${words} is built")
  message(STATUS "${words}: ${status}")
endfunction()

# hlite_require(<list> <variable> <what is missing>): appends to the list if the variable of a find command is false.
macro(hlite_require list variable what)
  if(NOT ${variable})
    list(APPEND ${list} "${what}")
  endif()
endmacro()

# hlite_require_links(<list> <variable> <name> <target> <source>): appends to the list if a program of this source does not
# compile and link with the target: a package may be there in part. <variable> keeps the result.
function(hlite_require_links list variable name target source)
  set(CMAKE_REQUIRED_LIBRARIES ${target})
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_UNITY_BUILD OFF)
  include(CheckCXXSourceCompiles)
  check_cxx_source_compiles("${source}" ${variable})
  if(NOT ${variable})
    unset(${variable} CACHE)  # looked at again when something may have been installed
    set(${list} ${${list}} "a program of ${name} that compiles and links (${CMAKE_BINARY_DIR}/CMakeFiles has the log)" PARENT_SCOPE)
  endif()
endfunction()
