# The CPU part of the library under a sanitizer, in a program that drives networks through the C API. The library itself
# is not built: a sanitizer's runtime belongs into the program.
string(REPLACE "," ";" sanitizers "${FOPS_SANITIZE}")
foreach(sanitizer IN LISTS sanitizers)
  list(APPEND flags -fsanitize=${sanitizer})
endforeach()
target_compile_options(fops_options INTERFACE -O1 -g -fno-omit-frame-pointer ${flags})
target_link_options(fops_options INTERFACE ${flags})

add_executable(drive_networks ../tests/build/drive_networks.cpp ${SOURCES} ${SIMD_OBJECTS})
target_link_libraries(drive_networks PRIVATE fops_options)
