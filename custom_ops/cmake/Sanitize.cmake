# The CPU part of the library under a sanitizer, in programs that drive networks through the C API: whole ones, and
# damaged ones. The library itself is not built: a sanitizer's runtime belongs into the program.
string(REPLACE "," ";" sanitizers "${FOPS_SANITIZE}")
foreach(sanitizer IN LISTS sanitizers)
  list(APPEND flags -fsanitize=${sanitizer})
endforeach()
target_compile_options(fops_options INTERFACE -O1 -g -fno-omit-frame-pointer ${flags})
target_link_options(fops_options INTERFACE ${flags})

add_library(sanitized OBJECT ${SOURCES})
target_link_libraries(sanitized PRIVATE fops_options)
foreach(program drive_networks drive_damaged)
  add_executable(${program} ../tests/build/${program}.cpp $<TARGET_OBJECTS:sanitized> ${SIMD_OBJECTS})
  target_link_libraries(${program} PRIVATE fops_options)
endforeach()
