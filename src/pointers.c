/* pointers.c — owns the answer to "where does this address live": host memory, page-locked or not, managed, or a GPU's. A call asks for each of its
 * operands, so most of this file is about not asking the driver. Called by serve.c. */
#include "driver.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>

struct gg_own gg_own = {.stack = -(uintptr_t)GG_OWN_STACK}; /* where no program has anything */

/* Where the program's data, its writable segment, begin, according to its own program headers; 0: unknown. */
static uintptr_t find_data(void)
{
    const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
    uintptr_t loaded_at = 0, data = 0;
    for (unsigned long i = 0; headers && i < getauxval(AT_PHNUM); i++) {
        if (headers[i].p_type == PT_PHDR)
            loaded_at = (uintptr_t)headers - headers[i].p_vaddr;
        if (headers[i].p_type == PT_LOAD && headers[i].p_flags & PF_W)
            data = loaded_at + headers[i].p_vaddr;
    }
    return data;
}

/* The kernel places the heap behind the data, at a random distance below this, with nothing in between. In a program that was started by naming the
 * loader the heap is elsewhere. */
static const uintptr_t HEAP_NEAR = 2u << 30;

static void find_own(void)
{
    enum { STACK = 28, HEAP = 47 }; /* fields of /proc/self/stat, where each begins */
    uintptr_t stack_end = 0, heap = 0;
    char text[1024];
    const int saved = errno;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* a thread cancelled in here would leave the file open */
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    pthread_setcancelstate(cancel, NULL);
    text[n > 0 ? n : 0] = 0;
    const char *at = strrchr(text, ')'); /* the end of field 2, the one with spaces */
    for (int field = 3; at && field <= HEAP; field++) {
        at = strchr(at + 1, ' ');
        const uintptr_t address = at && (field == STACK || field == HEAP) ? strtoull(at + 1, NULL, 10) : 0;
        if (address)
            *(field == STACK ? &stack_end : &heap) = address;
    }
    const uintptr_t data = find_data();
    gg_own.heap = heap && data < heap && heap - data < HEAP_NEAR ? data : heap;
    gg_own.stack = stack_end - GG_OWN_STACK;
    errno = saved;
}

/* Ticks of the processor's clock, about 3e9 a second; 0 where reading a clock is not as cheap. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* Are all three in host memory, by what the driver has said lately? For a page of host memory to become the GPU's it must be unmapped and its
 * addresses reserved by the driver, which takes several system calls. So the driver's answer is believed for less than ten microseconds. Programs
 * that make tiny calls by the million make more than one in that time (8 x 8 x 8 on mapped memory: 370 ns more than a direct call when the driver is
 * asked each time, H200's host, 2026-11). Each operand has an answer of its own: in NumPy's product of two stacks of matrices they come to new pages
 * at different calls. */
static __attribute__((noinline)) bool are_remembered(const void *a, const void *b, const void *c)
{
    const uint64_t believed = 20000, now = ticks();
    static _Thread_local struct {
        uintptr_t page;
        uint64_t asked; /* 0: never */
    } known[3];
    const void *const operands[] = {a, b, c};
    for (int x = 0; x < 3; x++) {
        const uintptr_t page = (uintptr_t)operands[x] >> 12;
        if (known[x].asked && page == known[x].page && now - known[x].asked < believed)
            continue;
        known[x].asked = 0;
        if (gg_gpu_locate(operands[x]).place > GG_PINNED)
            return false;
        known[x].page = page;
        known[x].asked = now;
    }
    return true;
}

bool gg_gpu_on_host(const void *a, const void *b, const void *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uintptr_t bytes = atomic_load_explicit(&gg_own.heap_bytes, memory_order_acquire);
    if (!bytes)
        pthread_once(&once, find_own);
    const uintptr_t now = gg_own.heap ? (uintptr_t)sbrk(0) - gg_own.heap : 0;
    if (now != bytes)
        atomic_store_explicit(&gg_own.heap_bytes, now, memory_order_release);
    return gg_gpu_own(a, b, c) || !gg_gpu_loaded() || are_remembered(a, b, c);
}

/* Asks the kernel instead of touching the memory. */
static bool is_readable(const void *pointer)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)pointer, 1};
    const int saved = errno;
    const bool readable = process_vm_readv(getpid(), &here, 1, &there, 1, 0) >= 0 || errno != EFAULT;
    errno = saved;
    return readable;
}

/* Managed memory is used where the call is made, as by the program's own kernels, not where it was allocated. */
static void use_current(struct gg_location *where)
{
    CUcontext current = NULL;
    CUdevice device, other;
    if (gg_cu.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current || gg_cu.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return;
    for (int i = 0; gg_cu.cuDeviceGet(&other, i) == CUDA_SUCCESS; i++)
        if (other == device)
            *where = (struct gg_location){.place = where->place, .ordinal = i, .context = current};
}

bool gg_gpu_is_whole(const void *pointer, double bytes)
{
    CUdeviceptr begin = 0;
    size_t size = 0;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&begin, &size};
    return gg_cu.cuPointerGetAttributes(2, what, values, (CUdeviceptr)pointer) != CUDA_SUCCESS || size == 0 /* the driver does not tell */ ||
           (double)(begin + size - (CUdeviceptr)pointer) >= bytes;
}

struct gg_location gg_gpu_locate(const void *pointer)
{
    struct gg_location where = {.place = GG_HOST, .ordinal = -1};
    if (!pointer || !gg_gpu_loaded())
        return where;
    if (gg_gpu_state() == GG_GPU_FORKED || !gg_driver_load()) { /* the program, or the one it was forked from, uses CUDA, but this library cannot */
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
    /* For an ordinary host pointer the call succeeds with all values 0. It fails before cuInit, when nobody can have device memory. But a lost GPU
     * may also fail for its own memory: what this process cannot read is not host memory. */
    if (gg_cu.cuPointerGetAttributes(4, what, values, (CUdeviceptr)pointer) != CUDA_SUCCESS) {
        where.place = is_readable(pointer) ? GG_HOST : GG_DEVICE;
        return where;
    }
    if (!type)
        return where;
    where.place = managed ? GG_MANAGED : type == CU_MEMORYTYPE_DEVICE ? GG_DEVICE : GG_PINNED;
    where.ordinal = ordinal;
    where.context = context;
    if (managed)
        use_current(&where);
    return where;
}
