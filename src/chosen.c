/* chosen.c — remembers what select.c chose: choosing takes 1 to 5 µs, as long as launching, and programs repeat their calls. */
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
    const uintptr_t alignment = 127;
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

enum { PLACES = 128 };

/* Where an answer is kept. The thread is part of the hash, so that threads that ask the same mostly use different places and do not wait for each
 * other. */
static size_t place_of(const struct question *question)
{
    const struct gg_gemm *p = &question->p;
    const uint64_t thread = (uint64_t)pthread_self() >> 12,
                   parts[] = {(uint64_t)p->m,  (uint64_t)p->n,  (uint64_t)p->k,  (uint64_t)p->lda, (uint64_t)p->ldb,
                              (uintptr_t)p->a, (uintptr_t)p->b, (uintptr_t)p->c, p->type,          thread};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32) % PLACES;
}

struct gg_choice gg_select(const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    static struct {
        atomic_flag taken;
        struct question question;
        struct gg_choice choice;
    } places[PLACES];
    struct question question;
    ask(&question, p, arch, force);
    const size_t at = place_of(&question);
    if (atomic_flag_test_and_set_explicit(&places[at].taken, memory_order_acquire)) /* taken: by another thread, or for ever by one that a fork left
                                                                                     * behind */
        return gg_choose(p, arch, force);
    if (!places[at].choice.kernel || memcmp(&places[at].question, &question, sizeof question) != 0) {
        places[at].choice = gg_choose(p, arch, force);
        memcpy(&places[at].question, &question, sizeof question);
    }
    const struct gg_choice choice = places[at].choice;
    atomic_flag_clear_explicit(&places[at].taken, memory_order_release);
    return choice;
}
