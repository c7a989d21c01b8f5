/* fp.h — the thread's floating-point environment, without libm (the library needs nothing but libc). Only what C's double arithmetic uses:
 * SSE on x86-64, FPCR and FPSR on AArch64. */
#ifndef GG_FP_H
#define GG_FP_H

#include <stdbool.h>
#include <stdint.h>

struct gg_fp {
    uint64_t control, status;
};

#if defined(__x86_64__)

static inline struct gg_fp gg_fp_read(void)
{
    return (struct gg_fp){.control = __builtin_ia32_stmxcsr()};
}

static inline void gg_fp_write(struct gg_fp fp)
{
    __builtin_ia32_ldmxcsr((uint32_t)fp.control);
}

/* No traps, no flags, to nearest. */
static inline void gg_fp_reset(void)
{
    __builtin_ia32_ldmxcsr(0x1f80);
}

static inline bool gg_fp_rounds_to_nearest(struct gg_fp fp)
{
    return (fp.control & 0x6000) == 0;
}

#elif defined(__aarch64__)

static inline struct gg_fp gg_fp_read(void)
{
    struct gg_fp fp;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(fp.control), "=r"(fp.status));
    return fp;
}

static inline void gg_fp_write(struct gg_fp fp)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(fp.control), "r"(fp.status));
}

static inline void gg_fp_reset(void)
{
    gg_fp_write((struct gg_fp){0, 0});
}

static inline bool gg_fp_rounds_to_nearest(struct gg_fp fp)
{
    return (fp.control & 0xc00000) == 0;
}

#else
#error "libgpugemm is for x86-64 and AArch64"
#endif

/* Returns the caller's environment, to be written back, and sets ours: our arithmetic must neither raise the caller's flags nor trip its traps. */
static inline struct gg_fp gg_fp_ours(void)
{
    const struct gg_fp theirs = gg_fp_read();
    gg_fp_reset();
    return theirs;
}

#endif
