# add_module: the only way to make one of our libraries.
#
#   add_module(NAME storage LAYER 3 HDRS a.hpp SRCS a.cpp detail/b.cpp
#              DEPS base memory        # appear in our headers
#              IMPL_DEPS crypto        # used in our sources only
#              THIRD_PARTY xxhash)     # private unless THIRD_PARTY_PUBLIC
#   add_unit_test(storage a_test.cpp [DEPS runtime_sim])
#
# What it enforces, at configure time or by failing to compile:
#  * a dependency has a lower layer and was declared before (so the order of add_subdirectory is the
#    order of the layers);
#  * a file can include only headers of the modules it names: each module exports a folder that holds
#    links to its public headers and nothing else; headers below detail/ are reachable from the module alone;
#  * each public header compiles alone (target all_headers_compile_alone, part of `all`).

set_property(GLOBAL PROPERTY GALGO_MODULES "")

function(add_module)
  cmake_parse_arguments(arg "" "NAME;LAYER" "HDRS;SRCS;DEPS;IMPL_DEPS;THIRD_PARTY;THIRD_PARTY_PUBLIC" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "add_module(${arg_NAME}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target galgo_${arg_NAME})

  foreach(dep IN LISTS arg_DEPS arg_IMPL_DEPS)
    if(NOT TARGET galgo_${dep})
      message(FATAL_ERROR "module ${arg_NAME} names ${dep}, which is not declared yet: "
        "a module may use lower layers only")
    endif()
    get_property(dep_layer GLOBAL PROPERTY GALGO_LAYER_${dep})
    if(NOT dep_layer LESS arg_LAYER)
      message(FATAL_ERROR "module ${arg_NAME} (layer ${arg_LAYER}) may not use ${dep} (layer ${dep_layer}): "
        "arrows go down only")
    endif()
  endforeach()

  # The public include folder: links to the listed headers, nothing else.
  set(inc ${CMAKE_BINARY_DIR}/inc/${arg_NAME})
  file(REMOVE_RECURSE ${inc})
  foreach(hdr IN LISTS arg_HDRS)
    if(hdr MATCHES "^detail/")
      message(FATAL_ERROR "module ${arg_NAME}: ${hdr} is private and cannot be listed in HDRS")
    endif()
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${hdr})
      message(FATAL_ERROR "module ${arg_NAME}: no such header ${hdr}")
    endif()
    get_filename_component(dir ${inc}/${arg_NAME}/${hdr} DIRECTORY)
    file(MAKE_DIRECTORY ${dir})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${hdr} ${inc}/${arg_NAME}/${hdr} SYMBOLIC)
  endforeach()
  # The private one: detail/ under the same spelling.
  set(private_inc ${CMAKE_BINARY_DIR}/inc_private/${arg_NAME})
  file(REMOVE_RECURSE ${private_inc})
  if(IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/detail)
    file(MAKE_DIRECTORY ${private_inc}/${arg_NAME})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/detail ${private_inc}/${arg_NAME}/detail SYMBOLIC)
  endif()

  if(arg_SRCS)
    add_library(${target} STATIC ${arg_SRCS})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE galgo_flags)
    target_include_directories(${target} PRIVATE ${private_inc})
    foreach(dep IN LISTS arg_IMPL_DEPS)
      target_link_libraries(${target} PRIVATE galgo_${dep})
    endforeach()
    foreach(lib IN LISTS arg_THIRD_PARTY)
      target_link_libraries(${target} PRIVATE third_party_${lib})
    endforeach()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${inc})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${target} ${scope} galgo_${dep})
  endforeach()
  foreach(lib IN LISTS arg_THIRD_PARTY_PUBLIC)
    target_link_libraries(${target} ${scope} third_party_${lib})
  endforeach()
  target_link_libraries(${target} ${scope} Threads::Threads)

  # Each public header alone.
  set(alone "")
  foreach(hdr IN LISTS arg_HDRS)
    string(REPLACE "/" "_" flat ${hdr})
    set(tu ${CMAKE_BINARY_DIR}/header_alone/${arg_NAME}/${flat}.cpp)
    file(CONFIGURE OUTPUT ${tu} CONTENT "#include \"${arg_NAME}/${hdr}\"\n")
    list(APPEND alone ${tu})
  endforeach()
  if(alone)
    add_library(${target}_headers OBJECT EXCLUDE_FROM_ALL ${alone})
    target_link_libraries(${target}_headers PRIVATE ${target} galgo_flags)
    set_property(GLOBAL APPEND PROPERTY GALGO_HEADER_TARGETS ${target}_headers)
  endif()

  set_property(GLOBAL PROPERTY GALGO_LAYER_${arg_NAME} ${arg_LAYER})
  set_property(GLOBAL APPEND PROPERTY GALGO_MODULES ${arg_NAME})
  set_property(GLOBAL PROPERTY GALGO_DEPS_${arg_NAME} "${arg_DEPS};${arg_IMPL_DEPS}")
endfunction()

# add_unit_test(MODULE source... [DEPS modules]): one test binary a module, run by ctest.
function(add_unit_test module)
  if(NOT GALGO_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "DEPS;THIRD_PARTY" ${ARGN})
  set(target ${module}_test)
  add_executable(${target} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE galgo_${module} galgo_flags third_party_gtest)
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/inc_private/${module})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${target} PRIVATE galgo_${dep})
  endforeach()
  foreach(lib IN LISTS arg_THIRD_PARTY)
    target_link_libraries(${target} PRIVATE third_party_${lib})
  endforeach()
  add_test(NAME ${module} COMMAND ${target} --gtest_brief=1)
  set_tests_properties(${module} PROPERTIES TIMEOUT 120 LABELS unit)
endfunction()

# Called once at the end: the header check target and the layer table that docs/ARCHITECTURE.md shows.
function(galgo_finish_modules)
  get_property(header_targets GLOBAL PROPERTY GALGO_HEADER_TARGETS)
  add_custom_target(all_headers_compile_alone)
  if(header_targets)
    add_dependencies(all_headers_compile_alone ${header_targets})
  endif()
  get_property(modules GLOBAL PROPERTY GALGO_MODULES)
  set(table "| layer | module | uses |\n| --- | --- | --- |\n")
  foreach(layer RANGE 9)
    foreach(module IN LISTS modules)
      get_property(l GLOBAL PROPERTY GALGO_LAYER_${module})
      if(l EQUAL layer)
        get_property(deps GLOBAL PROPERTY GALGO_DEPS_${module})
        string(REGEX REPLACE "^;|;$" "" deps "${deps}")
        string(REPLACE ";" ", " deps "${deps}")
        string(APPEND table "| ${l} | ${module} | ${deps} |\n")
      endif()
    endforeach()
  endforeach()
  file(WRITE ${CMAKE_BINARY_DIR}/layers.md "${table}")
endfunction()
