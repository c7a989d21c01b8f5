/* chosen.c — remembers what select.c chose: choosing takes 1 to 5 µs, as long as launching, and programs repeat their calls. Operands in host memory
 * have a choice more, which is cheap and not remembered. */
#include "kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* All that a choice depends on, to be compared as bytes: padding is zero, and addresses are reduced to their alignment. alpha is left out, and of
 * beta counts whether C is read: all rows treat their values alike. */
struct question {
    struct gg_gemm p;
    struct gg_arch arch;
    const char *force; /* a row's name */
};

static void ask(struct question *question, const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    const uintptr_t alignment = 31; /* all that choosing looks at (gg_must_pack, cost.c's sectors) */
    memset(question, 0, sizeof *question);
    question->p.type = p->type;
    question->p.a_kmajor = p->a_kmajor;
    question->p.b_kmajor = p->b_kmajor;
    question->p.m = p->m;
    question->p.n = p->n;
    question->p.k = p->k;
    question->p.a = (void *)((uintptr_t)p->a & alignment);
    question->p.b = (void *)((uintptr_t)p->b & alignment);
    question->p.c = (void *)((uintptr_t)p->c & alignment);
    question->p.lda = p->lda;
    question->p.ldb = p->ldb;
    question->p.ldc = p->ldc;
    question->p.beta = p->beta != 0;
    question->p.precision = p->precision;
    memcpy(&question->arch, arch, sizeof *arch);
    question->force = force;
}

/* Answers are kept in sets of a few places, because a program that goes round in some dozens of products would otherwise have some that displace
 * each other, and a call of a chain asks about its product in two precisions (4097x4099x4093, which displaced itself: 68 us of the host, now 1). */
enum { SETS = 256, WAYS = 4 };
static struct place {
    atomic_flag taken;
    struct question question;
    struct gg_choice choice; /* kernel NULL: the place is empty */
} places[SETS][WAYS];

/* The set of a question. The thread is part of the hash, so that threads that ask the same mostly use different places and do not wait for each
 * other. */
static struct place *set_of(const struct question *question)
{
    const struct gg_gemm *p = &question->p;
    const uint64_t thread = (uint64_t)pthread_self() >> 12,
                   kind = (uint64_t)p->type | (uint64_t)p->a_kmajor << 1 | (uint64_t)p->b_kmajor << 2 | (uint64_t)(p->beta != 0) << 3,
                   parts[] = {kind,
                              (uint64_t)p->precision,
                              (uint64_t)p->m,
                              (uint64_t)p->n,
                              (uint64_t)p->k,
                              (uint64_t)p->lda,
                              (uint64_t)p->ldb,
                              (uint64_t)p->ldc,
                              (uintptr_t)p->a,
                              (uintptr_t)p->b,
                              (uintptr_t)p->c,
                              (uintptr_t)question->force,
                              thread};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * 0x9e3779b97f4a7c15u;
    return places[(hash >> 32) % SETS];
}

/* False: another thread has it now, or one that a fork left behind has it for ever. */
static bool take(struct place *place) { return !atomic_flag_test_and_set_explicit(&place->taken, memory_order_acquire); }
static void leave(struct place *place) { atomic_flag_clear_explicit(&place->taken, memory_order_release); }

struct gg_choice gg_select(const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    static atomic_uint displaced;
    struct question question;
    ask(&question, p, arch, force);
    struct place *const set = set_of(&question), *free = NULL;
    for (struct place *place = set; place < set + WAYS; place++) {
        if (!take(place))
            continue;
        const struct gg_choice choice = place->choice;
        const bool answers = choice.kernel && memcmp(&place->question, &question, sizeof question) == 0;
        leave(place);
        if (answers)
            return choice;
        if (!choice.kernel && !free)
            free = place;
    }
    const struct gg_choice choice = gg_choose(p, arch, force);
    if (!free)
        free = set + atomic_fetch_add_explicit(&displaced, 1, memory_order_relaxed) % WAYS;
    if (take(free)) {
        memcpy(&free->question, &question, sizeof question);
        free->choice = choice;
        leave(free);
    }
    return choice;
}

struct gg_choice gg_select_staged(const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    const struct gg_gemm staged = gg_as_staged(*p);
    const struct gg_choice other = gg_select(&staged, arch, force);
    const bool is_forced = force && other.kernel && strcmp(force, other.kernel->name) == 0;
    const struct gg_kernel *const mapped = is_forced ? NULL : gg_mapped(p, arch, force);
    return mapped ? (struct gg_choice){.kernel = mapped, .splits = 1, .seconds = other.seconds} : other;
}
