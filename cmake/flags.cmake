# Compiler and linker flags of every target, by preset. Third-party headers come in as system
# includes and are exempt from the warnings.

set(GALGO_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread; empty for none")

add_library(galgo_flags INTERFACE)
target_compile_options(galgo_flags INTERFACE
  -stdlib=libc++
  -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Wunused-result -Wimplicit-fallthrough -Werror
  # Option structs have defaults; naming only the fields that differ is their point.
  -Wno-missing-designated-field-initializers
  -fno-omit-frame-pointer -march=x86-64-v2)
target_link_options(galgo_flags INTERFACE
  -stdlib=libc++ -static-libstdc++ -fuse-ld=lld -rdynamic -Wl,--build-id=sha1)

if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(galgo_flags INTERFACE -O3 -g1 -flto=thin)
  target_link_options(galgo_flags INTERFACE -flto=thin -Wl,--thinlto-cache-dir=${CMAKE_BINARY_DIR}/lto-cache)
  target_compile_definitions(galgo_flags INTERFACE
    _LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_FAST)
else()
  target_compile_options(galgo_flags INTERFACE -O1 -g)
  target_compile_definitions(galgo_flags INTERFACE
    GALGO_DEBUG_CHECKS=1
    _LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_EXTENSIVE)
endif()

if(GALGO_SANITIZE)
  target_compile_options(galgo_flags INTERFACE
    -fsanitize=${GALGO_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(galgo_flags INTERFACE -fsanitize=${GALGO_SANITIZE})
endif()
if(GALGO_FUZZ)
  # But for targets which say so: what only carries a test shall not look like something to explore.
  target_compile_options(galgo_flags INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:GALGO_NO_COVERAGE>>>:-fsanitize=fuzzer-no-link>)
endif()
