/* pointers.c — owns the answer to "where does this address live": host memory, page-locked or not, managed, or a GPU's. A call asks for each of its
 * operands, so most of it is about not asking the driver. Called by serve.c. */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Where the heap begins, from /proc/self/stat; UINTPTR_MAX where that cannot be read. */
static uintptr_t heap_start(void)
{
    static _Atomic uintptr_t start;
    uintptr_t known = atomic_load_explicit(&start, memory_order_relaxed);
    if (known)
        return known;
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strrchr(text, ')'); /* the end of field 2, the one with spaces; field 47 is start_brk */
    for (int field = 2; at && field < 47; field++)
        at = strchr(at + 1, ' ');
    known = at ? strtoull(at + 1, NULL, 10) : 0;
    atomic_store_explicit(&start, known ? known : UINTPTR_MAX, memory_order_relaxed);
    return known ? known : UINTPTR_MAX;
}

bool gg_gpu_in_heap(const void *pointer) { return (uintptr_t)pointer >= heap_start() && (uintptr_t)pointer < (uintptr_t)sbrk(0); }

/* Ticks of the processor's clock, about 3e9 a second; 0 where there is none that is as cheap. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* For a page of host memory to become the GPU's it must be unmapped, and the driver must reserve its addresses anew, with several calls of the
 * kernel: so what the driver has said is believed for less than ten microseconds. Programs that make tiny calls by the million make more than one in
 * that time (8 x 8 x 8 on mapped memory: 370 ns more than a direct call when the driver is asked each time, H200's host, 2026-11). */
bool gg_gpu_on_host(const void *const operands[3])
{
    const uint64_t believed = 20000;
    static _Thread_local struct {
        uintptr_t pages[3];
        uint64_t asked; /* 0: never */
    } known;
    bool same = known.asked != 0;
    for (int x = 0; x < 3; x++)
        same = same && (uintptr_t)operands[x] >> 12 == known.pages[x];
    const uint64_t now = ticks();
    if (same && now - known.asked < believed)
        return true;
    known.asked = 0;
    for (int x = 0; x < 3; x++) {
        if (gg_gpu_locate(operands[x]).place > GG_PINNED)
            return false;
        known.pages[x] = (uintptr_t)operands[x] >> 12;
    }
    known.asked = now;
    return true;
}

/* By the kernel, not by touching it. */
static bool is_readable(const void *pointer)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)pointer, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) >= 0 || errno != EFAULT;
}

struct gg_location gg_gpu_locate(const void *pointer)
{
    struct gg_location where = {.place = GG_HOST, .ordinal = -1};
    if (!pointer || !gg_gpu_loaded() || gg_gpu_state() == GG_GPU_FORKED)
        return where;
    if (!gg_driver_load()) { /* the program uses CUDA, we cannot */
        where.place = is_readable(pointer) ? GG_HOST : GG_DEVICE;
        return where;
    }
    CUmemorytype type = 0;
    unsigned managed = 0;
    CUcontext context = NULL;
    int ordinal = -1;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_CONTEXT,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &managed, &context, &ordinal};
    /* An ordinary host pointer is a success with all values 0. It is an error before cuInit, when nobody can have device memory, but a lost GPU may
     * be silent about its memory, too: what this process cannot read is not the host's. */
    if (gg_cu.cuPointerGetAttributes(4, what, values, (CUdeviceptr)pointer) != CUDA_SUCCESS) {
        where.place = is_readable(pointer) ? GG_HOST : GG_DEVICE;
        return where;
    }
    if (!type)
        return where;
    where.place = managed ? GG_MANAGED : type == CU_MEMORYTYPE_DEVICE ? GG_DEVICE : GG_PINNED;
    where.ordinal = ordinal;
    where.context = context;
    return where;
}
