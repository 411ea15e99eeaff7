# The CPU part of the library under a sanitizer, in programs that run intact and damaged networks through the C API.
# The library itself is not built: a sanitizer's runtime belongs in the program.
#
# FOPS_SANITIZE_ISAS names the instruction sets to instrument, such as "generic;avx2"; empty means all. The others are
# compiled too, because the library refers to them, but must not be run: instrumented code takes three to six times as
# long to compile.
string(REPLACE "," ";" sanitizers "${FOPS_SANITIZE}")
foreach(sanitizer IN LISTS sanitizers)
  list(APPEND flags -fsanitize=${sanitizer})
endforeach()
set(watched -O1 -g1 -fno-omit-frame-pointer ${flags})
target_link_options(fops_options INTERFACE ${flags})

add_library(sanitized OBJECT ${SOURCES})
target_link_libraries(sanitized PRIVATE fops_options)
target_compile_options(sanitized PRIVATE ${watched})
foreach(isa IN LISTS ISAS)
  if(NOT FOPS_SANITIZE_ISAS OR isa IN_LIST FOPS_SANITIZE_ISAS)
    target_compile_options(fops_${isa} PRIVATE ${watched})
  else()
    target_compile_options(fops_${isa} PRIVATE -O0)
  endif()
endforeach()
foreach(program drive_networks drive_damaged)
  add_executable(${program} ../tests/build/${program}.cpp $<TARGET_OBJECTS:sanitized> ${SIMD_OBJECTS})
  target_link_libraries(${program} PRIVATE fops_options)
  target_compile_options(${program} PRIVATE ${watched})
endforeach()
