/* cblas.h — the CBLAS functions of libgpugemm, for C and C++. `pkg-config --cflags gpugemm` also finds it as <cblas.h>.
 *
 * Names, arguments and values are those of the reference CBLAS 3.12 (netlib), so a program written for any CBLAS compiles. sgemm and dgemm run on
 * a GPU when that is faster; every other function is the CPU BLAS's own. Each function exists three times:
 *
 *   cblas_dgemm       every integer argument is an int
 *   cblas_dgemm64_    every integer argument is an int64_t     (OpenBLAS's name)
 *   cblas_dgemm_64    every integer argument is an int64_t     (the reference's and MKL's name)
 *
 * Complex scalars are passed by address and complex vectors as void pointers to pairs of float or double. An illegal argument is reported by
 * cblas_xerbla, which a program may define itself. The functions may be called from any thread; the Fortran names are not declared here. */
#ifndef GPUGEMM_CBLAS_H
#define GPUGEMM_CBLAS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum CBLAS_LAYOUT { CblasRowMajor = 101, CblasColMajor = 102 } CBLAS_LAYOUT;
typedef enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112, CblasConjTrans = 113, CblasConjNoTrans = 114 } CBLAS_TRANSPOSE;
typedef enum CBLAS_UPLO { CblasUpper = 121, CblasLower = 122 } CBLAS_UPLO;
typedef enum CBLAS_DIAG { CblasNonUnit = 131, CblasUnit = 132 } CBLAS_DIAG;
typedef enum CBLAS_SIDE { CblasLeft = 141, CblasRight = 142 } CBLAS_SIDE;

#define CBLAS_ORDER CBLAS_LAYOUT /* the older name */
#define CBLAS_INDEX size_t       /* what cblas_i?amax returns */
#ifndef CBLAS_INT
#define CBLAS_INT int
#endif

#define GPUGEMM_NAME(name) cblas_##name
#define GPUGEMM_INT int
#include "cblas_functions.h"
#undef GPUGEMM_NAME
#undef GPUGEMM_INT

#define GPUGEMM_INT int64_t
#define GPUGEMM_NAME(name) cblas_##name##64_
#include "cblas_functions.h"
#undef GPUGEMM_NAME

#define GPUGEMM_NAME(name) cblas_##name##_64
#include "cblas_functions.h"
#undef GPUGEMM_NAME
#undef GPUGEMM_INT

#ifdef __cplusplus
}
#endif

#endif
