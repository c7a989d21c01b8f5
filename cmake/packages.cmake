# packages.cmake — Debian packages by CPack: libgpugemm0 (the library, an alternative for libblas.so.3), libgpugemm-dev, gpugemm (the command).
#   cmake --preset package && cmake --build --preset package && (cd build-package && cpack)
# The preset installs to /usr, for which GNUInstallDirs chooses the multiarch folder. The alternative's priority is below that of the reference BLAS
# (10), so it is not chosen automatically while another BLAS is there.

if(NOT CMAKE_INSTALL_LIBDIR MATCHES "^lib/(.+-linux-gnu.*)$") # not Debian's layout: nothing to package here
  return()
endif()
set(multiarch ${CMAKE_MATCH_1})
set(libdir /${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR})
cmake_path(NORMAL_PATH libdir)

foreach(package library=libgpugemm0 development=libgpugemm-dev command=gpugemm)
  string(REPLACE = ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  install(FILES LICENSE DESTINATION share/doc/${name} RENAME copyright COMPONENT ${component})
endforeach()

# A folder of its own, as every BLAS has, with the file name that programs ask for.
install(CODE "
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/gpugemm\")
  file(MAKE_DIRECTORY \"\${folder}\")
  file(CREATE_LINK ../libgpugemm.so.0 \"\${folder}/libblas.so.3\" SYMBOLIC)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/gpugemm/libblas.so.3\")" COMPONENT library)

# The oldest libc6 that the code runs with: headers of 2.38 and newer replace sscanf and strtol by new versions. Checked by tests/t_packages.sh.
execute_process(COMMAND getconf GNU_LIBC_VERSION OUTPUT_VARIABLE glibc)
string(REGEX MATCH "[0-9.]+" glibc "${glibc}")
set(libc "libc6 (>= 2.34)")
if(glibc VERSION_GREATER_EQUAL 2.38)
  set(libc "libc6 (>= 2.38)")
endif()

set(scripts ${CMAKE_CURRENT_BINARY_DIR}/debian)
file(CONFIGURE OUTPUT ${scripts}/postinst @ONLY CONTENT [[#!/bin/sh
set -e
if [ "$1" = configure ]; then
    update-alternatives --install @libdir@/libblas.so.3 libblas.so.3-@multiarch@ @libdir@/gpugemm/libblas.so.3 5
fi
]])
file(CONFIGURE OUTPUT ${scripts}/prerm @ONLY CONTENT [[#!/bin/sh
set -e
if [ "$1" != upgrade ]; then
    update-alternatives --remove libblas.so.3-@multiarch@ @libdir@/gpugemm/libblas.so.3
fi
]])
file(WRITE ${scripts}/triggers "activate-noawait ldconfig\n")
file(CHMOD ${scripts}/postinst ${scripts}/prerm PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gpugemm)
set(CPACK_PACKAGE_CONTACT "libgpugemm developers <libgpugemm@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL library development command)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libgpugemm0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "${libc}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "libopenblas0") # netlib's libblas3 is not found when libblas.so.3 is this library
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${scripts}/postinst ${scripts}/prerm ${scripts}/triggers)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "BLAS whose matrix products run on an NVIDIA GPU
Serves sgemm and dgemm under all names on the GPU where that is faster, and
passes everything else to the BLAS that is there. Registered as an alternative
for libblas.so.3, not chosen by default.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgpugemm-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libgpugemm0 (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "BLAS whose matrix products run on an NVIDIA GPU: development files
Headers, pkg-config and CMake packages, libgpugemm(3).")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME gpugemm)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION math)
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "libgpugemm0 (= ${PROJECT_VERSION}), ${libc}")
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "python3-matplotlib")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "runs unmodified programs with their matrix products on the GPU
The command gpugemm: run, info, check, explain, tune, bench.")
include(CPack)
