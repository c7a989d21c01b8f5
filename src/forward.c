/* forward.c — owns where the symbols of forward.def lead. Their code is in forward_<machine>.S: a jump that touches no argument. For each symbol and
 * calling object the code asks here once which address of the real BLAS to jump to. Nothing here runs before the first call of a symbol.
 *
 * A process may hold two BLASes (Python modules bring theirs in their own scope), and the preloaded names must not move a call from one to the other.
 * So an answer found in a caller's scope holds for that caller's object only; what follows us in the global order holds for everybody. Where an
 * object is unloaded, the next one at its address gets its answers. That is a BLAS, too, if not its own; but 32-bit integers must not arrive where
 * 64-bit ones are expected, and so a caller of an ILP64 BLAS under plain names is never unloaded. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "real.h"
#include "trace.h"

/* All spellings one after the other; error handlers are marked with "!", gemm's bare names with "=". */
#define X(symbol) #symbol "\0"
#define X_XERBLA(symbol) "!" #symbol "\0"
#define X_BARE(symbol) "=" #symbol "\0"
static const char names[] =
#include "forward.def"
    ;

enum {
#define X(symbol) ID_##symbol,
#define X_XERBLA(symbol) ID_##symbol,
#define X_BARE(symbol) ID_##symbol,
#include "forward.def"
    SYMBOLS
};

/* Callers in [start, start + size) jump to target. Written once, size last. The machine's entry reads size before target. It may read start too early
 * and get 0; that is right if size is UINTPTR_MAX, and with any other size no caller lies that low. The .S files know this layout. */
struct gg_forward_slot {
    _Atomic uintptr_t size, start;
    _Atomic(void *) target;
};
struct gg_forward_slot gg_forward_slots[SYMBOLS];
_Static_assert(sizeof(struct gg_forward_slot) == 24, "SLOT in forward_*.S");

/* Callers outside their symbol's slot, by call site. An entry is written once: claimed, filled, then published by writing its key. */
enum { SITES = 4096, PROBES = 8, CLAIMED = 1 };
static struct {
    _Atomic uint64_t key;
    _Atomic(void *) target;
} sites[SITES];

static _Atomic unsigned char claimed[SYMBOLS];

void *gg_forward_find(unsigned symbol, const void *caller, uintptr_t first);

static uint64_t site_key(unsigned symbol, const void *caller)
{
    return (uint64_t)(uintptr_t)caller << 12 | symbol;
}
_Static_assert((int)SYMBOLS < 1 << 12, "site_key");

static unsigned site_start(uint64_t key)
{
    return (unsigned)(key * 0x9e3779b97f4a7c15u >> 40) % SITES;
}

static void *site_target(uint64_t key)
{
    for (unsigned i = site_start(key), n = 0; n < PROBES; i = (i + 1) % SITES, n++)
        if (atomic_load_explicit(&sites[i].key, memory_order_acquire) == key)
            return atomic_load_explicit(&sites[i].target, memory_order_relaxed);
    return NULL;
}

/* Where all probed entries are taken the call site is not remembered, and looked up again next time. */
static void remember_site(uint64_t key, void *target)
{
    for (unsigned i = site_start(key), n = 0; n < PROBES; i = (i + 1) % SITES, n++) {
        uint64_t empty = 0;
        if (!atomic_compare_exchange_strong(&sites[i].key, &empty, CLAIMED))
            continue;
        atomic_store(&sites[i].target, target);
        atomic_store(&sites[i].key, key);
        return;
    }
}

struct range {
    uintptr_t address, start, size;
};

/* dl_iterate_phdr's visitor: the loaded object that contains an address. */
static int find_object(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    struct range *range = data;
    uintptr_t first = UINTPTR_MAX, last = 0;
    bool inside = false;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        first = start < first ? start : first;
        last = start + segment->p_memsz > last ? start + segment->p_memsz : last;
        inside |= range->address - start < segment->p_memsz;
    }
    if (inside)
        *range = (struct range){range->address, first, last - first};
    return inside;
}

static void remember(unsigned symbol, const char *name, const void *caller, void *target)
{
    struct range range = {(uintptr_t)caller, (uintptr_t)caller, 1}; /* code in no object (a JIT's) or in a child: this call site alone */
    Dl_info info;
    if (dladdr(target, &info)) /* a target must outlive what remembers it: keep its library from being unloaded */
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (gg_real_near(name, NULL) == target)
        range = (struct range){0, 0, UINTPTR_MAX};
    else if (!gg_loader_forked())
        dl_iterate_phdr(find_object, &range);
    if (range.size != UINTPTR_MAX && !strstr(name, "64") && gg_real_is_ilp64(target) && dladdr(caller, &info))
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (atomic_exchange(&claimed[symbol], 1)) {
        remember_site(site_key(symbol, caller), target);
        return;
    }
    atomic_store(&gg_forward_slots[symbol].target, target);
    atomic_store(&gg_forward_slots[symbol].start, range.start);
    atomic_store(&gg_forward_slots[symbol].size, range.size);
}

/* The other spellings a library may give a routine, with the same integers and calling convention. The first row that matches the name applies. */
static void *find_by_any_spelling(const char *name, const void *caller)
{
    static const struct {
        const char *before, *after, *others[2][2];
    } spellings[] = {
        {"cblas_", "64_", {{"cblas_", "_64"}, {"scipy_cblas_", "64_"}}},
        {"cblas_", "_64", {{"cblas_", "64_"}, {"scipy_cblas_", "64_"}}},
        {"cblas_", "", {{"scipy_cblas_", ""}}},
        {"", "_64_", {{"", "_64"}, {"scipy_", "_64_"}}},
        {"", "_", {{"scipy_", "_"}}},
    };
    void *found = gg_real_find(name, caller);
    for (unsigned i = 0; !found && i < sizeof spellings / sizeof *spellings; i++) {
        size_t before = strlen(spellings[i].before), after = strlen(spellings[i].after), length = strlen(name);
        if (strncmp(name, spellings[i].before, before) != 0 || strcmp(name + length - after, spellings[i].after) != 0)
            continue;
        for (int j = 0; !found && j < 2 && spellings[i].others[j][0]; j++) {
            char other[64];
            snprintf(other, sizeof other, "%s%.*s%s", spellings[i].others[j][0], (int)(length - before - after), name + before,
                     spellings[i].others[j][1]);
            found = gg_real_find(other, caller);
        }
        break;
    }
    return found;
}

/* ---- error handlers: a program's own wins, whenever it appears, so they are looked up at every call --------------------------------- */

/* The reference's message, but unlike the reference these let the program go on. Only the low half of *info is read, so both widths of integer
 * serve. */
static void xerbla(const char *routine, const int *info, size_t length)
{
    size_t n = 0;
    while (n < length && n < 32 && routine[n] && routine[n] != ' ')
        n++;
    fprintf(stderr, " ** On entry to %.*s parameter number %2d had an illegal value\n", (int)n, routine, *info);
}

static void cblas_xerbla(int64_t info, const char *routine, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if ((int)info)
        fprintf(stderr, "Parameter %d to routine %s was incorrect\n", (int)info, routine);
    vfprintf(stderr, format, args);
    va_end(args);
}

static void *find_xerbla(const char *name, const void *caller)
{
    void *found = gg_real_near(name, NULL);
    if (!found) /* NumPy's own xerbla_ is meant for the LAPACK that NumPy loads RTLD_LOCAL */
        found = gg_real_imported(name, caller);
    if (!found)
        found = gg_real_near(name, caller); /* before GPUGEMM_BLAS, whose own is no program's */
    if (!found)
        found = gg_real_find(name, caller);
    if (!found)
        found = strncmp(name, "cblas_", 6) == 0 ? (void *)cblas_xerbla : (void *)xerbla;
    return found;
}

/* ---- gemm's bare names: served, unless without this library the caller would reach a function that is no BLAS's ---------------------- */

/* Nor is a call served whose first argument is no address: ACML and Sun's library have a dgemm for C that takes its arguments by value, beside
 * Fortran's dgemm_. */
static void *find_bare(const char *name, const void *caller, uintptr_t first)
{
    const uintptr_t lowest = 4096; /* address that anything can have */
    extern void gg_sgemm(void), gg_dgemm(void), gg_sgemm_64(void), gg_dgemm_64(void); /* entry.c */
    void *found = gg_real_near(name, caller);
    if (found && (first < lowest || !gg_real_in_blas(found)))
        return found;
    if (*name == 's')
        return name[5] ? (void *)gg_sgemm_64 : (void *)gg_sgemm;
    return name[5] ? (void *)gg_dgemm_64 : (void *)gg_dgemm;
}

/* Called by the .S file alone: the address that a call of `symbol` from `caller`, whose first argument is given, must jump to. */
void *gg_forward_find(unsigned symbol, const void *caller, uintptr_t first)
{
    void *target = site_target(site_key(symbol, caller));
    if (target)
        return target;
    int saved = errno;
    gg_loader_enter();
    const char *name = names;
    for (unsigned i = 0; i < symbol; i++)
        name += strlen(name) + 1;
    if (*name == '!') {
        target = find_xerbla(name + 1, caller);
    } else if (*name == '=') {
        target = find_bare(name + 1, caller, first);
        remember(symbol, name + 1, caller, target);
    } else {
        target = find_by_any_spelling(name, caller);
        if (!target)
            gg_abort("%s is not served by libgpugemm, and no BLAS that has it was found. Install libopenblas0 (libopenblas64-0 for 64-bit "
                     "names), or set GPUGEMM_BLAS to the path of one that has it",
                     name);
        remember(symbol, name, caller, target);
    }
    gg_loader_leave();
    errno = saved;
    return target;
}
