# fops_cuda_architectures(OUT) sets OUT to the architectures to compile for: the user's choice, if there is one; otherwise
# those of this machine's GPUs; if there are none, all usual ones that the compiler supports.

# Sets `out` to the architectures of this machine's GPUs, such as "80-real;90-real"; empty if there is no driver.
function(fops_present_gpus out)
  set(archs "")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
    foreach(capability IN LISTS capabilities)
      string(REPLACE "." "" arch "${capability}")
      list(APPEND archs ${arch}-real)
    endforeach()
    list(REMOVE_DUPLICATES archs)
  endif()
  set(${out} "${archs}" PARENT_SCOPE)
endfunction()

function(fops_cuda_architectures out)
  if(FASHION_OPS_CUDA_ARCHS)
    string(REGEX REPLACE "[, ]+" ";" archs "${FASHION_OPS_CUDA_ARCHS}")
    foreach(arch IN LISTS archs)
      if(NOT arch MATCHES "^([0-9]+[af]?(-real|-virtual)?|native|all|all-major)$")
        message(FATAL_ERROR "FASHION_OPS_CUDA_ARCHS holds '${arch}': write it as in \"80;90a-real;90-virtual\"")
      endif()
    endforeach()
    set(${out} "${archs}" PARENT_SCOPE)
    return()
  endif()

  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  fops_present_gpus(wanted)
  set(archs "")
  foreach(arch IN LISTS wanted)
    string(REPLACE "-real" "" number ${arch})
    if(known MATCHES "sm_${number}[^0-9]")
      list(APPEND archs ${arch})
    endif()
  endforeach()
  if(NOT archs)
    # This machine has no GPU, or only GPUs that this compiler does not support: take the usual architectures, and PTX, which
    # drivers compile for newer GPUs.
    foreach(number 75 80 86 89 90)
      if(known MATCHES "sm_${number}[^0-9]")
        list(APPEND archs ${number}-real)
        set(newest ${number})
      endif()
    endforeach()
    # The PTX is for 90 and not for 90a, because PTX for 90a does not run on newer GPUs.
    list(APPEND archs ${newest}-virtual)
  endif()
  # sm_90a is sm_90 with the instructions that only Hopper has. nvcc supports it since version 12.0.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0)
    string(REPLACE "90-real" "90a-real" archs "${archs}")
  endif()
  set(${out} "${archs}" PARENT_SCOPE)
endfunction()
