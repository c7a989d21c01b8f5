/* gpugemm.h — what libgpugemm offers beyond the BLAS names: GEMM on a stream of your own, warm-up, statistics, and the reasons for
 * what it did. No CUDA header is needed to include it. The BLAS itself is declared in <gpugemm/cblas.h>.
 *
 * All functions may be called from any thread at any time, and none changes the calling thread's current CUDA device or context. */
#ifndef GPUGEMM_H
#define GPUGEMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define GPUGEMM_VERSION_MAJOR 0
#define GPUGEMM_VERSION_MINOR 1
#define GPUGEMM_VERSION_PATCH 0

/* The version of the library that is running, "MAJOR.MINOR.PATCH". */
const char *gpugemm_version(void);

/* ---- status ------------------------------------------------------------------------------------------------------------ */

/* 0: done (or enqueued). A negative value -i: the i-th argument of the call is illegal and nothing was touched (LAPACK's info). A positive value is
 * one of these; C is then untouched, except after GPUGEMM_GPU_ERROR with operands in GPU memory. */
enum gpugemm_status {
    GPUGEMM_SUCCESS = 0,
    GPUGEMM_NO_GPU = 1,      /* operands in GPU memory, but no usable GPU, or a forked child of a process that used it */
    GPUGEMM_NO_MEMORY = 2,   /* GPU or host memory could not be had */
    GPUGEMM_GPU_ERROR = 3,   /* the CUDA driver reported an error; the contents of C are undefined */
    GPUGEMM_NO_KERNEL = 4,   /* this build has no kernel for this GPU */
    GPUGEMM_UNSUPPORTED = 5  /* a mixture of host and GPU operands while the stream is being captured */
};

/* A short English text for a status; never NULL. The string is static. */
const char *gpugemm_status_string(int status);

/* ---- gemm on a stream ---------------------------------------------------------------------------------------------------- */

/* The values of CBLAS_LAYOUT and CBLAS_TRANSPOSE. */
enum gpugemm_layout { GPUGEMM_ROW_MAJOR = 101, GPUGEMM_COL_MAJOR = 102 };
enum gpugemm_transpose { GPUGEMM_NO_TRANS = 111, GPUGEMM_TRANS = 112, GPUGEMM_CONJ_TRANS = 113 };

/* C := alpha op(A) op(B) + beta C, with op(X) = X or X^T (ConjTrans means Trans: the data are real).
 *   op(A) is m×k, op(B) k×n, C m×n; lda, ldb, ldc are the distances in elements between consecutive columns (column-major) or rows
 *   (row-major) and at least max(1, number of rows, resp. columns, as stored). alpha and beta are passed by value.
 *   m = 0 or n = 0: nothing happens. alpha = 0 or k = 0: A and B are not read. beta = 0: C is not read. Only the m×n of C is written.
 * stream: a cudaStream_t or CUstream; NULL is the legacy default stream.
 * When A, B and C are all in device or managed memory the call is asynchronous: it enqueues work on `stream` and returns. It can be
 * captured in a CUDA graph (call once outside capture, on the same stream with the same shapes, first: the workspace does not grow
 * inside it; where it does, between captures, the call may wait for all work on the GPU, as cuMemFree does: make the largest call of a
 * stream first). Graphs captured on one stream share its workspace: they must not run at the same time, nor beside other calls on that
 * stream. A stream whose first call is captured may get the workspace of a destroyed one that had its handle, and share it with that
 * one's graphs. A captured workspace stays until the process ends. The stream must belong to the device that holds C; operands on
 * another GPU are copied over. Managed memory is used on the GPU of the current context.
 * A call of up to eight kernels that is made again and again in a row on a stream, with any operands, is launched as one graph of them,
 * which takes the host half the time. Profilers may have to be told to look into graphs (nsys profile --cuda-graph-trace=node). All
 * such graphs together take about 2 MB of GPU memory.
 * When any operand is in host memory the call waits for the stream, and C is complete at return, whoever computed it.
 * Returns a status as above. Thread-safe; calls on different streams run side by side, but on one GPU one is enqueued after the
 * other: a thread waits while another's call is being enqueued, which takes microseconds unless the driver's queue is full. */
int gpugemm_sgemm(enum gpugemm_layout layout, enum gpugemm_transpose transa, enum gpugemm_transpose transb, int64_t m, int64_t n,
                  int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc, void *stream);
int gpugemm_dgemm(enum gpugemm_layout layout, enum gpugemm_transpose transa, enum gpugemm_transpose transb, int64_t m, int64_t n,
                  int64_t k, double alpha, const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                  int64_t ldc, void *stream);

/* How exact sgemm and dgemm must be, under every name.
 *   DEFAULT  as the environment variable GPUGEMM_PRECISION says (fp32 where it says nothing)
 *   STRICT   FP32 (dgemm: FP64) multiply-adds and nothing else
 *   FP32     by whatever means is fastest, and no less accurate than STRICT except for errors below u abs(A)abs(B), u = 2^-24 (dgemm:
 *            2^-53): where sums cancel almost wholly, sgemm's can be up to 6 times STRICT's. On a Hopper GPU (sgemm: or A100) the means
 *            is the tensor cores, on FP16 or BF16 pieces of A and B, for dgemm on their residues modulo 15 small numbers, if the GPU
 *            certifies the operands as it reads them; others get STRICT. See docs/precision.md
 *   TF32     sgemm's A and B are rounded to 11 significant bits, sums are FP32: only for those who ask for it. Falls back to FP32;
 *            for dgemm the same as FP32
 * Returns the precision in force before; another value than these changes nothing. Per thread. */
enum gpugemm_precision { GPUGEMM_PRECISION_DEFAULT, GPUGEMM_PRECISION_STRICT, GPUGEMM_PRECISION_FP32, GPUGEMM_PRECISION_TF32 };
enum gpugemm_precision gpugemm_set_precision(enum gpugemm_precision precision);

/* gpugemm_sgemm with a precision for this call only; an unknown precision is illegal argument 16. */
int gpugemm_sgemm_precision(enum gpugemm_layout layout, enum gpugemm_transpose transa, enum gpugemm_transpose transb, int64_t m, int64_t n,
                            int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                            int64_t ldc, void *stream, enum gpugemm_precision precision);

/* Where the calling thread's operands live, for the functions above and for the BLAS names.
 *   AUTO    ask the CUDA driver about each pointer, if the process has one loaded (default)
 *   HOST    all operands are in host memory; saves the question
 *   DEVICE  all operands are in device or managed memory
 * Returns the mode in force before; another value than these changes nothing. A wrong promise is undefined behaviour. Per thread. */
enum gpugemm_pointer_mode { GPUGEMM_POINTER_AUTO, GPUGEMM_POINTER_HOST, GPUGEMM_POINTER_DEVICE };
enum gpugemm_pointer_mode gpugemm_set_pointer_mode(enum gpugemm_pointer_mode mode);

/* Brings the GPU up (driver, kernels, buffers, threads) and waits for it, so that no later call pays for it or is served by the CPU
 * meanwhile. Returns GPUGEMM_SUCCESS or GPUGEMM_NO_GPU. Takes some tenths of a second the first time, nothing afterwards. */
int gpugemm_warmup(void);

/* Frees the memory that calls on operands in host memory keep for the next one, GPU memory and page-locked host memory, as far as no call is using
 * it: for a program that needs it elsewhere now. (GPU memory is also freed when no such call has come for five seconds.) May wait for the GPU. The
 * next such call allocates anew and is slower for it, like a process's first call. The workspaces of the program's own streams stay, as graphs may
 * launch with them. Returns the bytes freed. */
size_t gpugemm_release(void);

/* ---- what happened --------------------------------------------------------------------------------------------------------- */

/* Totals since the start of the process or the last reset, of all threads, sgemm and dgemm together. A call is counted once, by who computed C. A
 * gpugemm_* call that returns anything but 0 is not counted. */
struct gpugemm_stats {
    uint64_t calls;         /* = cpu + device + staged */
    uint64_t cpu;           /* passed to the CPU BLAS, or answered on the CPU: nothing to multiply, illegal arguments under a BLAS name */
    uint64_t device;        /* on the GPU, operands in place */
    uint64_t staged;        /* on the GPU, operands staged from host memory */
    uint64_t recovered;     /* of `staged`: finished by the CPU after the GPU failed midway */
    uint64_t bytes_to_gpu;  /* copied by the staged calls */
    uint64_t bytes_from_gpu;
};

/* Fills *stats; pass sizeof(struct gpugemm_stats), so that older programs keep working when it grows. In a forked child its parent's calls until the
 * fork are counted, too. */
void gpugemm_stats_read(struct gpugemm_stats *stats, size_t size);
void gpugemm_stats_reset(void);

/* The calling thread's most recent gemm of those counted above, under any name. The strings are static. */
struct gpugemm_decision {
    const char *routine;    /* "sgemm", "dgemm"; "" before the first call */
    const char *path;       /* "cpu", "device", "staged" */
    const char *kernel;     /* the kernel's name, "" for the CPU; from gpugemm_explain, the kernel that was compared with the CPU */
    const char *reason;     /* why this path */
    int64_t m, n, k;        /* as normalised to column-major C */
    double predicted_cpu;   /* seconds, by the cost model; 0 where the decision did not need it */
    double predicted_gpu;
    double predicted_kernel; /* of predicted_gpu, what the kernels alone take; filled by gpugemm_explain */
    int pieces;              /* into how many pieces k is cut, or how many blocks share the last tiles (stream-K); filled by gpugemm_explain */
    int assumed;             /* which predictions rest on assumed, not measured, speeds of this machine: 1 the CPU's, 2 the copies', 3 both; filled by
                              * gpugemm_explain */
};

void gpugemm_last_decision(struct gpugemm_decision *decision, size_t size);

/* Who would serve such a call, without making it. routine: "sgemm" or "dgemm", column-major, smallest leading dimensions, alpha = 1. in_gpu_memory:
 * all operands are in GPU memory, otherwise all in pageable host memory. gpu: NULL for the GPU that is present, which is started and waited for; or
 * "a100", "h100", "h200", which is only assumed. Fills *decision; pass sizeof(struct gpugemm_decision). Returns GPUGEMM_SUCCESS; GPUGEMM_NO_GPU when
 * there is none (*decision is filled all the same; gpugemm_info says why there is none); -i when the i-th argument is illegal. */
int gpugemm_explain(const char *routine, enum gpugemm_transpose transa, enum gpugemm_transpose transb, int64_t m, int64_t n, int64_t k,
                    double beta, int in_gpu_memory, const char *gpu, struct gpugemm_decision *decision, size_t size);

/* What `gpugemm info` prints: the GPU or why there is none, the CPU BLAS and where it was found, the sizes from which the GPU serves, the
 * options in force. Starts the GPU and waits for it. The text is malloc'ed: free it. NULL: no memory. */
char *gpugemm_info(void);
char *gpugemm_info_json(void); /* the main facts of gpugemm_info as one JSON object */

/* What `gpugemm tune` does: measures calls of the CPU BLAS and the GPU over sizes and shapes (less than half a minute), bases decisions on the
 * results from then on, keeps them for later processes of this user (see FILES in gpugemm(1)), and returns a table of them. progress may be NULL; it
 * is told what comes next, with `done` going from 0 to 1. The text is malloc'ed: free it. NULL: no memory. */
char *gpugemm_tune(void (*progress)(double done, const char *what, void *argument), void *argument);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
