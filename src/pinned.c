/* pinned.c — owns the library's own page-locked memory (pinned.h): pages of ours, made by several threads, then registered with the driver. The driver's
 * cuMemHostAlloc takes as long as making 4 KB pages on one thread does, and until it is done no other thread's call of the driver returns. (H200's host,
 * 8 MB 4 to 5 ms, 128 MB 46 to 73; huge pages made by one thread 1.8 and 24, by eight 1.0 to 1.4 and 4.1, then registered in 0.3 and 2.5. Sixteen
 * threads' first calls of 4 MB are done in 36 to 53 ms, before in 98 to 111; a GPU's start takes 212 to 278 ms, before 290 to 471.) Copies are as fast
 * either way. Called by lane.c. */
#include "pinned.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "copy.h"
#include "driver.h"
#include "trace.h"

static const int64_t page = 4 << 10, huge = 2 << 20;

/* For less than this no copy threads are woken. */
static const int64_t for_threads = 16 << 20;

/* A mapping of `size` bytes that begins with a huge page. A forked child does not get it: otherwise who writes to a page first, and that may be the
 * parent, would get a copy in place of the page that the GPU uses. NULL: there is none to be had. */
static char *map(int64_t size)
{
    char *const all = mmap(NULL, (size_t)(size + huge), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    const int64_t before = (int64_t)(-(uintptr_t)all & (uintptr_t)(huge - 1));
    char *const memory = all + before;
    if (before > 0)
        munmap(all, (size_t)before);
    munmap(memory + size, (size_t)(huge - before));
    madvise(memory, (size_t)size, MADV_HUGEPAGE); /* if it fails, there are more pages */
    if (madvise(memory, (size_t)size, MADV_DONTFORK) == 0)
        return memory;
    munmap(memory, (size_t)size);
    return NULL;
}

/* Writes to each page of the mapping, a huge page being one thread's. (fresh.c writes to one in each huge page only, which is no help where the kernel
 * makes none.) */
static void make_pages(char *memory, int64_t size)
{
    enum { PIECES = 64 };
    struct gg_copy pieces[PIECES];
    _Atomic int left;
    const int64_t each = gg_ceil_div(size / huge, PIECES) * huge;
    int count = 0;
    for (int64_t at = 0; at < size; at += each)
        pieces[count++] = (struct gg_copy){.dst = memory + at, .dst_pitch = page, .lines = gg_min(each, size - at) / page, .left = &left};
    atomic_init(&left, count);
    if (size < for_threads) {
        for (int i = 0; i < count; i++)
            gg_copy_run(&pieces[i]);
        return;
    }
    const int threads = gg_copy_start();
    gg_copy_more(threads);
    gg_copy_post(pieces, count, false);
    gg_copy_wait(&left);
    gg_copy_more(-threads);
}

/* Can kernels use registered memory at its own address? Not on every GPU. */
static bool is_at_home(char *memory)
{
    CUdeviceptr seen = 0;
    CUpointer_attribute what = CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    void *values[] = {&seen};
    return gg_cu.cuPointerGetAttributes(1, &what, values, (CUdeviceptr)memory) == CUDA_SUCCESS && seen == (CUdeviceptr)memory;
}

struct gg_pinned gg_pinned_alloc(int64_t bytes)
{
    const struct gg_pinned none = {0};
    const int64_t size = (bytes + huge - 1) & -huge;
    char *const memory = map(size);
    if (!memory)
        return none;
    make_pages(memory, size);
    const CUresult e = gg_cu.cuMemHostRegister(memory, (size_t)bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (e == CUDA_SUCCESS && is_at_home(memory))
        return (struct gg_pinned){.memory = memory, .bytes = bytes, .mapped = size};
    if (e == CUDA_SUCCESS && !GG_CU(cuMemHostUnregister, memory))
        return none;
    munmap(memory, (size_t)size);
    void *other; /* where memory of ours cannot be registered */
    if (e == CUDA_ERROR_OUT_OF_MEMORY || !GG_CU(cuMemHostAlloc, &other, (size_t)bytes, CU_MEMHOSTALLOC_PORTABLE))
        return none;
    return (struct gg_pinned){.memory = other, .bytes = bytes};
}

void gg_pinned_forget(struct gg_pinned *pinned)
{
    if (pinned->mapped > 0)
        munmap(pinned->memory, (size_t)pinned->mapped);
    *pinned = (struct gg_pinned){0};
}

void gg_pinned_free(struct gg_pinned *pinned)
{
    if (pinned->memory && !(pinned->mapped > 0 ? GG_CU(cuMemHostUnregister, pinned->memory) : GG_CU(cuMemFreeHost, pinned->memory)))
        pinned->mapped = 0; /* stays, because the driver may still use it */
    gg_pinned_forget(pinned);
}
