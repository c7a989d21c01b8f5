/* entry.c — owns the exported spellings of sgemm and dgemm (symbols.def); entry_*.S has their code for the commonest small call, and jumps here with
 * all others. The caller's own arguments stay in the entry's frame, so that a declined call goes to the same routine of the real BLAS exactly as it
 * came, or, where C is a vector, to OpenBLAS's gemv (cpu.c). It decides nothing: check.h, serve.c and cpu.c do.
 *
 * CBLAS integers are declared 64 bits wide even under 32-bit names: they travel in registers and eight-byte stack slots either way, the low
 * half is what a 32-bit caller meant, and a caller of an ILP64 library under plain names meant all of it. */
#include <stdatomic.h>
#include <stddef.h>

#include "check.h"
#include "real.h"
#include "serve.h"

enum symbol {
#define X(name, ...) ID_##name,
#include "symbols.def"
    SYMBOLS
};

/* What is known of a spelling's counterpart in the real BLAS. */
static struct {
    _Atomic(void *) routine; /* NULL: there is none */
    _Atomic enum { UNKNOWN, KNOWN, ILP64_UNDER_PLAIN_NAME } state;
} real[SYMBOLS];

/* The same routine, once tiny calls may go there directly: see straight(). With what else entry_*.S knows. */
_Atomic(void *) gg_straight[SYMBOLS];
_Static_assert(offsetof(struct gg_last, m) == 8 && offsetof(struct gg_last, n) == 16 && offsetof(struct gg_last, k) == 24, "entry_*.S");
_Static_assert(offsetof(struct gg_last, straight) == 32 && GG_S == 0 && GG_D == 1 && GG_PATH_CPU == 0 && sizeof(uint64_t[GG_PATHS]) == 24, "entry_*.S");
_Static_assert(offsetof(struct gg_own, heap) == 8 && offsetof(struct gg_own, stack) == 16 && GG_OWN_STACK == 1 << 26, "entry_*.S");

/* Has the real BLAS called us during this call? Its cblas_dgemm may call dgemm_, which is ours (the reference's and BLIS's do). */
static _Thread_local bool came_back;

struct call {
    enum symbol symbol;
    const void *caller, *frame;
    void *routine;
    bool wide;    /* its integers have 64 bits */
    bool entered; /* the real BLAS, in terms of gg_real_inside */
    bool recorded;
    int info;
    double start, declined; /* times: the call came, the real BLAS got it; 0: not needed */
    struct gg_gemm p;
    struct gg_record record;
};

static bool is_bare(enum symbol symbol)
{
    return symbol == ID_sgemm || symbol == ID_dgemm || symbol == ID_sgemm_64 || symbol == ID_dgemm_64;
}

/* Finds the call's routine, whose integers may be wider than the name says. Such a routine is not remembered if a module has brought it in a scope of
 * its own, because other callers' calls must not go there. While gg_real_asking a search for it is going on. */
static void look_up(struct call *call)
{
    if (atomic_load_explicit(&real[call->symbol].state, memory_order_acquire) == UNKNOWN && !gg_real_asking) {
        call->routine = gg_real_find(call->record.symbol, call->caller);
        if (is_bare(call->symbol) && call->routine && !gg_real_in_blas(call->routine)) /* a plugin's own function of that name */
            call->routine = NULL;
        const bool wide = !call->wide && gg_real_is_ilp64(call->routine);
        if (wide && gg_real_near(call->record.symbol, NULL) != call->routine) {
            call->wide = true;
            return;
        }
        atomic_store(&real[call->symbol].routine, call->routine);
        atomic_store(&real[call->symbol].state, wide ? ILP64_UNDER_PLAIN_NAME : KNOWN);
    }
    call->routine = atomic_load_explicit(&real[call->symbol].routine, memory_order_relaxed);
    call->wide |= atomic_load_explicit(&real[call->symbol].state, memory_order_relaxed) == ILP64_UNDER_PLAIN_NAME;
}

/* Answers for a spelling that the real BLAS lacks. The reference's report goes through the program's xerbla_ or xerbla_64_, whoever defines it. */
static void answer(const struct call *call)
{
    extern void xerbla_(const char *, const int64_t *, size_t), xerbla_64_(const char *, const int64_t *, size_t); /* ours, which find the one that
                                                                                                                    * takes precedence */
    const int64_t info = call->info == GG_BAD_LAYOUT ? 0 : call->info; /* 0 as in OpenBLAS: dgemm.f has no such argument. The low half comes first */
    if (call->info)
        (call->wide ? xerbla_64_ : xerbla_)(call->record.type == GG_S ? "SGEMM " : "DGEMM ", &info, 6);
    else
        gg_real_gemm(&call->p, call->caller);
}

static void record(struct call *call)
{
    gg_conclude(&call->record, call->start, call->declined);
    call->recorded = true;
}

/* True: the call is done. False: the real BLAS is to be called, and end() afterwards. */
static bool served(struct call *call)
{
    if (gg_real_asking) {
        gg_real_asking = false;
        return true;
    }
    if (gg_real_calls(call->frame) && !call->info && !gg_on_host(call->p.a, call->p.b, call->p.c))
        gg_real_left(); /* the BLAS has no operands in GPU memory */
    if (gg_real_inside()) { /* one call by the user is one decision */
        came_back = call->recorded = true;
        if (!call->routine) /* the real BLAS calls a spelling that nobody else defines */
            answer(call);
        return !call->routine;
    }
    if (gg_watched())
        call->start = gg_clock();
    bool complete = false;
    if (call->info) {
        call->record.reason = GG_BAD_ARGS;
        record(call); /* before the call: a user's xerbla_ may longjmp, and the thread must not stay "inside the real BLAS" for ever */
    } else {
        const struct gg_request request = {
            .p = &call->p, .caller = call->caller, .routine = call->routine, .stream = GG_LEGACY_STREAM, .wait = true};
        complete = gg_serve(&request, &call->record);
        if (!complete && gg_on_gpu())
            gg_abort("%s: operands in GPU memory, and the GPU cannot serve: %s %s", call->record.symbol, gg_reason_text(call->record.reason),
                     gg_gpu_trouble());
    }
    call->declined = !complete && call->record.model > 0 ? gg_clock() : 0;
    if (!complete && !call->routine) {
        answer(call);
        complete = true;
    }
    if (complete && !call->recorded)
        record(call);
    call->entered = !complete && !call->recorded;
    if (call->entered) {
        came_back = false;
        gg_real_enter(call->frame);
    }
    if (call->entered && gg_real_gemv(&call->p, call->routine)) { /* without end(), because whether gemm calls back is still unknown */
        gg_real_leave();
        record(call);
        complete = true;
    }
    return complete;
}

static void end(struct call *call)
{
    if (call->entered)
        gg_real_leave();
    if (call->recorded)
        return;
    const bool no_gpu = call->record.reason == GG_NO_GPU && gg_config()->mode == GG_MODE_AUTO;
    if ((call->record.reason == GG_TOO_SMALL || no_gpu) && call->start == 0 && !came_back &&
        call->routine == atomic_load_explicit(&real[call->symbol].routine, memory_order_relaxed) &&
        !atomic_load_explicit(&gg_straight[call->symbol], memory_order_relaxed))
        atomic_store_explicit(&gg_straight[call->symbol], call->routine, memory_order_release);
    record(call);
}

/* The short way for a call too small for any GPU, or settled, on operands in host memory. Returns the real BLAS's routine, to be called directly,
 * because what is done here is noticeable beside such a product (bench/declined.c); NULL: take the long way. The short way is open once a call that
 * was too small, or for which there was no GPU, took the long way, with nobody watching, and the real BLAS did not call back. Whether the other
 * arguments are legal is left to the real BLAS. Most tiny calls do not come here: entry_*.S accepts them by the same rules. */
static inline void *straight(enum symbol symbol, enum gg_type type, int64_t m, int64_t n, int64_t k, double alpha, const void *a, const void *b,
                             const void *c)
{
    void *routine = atomic_load_explicit(&gg_straight[symbol], memory_order_acquire);
    enum gg_reason reason = GG_TOO_SMALL;
    if (!routine || !(gg_is_tiny(m, n, k) || gg_is_settled(type, m, n, k, &reason)) || alpha == 0 || gg_real_inside() || !gg_last.own ||
        !(gg_gpu_own(a, b, c) || gg_on_host(a, b, c)))
        return NULL;
    gg_record_straight(type, reason, m, n, k);
    return routine;
}

/* Two functions per spelling: gg_call_*, where entry_*.S jumps to, which saves few registers and ends the short way with a jump, and the long way
 * behind it.
 *
 * The lengths of Fortran's character arguments are passed on as 1 and never read: many callers leave them out. The jump hands the caller's own frame
 * to the real BLAS, including the lengths if they are there. */
#define GG_F77_PARAMETERS(INT)                                                                                                                       \
    const char *transa, const char *transb, const INT *m, const INT *n, const INT *k, const void *alpha, const void *a, const INT *lda,              \
        const void *b, const INT *ldb, const void *beta, void *c, const INT *ldc
#define GG_F77_ARGUMENTS transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc
#define GG_F77_CHECK(TYPE, INT, P)                                                                                                                   \
    gg_check_f77(TYPE, *transa, *transb,                                                                                                             \
                 &(const struct gg_arguments){*(const INT *)m, *(const INT *)n, *(const INT *)k, *(const INT *)lda, *(const INT *)ldb,               \
                                              *(const INT *)ldc, alpha, beta, a, b, c},                                                              \
                 P)

#define GG_CALL(NAME, TYPE, INT)                                                                                                                     \
    {.symbol = ID_##NAME, .caller = caller, .frame = __builtin_frame_address(0), .wide = sizeof(INT) == 8, .record = {.symbol = #NAME, .type = TYPE}}

#define GG_F77(NAME, TYPE, INT)                                                                                                                      \
    static __attribute__((noinline)) void NAME##_long(const void *caller, GG_F77_PARAMETERS(INT))                                                    \
    {                                                                                                                                                \
        struct call call = GG_CALL(NAME, TYPE, INT);                                                                                                 \
        look_up(&call);                                                                                                                              \
        call.info = call.wide ? GG_F77_CHECK(TYPE, int64_t, &call.p) : GG_F77_CHECK(TYPE, INT, &call.p);                                             \
        if (served(&call))                                                                                                                           \
            return;                                                                                                                                  \
        ((gg_f77_gemm *)call.routine)(GG_F77_ARGUMENTS, 1, 1);                                                                                       \
        end(&call);                                                                                                                                  \
    }                                                                                                                                                \
    void gg_call_##NAME(GG_F77_PARAMETERS(INT))                                                                                                      \
    {                                                                                                                                                \
        void *routine = straight(ID_##NAME, TYPE, *m, *n, *k, gg_check_scalar(TYPE, alpha), a, b, c);                                                \
        if (routine)                                                                                                                                 \
            ((f77_gemm *)routine)(GG_F77_ARGUMENTS);                                                                                                 \
        else                                                                                                                                         \
            NAME##_long(__builtin_return_address(0), GG_F77_ARGUMENTS);                                                                              \
    }

#define GG_CBLAS_PARAMETERS(T)                                                                                                                       \
    int layout, int transa, int transb, int64_t m, int64_t n, int64_t k, T alpha, const void *a, int64_t lda, const void *b, int64_t ldb, T beta,    \
        void *c, int64_t ldc
#define GG_CBLAS_ARGUMENTS layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc
#define GG_CBLAS_CHECK(TYPE, INT, P)                                                                                                                 \
    gg_check_cblas(TYPE, layout, transa, transb,                                                                                                     \
                   &(const struct gg_arguments){(INT)m, (INT)n, (INT)k, (INT)lda, (INT)ldb, (INT)ldc, &alpha, &beta, a, b, c}, P)

#define GG_CBLAS(NAME, TYPE, T, INT)                                                                                                                 \
    static __attribute__((noinline)) void NAME##_long(const void *caller, GG_CBLAS_PARAMETERS(T))                                                    \
    {                                                                                                                                                \
        struct call call = GG_CALL(NAME, TYPE, INT);                                                                                                 \
        look_up(&call);                                                                                                                              \
        call.info = call.wide ? GG_CBLAS_CHECK(TYPE, int64_t, &call.p) : GG_CBLAS_CHECK(TYPE, INT, &call.p);                                         \
        if (served(&call))                                                                                                                           \
            return;                                                                                                                                  \
        ((cblas_##T##_gemm *)call.routine)(GG_CBLAS_ARGUMENTS);                                                                                      \
        end(&call);                                                                                                                                  \
    }                                                                                                                                                \
    void gg_call_##NAME(GG_CBLAS_PARAMETERS(T))                                                                                                      \
    {                                                                                                                                                \
        const bool rows = layout == GG_ROW_MAJOR;                                                                                                    \
        void *routine = straight(ID_##NAME, TYPE, rows ? (INT)n : (INT)m, rows ? (INT)m : (INT)n, (INT)k, (double)alpha, a, b, c);                   \
        if (routine)                                                                                                                                 \
            ((cblas_##T##_gemm *)routine)(GG_CBLAS_ARGUMENTS);                                                                                       \
        else                                                                                                                                         \
            NAME##_long(__builtin_return_address(0), GG_CBLAS_ARGUMENTS);                                                                            \
    }

typedef void f77_gemm(const char *, const char *, const void *, const void *, const void *, const void *, const void *, const void *, const void *,
                      const void *, const void *, void *, const void *); /* gg_f77_gemm without lengths */
typedef void cblas_float_gemm(int, int, int, int64_t, int64_t, int64_t, float, const void *, int64_t, const void *, int64_t, float, void *, int64_t);
typedef void cblas_double_gemm(int, int, int, int64_t, int64_t, int64_t, double, const void *, int64_t, const void *, int64_t, double, void *,
                               int64_t);

#define GG_ENTRY_F77_32_S(name) GG_F77(name, GG_S, int32_t)
#define GG_ENTRY_F77_32_D(name) GG_F77(name, GG_D, int32_t)
#define GG_ENTRY_F77_64_S(name) GG_F77(name, GG_S, int64_t)
#define GG_ENTRY_F77_64_D(name) GG_F77(name, GG_D, int64_t)
#define GG_ENTRY_CBLAS_32_S(name) GG_CBLAS(name, GG_S, float, int32_t)
#define GG_ENTRY_CBLAS_32_D(name) GG_CBLAS(name, GG_D, double, int32_t)
#define GG_ENTRY_CBLAS_64_S(name) GG_CBLAS(name, GG_S, float, int64_t)
#define GG_ENTRY_CBLAS_64_D(name) GG_CBLAS(name, GG_D, double, int64_t)

#define X(name, type, abi) GG_ENTRY_##abi##_##type(name)
#include "symbols.def"
