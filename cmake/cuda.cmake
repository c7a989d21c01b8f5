# cuda.cmake — finds nvcc and embeds each cuda/*.cu in the library: nvcc -fatbin, then an assembly file whose .incbin makes it gg_image_<stem>,
# gg_image_<stem>_update for calls that read C, and of each a gg_image_…_whole for those that cut no tile and a gg_image_…_cut for those that cut all
# in one way. They are the same image where all calls run the same code, else the file is compiled several times, with GG_UPDATE, GG_WHOLE and
# GG_CUT 0 or 1 (cuda/tile.cuh). The report of ptxas on registers and spills is kept beside it, in <stem>.log, for tests/t_resources.sh. CMake's own
# CUDA language is not used: it would link the CUDA runtime, which the library does not need. Sets GPUGEMM_CUDA to OFF without nvcc.

if(GPUGEMM_CUDA)
  find_program(GPUGEMM_NVCC nvcc HINTS $ENV{CUDACXX} ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin DOC "The CUDA compiler")
  if(EXISTS "$ENV{CUDACXX}")
    set(GPUGEMM_NVCC $ENV{CUDACXX})
  endif()
  if(GPUGEMM_NVCC)
    file(REAL_PATH ${GPUGEMM_NVCC} nvcc)
    cmake_path(GET nvcc PARENT_PATH toolkit)
    cmake_path(GET toolkit PARENT_PATH toolkit)
    find_path(GPUGEMM_CUDA_INCLUDE cuda.h HINTS ${toolkit}/include ${toolkit}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include
              DOC "The folder of cuda.h")
  endif()
  if(NOT GPUGEMM_NVCC OR NOT GPUGEMM_CUDA_INCLUDE)
    message(STATUS "gpugemm: no CUDA toolkit (nvcc and cuda.h) was found: building without GPU kernels, as with GPUGEMM_CUDA=OFF")
    set(GPUGEMM_CUDA OFF)
    set(GPUGEMM_CUDA_INCLUDE "")
  endif()
else()
  set(GPUGEMM_CUDA_INCLUDE "")
endif()

# -gencode flags for GPUGEMM_CUDA_ARCHITECTURES, except those that this nvcc does not know. SASS for each, and PTX of the last one without a letter,
# which the driver compiles for later GPUs; if all have a letter, PTX of the last one's base architecture.
function(gpugemm_gencode result)
  foreach(arch ${GPUGEMM_CUDA_ARCHITECTURES})
    execute_process(COMMAND ${GPUGEMM_NVCC} --dryrun -cubin -arch=sm_${arch} -x cu /dev/null
                    RESULT_VARIABLE unknown OUTPUT_QUIET ERROR_QUIET)
    if(unknown)
      message(STATUS "gpugemm: ${GPUGEMM_NVCC} cannot compile for compute capability ${arch}: left out")
      continue()
    endif()
    list(APPEND flags -gencode=arch=compute_${arch},code=sm_${arch})
    list(APPEND kept ${arch})
    string(REGEX REPLACE "^([0-9]+)[a-z]$" "-\\1" number ${arch})
    list(APPEND built ${number})
  endforeach()
  if(NOT kept)
    message(FATAL_ERROR "GPUGEMM_CUDA_ARCHITECTURES=${GPUGEMM_CUDA_ARCHITECTURES}: none of them is known to ${GPUGEMM_NVCC}")
  endif()
  set(plain ${kept})
  list(FILTER plain EXCLUDE REGEX "[a-z]$")
  list(POP_BACK plain last)
  if(NOT last)
    list(GET kept -1 last)
    string(REGEX REPLACE "[a-z]$" "" last ${last})
  endif()
  list(JOIN kept " " kept)
  message(STATUS "gpugemm: kernels for compute capability ${kept}, and PTX for ${last}")
  set(${result} ${flags} -gencode=arch=compute_${last},code=compute_${last} PARENT_SCOPE)
  list(JOIN built "," built)
  target_compile_definitions(gpugemm_flags INTERFACE GG_BUILT_FOR=${built} GG_PTX_FOR=${last}) # for code_for in select.c
  if(NOT kept MATCHES "90a") # then select.c must not choose rows that need it
    target_compile_definitions(gpugemm_flags INTERFACE GG_WITHOUT_SM90A)
  endif()
endfunction()

# Makes the assembly sources for the library, one for each kernel file.
function(gpugemm_embed_kernels result)
  gpugemm_gencode(gencode)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cu)
  if(GPUGEMM_WERROR)
    set(werror -Werror=all-warnings)
  endif()
  foreach(kernel ${kernels})
    cmake_path(GET kernel STEM stem)
    set(image ${CMAKE_CURRENT_BINARY_DIR}/cuda/${stem})
    set(kinds "")
    if(stem MATCHES "^(dgemm.*|multistage.*|panel|sgemm.*|tensor(_once|_pair)?|tiled)$")
      list(APPEND kinds _update)
    endif()
    if(stem STREQUAL dgemm_tma)
      list(APPEND kinds _whole _update_whole)
    endif()
    if(stem MATCHES "^(dgemm_tma|sgemm_tma_once)$")
      list(APPEND kinds _cut _update_cut)
    endif()
    set(level 3)
    if(stem MATCHES "^(sgemm(_tma|_tma_once)?|tensor_once|multistage)$")
      set(level 1) # the reason is in cuda/ffma.cuh
    endif()
    set(binaries)
    foreach(kind IN LISTS kinds ITEMS "")
      set(compilation ${stem}${kind})
      set(out ${CMAKE_CURRENT_BINARY_DIR}/cuda/${compilation})
      list(APPEND binaries ${out}.fatbin)
      set(define)
      if(kinds)
        string(REGEX MATCH _update is_update "${kind}")
        string(REGEX MATCH _whole is_whole "${kind}")
        string(REGEX MATCH _cut is_cut "${kind}")
        set(define -DGG_UPDATE=$<BOOL:${is_update}> -DGG_WHOLE=$<BOOL:${is_whole}> -DGG_CUT=$<BOOL:${is_cut}>)
      endif()
      add_custom_command(OUTPUT ${out}.fatbin
        COMMAND sh -c "\"$0\" \"$@\" 2> '${out}.log' || { cat '${out}.log' >&2; exit 1; }; grep -i 'warning' '${out}.log' >&2 || :"
                ${GPUGEMM_NVCC} -fatbin ${gencode} -O3 -std=c++17 ${werror} -Xptxas -v,-O${level} -I${CMAKE_CURRENT_SOURCE_DIR}/cuda ${define}
                -MD -MF ${out}.d -MT ${out}.fatbin -o ${out}.fatbin ${kernel}
        DEPENDS ${kernel} DEPFILE ${out}.d COMMENT "Compiling kernels ${compilation}" VERBATIM)
    endforeach()
    set(others "")
    foreach(kind _update _whole _update_whole _cut _update_cut)
      set(other gg_image_${stem}${kind})
      string(REGEX REPLACE "_[a-z]+$" "" wider "${kind}") # serves if there is no such code
      string(APPEND others "    .globl ${other}\n    .hidden ${other}\n    .type ${other}, %object\n")
      if(kind IN_LIST kinds)
        string(APPEND others "    .balign 64\n${other}:\n    .incbin \"${image}${kind}.fatbin\"\n    .size ${other}, . - ${other}\n")
      else()
        string(APPEND others "    .set ${other}, gg_image_${stem}${wider}\n")
      endif()
    endforeach()
    file(CONFIGURE OUTPUT ${image}.S @ONLY CONTENT [[
    .section .rodata
    .balign 64
    .globl gg_image_@stem@
    .hidden gg_image_@stem@
    .type gg_image_@stem@, %object
gg_image_@stem@:
    .incbin "@image@.fatbin"
    .size gg_image_@stem@, . - gg_image_@stem@
@others@
    .section .note.GNU-stack, "", %progbits
]])
    set_property(SOURCE ${image}.S APPEND PROPERTY OBJECT_DEPENDS ${binaries})
    list(APPEND images ${image}.S)
  endforeach()
  set(${result} ${images} PARENT_SCOPE)
endfunction()
