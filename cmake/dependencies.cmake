# Third-party libraries, one imported target each. All are C libraries or header-only C++:
# Debian's prebuilt C++ libraries use another standard library than ours (see docs/adr/0001).

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# Header-only targets: galgo_third_party(NAME [HEADER file] [DEFINES ...] [LIBS ...])
function(galgo_third_party name)
  cmake_parse_arguments(arg "" "HEADER" "DEFINES;LIBS" ${ARGN})
  find_path(GALGO_${name}_INCLUDE ${arg_HEADER} REQUIRED)
  add_library(third_party_${name} INTERFACE)
  target_include_directories(third_party_${name} SYSTEM INTERFACE ${GALGO_${name}_INCLUDE})
  target_compile_definitions(third_party_${name} INTERFACE ${arg_DEFINES})
  target_link_libraries(third_party_${name} INTERFACE ${arg_LIBS})
endfunction()

galgo_third_party(xxhash HEADER xxhash.h)
galgo_third_party(argon2 HEADER argon2.h LIBS argon2)
galgo_third_party(gnutls HEADER gnutls/crypto.h LIBS gnutls)
galgo_third_party(nettle HEADER nettle/sha2.h LIBS nettle)
galgo_third_party(boost HEADER boost/beast/http/parser.hpp)
galgo_third_party(spdlog HEADER spdlog/spdlog.h
  DEFINES SPDLOG_HEADER_ONLY SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
galgo_third_party(tomlplusplus HEADER toml++/toml.h)
galgo_third_party(cli11 HEADER CLI/CLI.hpp)

if(GALGO_TESTS)
  # Built from Debian's sources, because the packaged archive is built against libstdc++.
  add_library(third_party_gtest STATIC
    /usr/src/googletest/googletest/src/gtest-all.cc
    /usr/src/googletest/googlemock/src/gmock-all.cc
    /usr/src/googletest/googlemock/src/gmock_main.cc)
  target_include_directories(third_party_gtest SYSTEM PUBLIC
    /usr/src/googletest/googletest/include /usr/src/googletest/googlemock/include
    PRIVATE /usr/src/googletest/googletest /usr/src/googletest/googlemock)
  target_link_libraries(third_party_gtest PUBLIC Threads::Threads PRIVATE galgo_flags)
  target_compile_options(third_party_gtest PRIVATE -w)
endif()
