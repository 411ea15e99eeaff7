# Adds the *.cu files to the library. Without a working CUDA compiler, FASHION_INFER_CUDA=auto prints a notice and builds
# for the CPU alone, and FASHION_INFER_CUDA=on is an error.
include(CheckLanguage)
include("${CMAKE_CURRENT_LIST_DIR}/CudaArchitectures.cmake")

# A value only for the check of the compiler. The list of architectures depends on the compiler's version, so it is set
# below.
set(CMAKE_CUDA_ARCHITECTURES OFF)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(FASHION_INFER_CUDA STREQUAL "on")
    message(FATAL_ERROR "FASHION_INFER_CUDA=on, but no working CUDA compiler was found: put nvcc on PATH, name it in "
      "CUDACXX, or `make setup BACKEND=gpu`")
  endif()
  message(NOTICE "No CUDA compiler: building for the CPU alone")
  return()
endif()
enable_language(CUDA)
fops_cuda_architectures(CUDA_ARCHS)
message(NOTICE "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CUDA_ARCHS}")

# Flags for every target with CUDA code.
#
# -lineinfo (FOPS_LINEINFO) takes no time when the code runs, and lets profilers and compute-sanitizer name the source line.
# It doubles the code's size, which is too much for a wheel. --compress-mode=size shrinks the library for all architectures
# from 41 MB to 8 MB. Every driver of CUDA 13 can read the compressed code.
function(fops_cuda_target target)
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_VISIBILITY_PRESET hidden
    CUDA_ARCHITECTURES "${CUDA_ARCHS}"
    # The CUDA runtime is linked into the library and looks for the driver only when it is first called, so the library
    # can be loaded on a machine without a driver.
    CUDA_RUNTIME_LIBRARY Static)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:$<$<BOOL:${FOPS_LINEINFO}>:-lineinfo>;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<VERSION_GREATER_EQUAL:$<CUDA_COMPILER_VERSION>,13.0>>:--compress-mode=size>)
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(${target} PRIVATE fops_options)
endfunction()

target_sources(fashion_ops PRIVATE ${CUDA_SOURCES})
fops_cuda_target(fashion_ops)
string(REPLACE ";" " " archs "${CUDA_ARCHS}")
# Defined only for the two files that use it, so that a build with CUDA can keep the other objects of a build without
# CUDA.
set_property(SOURCE api/library.cpp api/no_cuda.cpp APPEND PROPERTY COMPILE_DEFINITIONS FOPS_WITH_CUDA
  "FOPS_CUDA_ARCHS=\"${archs}\"" "FOPS_CUDA_VERSION=\"${CMAKE_CUDA_COMPILER_VERSION}\"")
