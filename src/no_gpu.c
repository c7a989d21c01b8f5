/* no_gpu.c — replaces gpu.c and everything behind it (CMakeLists.txt has the list) in a build without kernels, GPUGEMM_CUDA=OFF: the same library,
 * which never has a GPU. */
#include <string.h>

#include "cost.h"
#include "gpugemm.h"
#include "staged.h"

const struct gg_kernel gg_kernels[1] = {{.name = ""}};
const int gg_kernel_count = 0;

enum gg_gpu_state gg_gpu_state(void) { return GG_GPU_NONE; }
double gg_gpu_start_left(void) { return 0; }
void gg_gpu_start(void) {}
bool gg_gpu_wait(double most)
{
    (void)most;
    return false;
}
struct gg_device *gg_gpu_default(void) { return NULL; }
void gg_gpu_driver(int *cuda, int *devices) { *cuda = *devices = 0; }
const char *gg_gpu_trouble(void) { return "this build has no GPU kernels"; }
bool gg_gpu_loaded(void) { return false; }

bool gg_thread_start(void *(*body)(void *), void *argument)
{
    (void)body, (void)argument;
    return false;
}

struct gg_own gg_own = {.heap_bytes = UINTPTR_MAX};

bool gg_gpu_on_host(const void *a, const void *b, const void *c)
{
    (void)a, (void)b, (void)c;
    return true;
}

bool gg_gpu_is_whole(const void *pointer, double bytes)
{
    (void)pointer, (void)bytes;
    return true;
}

struct gg_location gg_gpu_locate(const void *pointer)
{
    (void)pointer;
    return (struct gg_location){.place = GG_HOST};
}

struct gg_device *gg_gpu_device_of(const struct gg_location *where)
{
    (void)where;
    return NULL;
}

bool gg_gpu_await(gg_stream stream)
{
    (void)stream;
    return true;
}

bool gg_gpu_is_captured(struct gg_device *dev, gg_stream stream)
{
    (void)dev, (void)stream;
    return false;
}

bool gg_runs(const struct gg_kernel *row, const struct gg_arch *arch)
{
    (void)row, (void)arch;
    return false;
}

double gg_rate(const struct gg_kernel *row, const struct gg_arch *arch)
{
    (void)arch;
    return row->rate;
}

struct gg_choice gg_select(const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    (void)p, (void)arch, (void)force;
    return (struct gg_choice){.splits = 1};
}

struct gg_choice gg_select_staged(const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    (void)p, (void)arch, (void)force;
    return (struct gg_choice){.splits = 1};
}

bool gg_staged_gemm(struct gg_device *dev, const struct gg_gemm *p, const struct gg_location where[3], gg_stream after,
                    const void *caller, struct gg_outcome *outcome)
{
    (void)dev, (void)p, (void)where, (void)after, (void)caller, (void)outcome;
    return false;
}

bool gg_device_gemm(struct gg_device *dev, const struct gg_gemm *p, gg_stream stream, bool wait, struct gg_outcome *outcome)
{
    (void)dev, (void)p, (void)stream, (void)wait, (void)outcome;
    return false;
}

size_t gg_staged_release(void) { return 0; }

char *gpugemm_tune(void (*progress)(double done, const char *what, void *argument), void *argument)
{
    (void)progress, (void)argument;
    return strdup("Nothing to tune: this build has no GPU kernels\n");
}
