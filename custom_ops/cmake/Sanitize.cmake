# Compiles the CPU part of the library with a sanitizer, into programs that run intact and damaged networks through the C
# API. It does not build the library, because a sanitizer's runtime must be linked into a program.
#
# FOPS_SANITIZE_ISAS names the instruction sets to instrument, such as "generic;avx2"; empty means all. It exists because
# instrumented code takes three to six times as long to compile. The other sets are compiled too, because the library
# refers to them, but without instrumentation, and must not be used.
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
