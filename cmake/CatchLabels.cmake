# cmake -P: writes ${file}, which makes each tag of the Catch2 program ${program} a label of its tests, for ctest's
# filters. Tests are named as catch_discover_tests names them with ${prefix}.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${program} --list-tags OUTPUT_VARIABLE tags RESULT_VARIABLE lists)
if(NOT lists MATCHES "^[0-9]+$")  # of tags; or what ended it
  message(FATAL_ERROR "${program} --list-tags: ${lists}")
endif()
string(REGEX MATCHALL "\\[[^].!]+\\]" tags "${tags}")
set(all)
foreach(tag IN LISTS tags)
  execute_process(COMMAND ${program} --list-test-names-only ${tag} OUTPUT_VARIABLE names)
  string(STRIP "${names}" names)
  string(REPLACE "\n" ";" names "${names}")
  string(REGEX REPLACE "[][]" "" label ${tag})
  foreach(name IN LISTS names)
    list(APPEND all "${name}")
    string(MD5 key "${name}")  # a name is no variable's
    list(APPEND labels_${key} ${label})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES all)
set(script)
foreach(name IN LISTS all)  # once each: a second call would replace the first one's labels
  string(MD5 key "${name}")
  string(APPEND script "set_tests_properties([==[${prefix}${name}]==] PROPERTIES LABELS \"${labels_${key}}\")\n")
endforeach()
file(WRITE ${file} "${script}")
