/* variants.c — times other machine code of one row of cuda/kernels.def, and other ways to cut k, against what the library does now.
 *
 *   variants --row sgemm_tma_64x128 [--sizes 1024,511x513x8191,1024+1,1024@1] [--layouts NN,NT,TN,TT] [--cut CLUSTER:GROUPS:SPLITS]...
 *            [--rounds 9] [--launches 4] [--cold] [--update] [CUBIN...]
 *
 * Each CUBIN holds the row's kernel, compiled from changed sources; it is launched in place of the library's own, by launch.c, so with the same
 * arguments. --cut replaces the choice of select.c, as in struct gg_choice (0 or nothing: as chosen); all kernels are timed with each. How ptxas
 * numbers registers decides 3 % of an FFMA loop, and nothing but the clock tells how well it did: so one compiles many orders of a loop and takes the
 * fastest. 300 cubins take 6 seconds of a GPU.
 *
 *   nvcc -cubin -arch=sm_90a -O3 -std=c++17 -Icuda -DGG_UPDATE=0 -Xptxas -O1 -o orders/1.cubin changed/sgemm_tma_once.cu
 *
 * --update: the calls read C (beta = 1), and cubins are compiled with GG_UPDATE=1. The library's own have GG_WHOLE=1 where no tile is cut. Where all
 * are cut among the blocks of clusters dgemm's cubins must have GG_CUT=1, where they are among single blocks those of sgemm_tma_once.
 *
 * The contestants take turns, `launches` calls each, for so many rounds; the median of the rounds counts. --cold: before each call a fill of 256 MB
 * replaces the contents of L2, as in bench. First is the library's kernel, twice: the difference of the two is the noise. Prints for each its time in
 * microseconds, the time relative to the first, and how far its C is from the first's: "same" to the bit, or the largest difference relative to the
 * largest element. What runs behind itself finds its instructions in the SMs' caches, which saves 1 to 4 us: with --launches 1 only the library's
 * second kernel does, and the unchanged kernel's cubin, if named too, shows what the others should be compared with. A cubin must not want more
 * shared memory than the row in kernels.def has. */
#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/driver.h"
#include "../src/kernels.h"
#include "size.h"

enum { MOST = 4096, CUTS = 32, MOST_ROUNDS = 64, L2_BYTES = 256 << 20 };

static struct gg_device *dev;
static gg_stream stream;
static const struct gg_kernel *row;
static CUresult (*elapsed)(float *, CUevent, CUevent);

struct contestant {
    const char *name;
    CUfunction function; /* NULL: the library's own */
    struct gg_choice choice;
    double seconds[MOST_ROUNDS];
};
static struct contestant *contestants;
static int count;

static struct {
    int cluster, groups, splits;
} cuts[CUTS];
static int cut_count, rounds = 9, launches = 4;
static bool cold, update;
static void *flush;
static gg_event from[MOST_ROUNDS], to[MOST_ROUNDS]; /* around calls */

static void stop(const char *what, const char *which)
{
    fprintf(stderr, "variants: %s%s\n", what, which);
    exit(1);
}

static void need(bool good, const char *what)
{
    if (!good)
        stop(what, ": failed");
}

static CUfunction load(const char *path)
{
    CUmodule module;
    CUfunction function;
    FILE *file = fopen(path, "rb");
    if (!file)
        stop("cannot read ", path);
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    char *image = malloc((size_t)bytes + 1);
    rewind(file);
    if (!image || fread(image, 1, (size_t)bytes, file) != (size_t)bytes)
        stop("cannot read ", path);
    fclose(file);
    if (gg_cu.cuModuleLoadData(&module, image) || gg_cu.cuModuleGetFunction(&function, module, row->name) ||
        gg_cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)gg_max(row->smem, dev->arch.smem_per_sm / 2)))
        stop("no such kernel for this GPU in ", path);
    free(image);
    return function;
}

static void add(const char *name, CUfunction function, const struct gg_gemm *p, int cut)
{
    struct gg_choice choice = gg_choose(p, &dev->arch, row->name);
    if (choice.kernel != row || count == MOST)
        return;
    if (cut >= 0) {
        choice.cluster = cuts[cut].cluster ? cuts[cut].cluster : choice.cluster;
        choice.groups = cuts[cut].groups ? cuts[cut].groups : choice.groups;
        choice.splits = cuts[cut].splits ? cuts[cut].splits : choice.splits;
        if ((int64_t)choice.cluster * choice.groups > gg_ceil_div(p->k, row->tile_k)) /* a block without a step would wait for ever */
            return;
        if (choice.cluster <= 1 && choice.groups > 1 && choice.splits > 1 && gg_half_pieces(&choice, p) < 0) /* not evenly */
            return;
        if (choice.cluster <= 1 && gg_own_pieces(&choice) > 1 && !(row->role == GG_TMA_ONCE && row->type == GG_S)) /* no single blocks */
            return;
        if (choice.cluster > 1 && choice.groups > 1 && row->role != GG_TMA_ONCE && row->type == GG_D) /* no code for that */
            return;
    }
    contestants[count++] = (struct contestant){.name = name, .function = function, .choice = choice};
}

static void run(const struct contestant *c, const struct gg_gemm *p)
{
    struct gg_device_state *state = gg_state_of(dev);
    CUfunction own[GG_IMAGES];
    for (int which = 0; which < GG_IMAGES; which++) {
        _Atomic(CUfunction) *place = &state->functions[which][row - gg_kernels];
        own[which] = atomic_load(place);
        if (c->function)
            atomic_store(place, c->function);
    }
    need(gg_launch(dev, &c->choice, p, stream, false), c->name);
    for (int which = 0; c->function && which < GG_IMAGES; which++)
        atomic_store(&state->functions[which][row - gg_kernels], own[which]);
}

static double timed(const struct contestant *c, const struct gg_gemm *p)
{
    float each, sum = 0;
    if (!cold) {
        gg_cu.cuEventRecord(from[0], stream);
        for (int i = 0; i < launches; i++)
            run(c, p);
        gg_cu.cuEventRecord(to[0], stream);
    } else {
        for (int i = 0; i < launches; i++) {
            need(gg_gpu_fill(flush, 1, L2_BYTES, stream), "fill");
            gg_cu.cuEventRecord(from[i], stream);
            run(c, p);
            gg_cu.cuEventRecord(to[i], stream);
        }
    }
    need(gg_gpu_stream_sync(stream), c->name);
    for (int i = 0; i < (cold ? launches : 1); i++) {
        need(elapsed(&each, from[i], to[i]) == CUDA_SUCCESS, "cuEventElapsedTime");
        sum += each;
    }
    return 1e-3 * (double)sum / launches;
}

static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static double element(const void *c, int64_t i) { return row->type == GG_S ? (double)((const float *)c)[i] : ((const double *)c)[i]; }

/* The largest difference relative to the largest element; a NaN in c makes it infinite. */
static double difference(const void *c, const void *expected, const struct gg_gemm *p)
{
    double largest = 0, apart = 0;
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            const double is = element(c, i + j * p->ldc), should = element(expected, i + j * p->ldc), d = fabs(is - should);
            apart = isnan(d) ? INFINITY : fmax(apart, d);
            largest = fmax(largest, fabs(should));
        }
    return apart / largest;
}

static void *operand(size_t bytes, int64_t offset)
{
    static uint64_t x = 88172645463325252u;
    char *host = malloc(bytes), *memory = gg_gpu_alloc(bytes + (size_t)offset * gg_size(row->type));
    need(host && memory, "memory");
    for (size_t i = 0; i < bytes / gg_size(row->type); i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const double value = (double)(int64_t)x * 0x1p-63;
        if (row->type == GG_S)
            ((float *)host)[i] = (float)value;
        else
            ((double *)host)[i] = value;
    }
    memory += offset * (int64_t)gg_size(row->type);
    need(gg_gpu_copy(memory, host, bytes, stream) && gg_gpu_stream_sync(stream), "copy");
    free(host);
    return memory;
}

static void measure(const char *size, const char *layout, char **cubins, const CUfunction *functions, int cubin_count)
{
    struct size s;
    if (!read_size(size, &s))
        stop("not a size: ", size);
    const bool ta = layout[0] == 'T', tb = layout[1] == 'T';
    struct gg_gemm p = {
        .type = row->type, .precision = GG_STRICT, .m = s.m, .n = s.n, .k = s.k, .alpha = 1, .beta = update, .a_kmajor = ta, .b_kmajor = !tb};
    p.lda = (ta ? p.k : p.m) + s.pitch, p.ldb = (tb ? p.n : p.k) + s.pitch, p.ldc = p.m + s.pitch;
    const int64_t bytes = (int64_t)gg_size(row->type), elements = p.ldc * p.n;
    char *const a = operand((size_t)(p.lda * (ta ? p.m : p.k) * bytes), s.offset);
    char *const b = operand((size_t)(p.ldb * (tb ? p.k : p.n) * bytes), s.offset);
    char *const c = operand((size_t)(elements * bytes), s.offset);
    p.a = a, p.b = b, p.c = c;

    count = 0;
    add("library", NULL, &p, -1), add("library", NULL, &p, -1);
    for (int cut = cut_count > 0 ? 0 : -1; cut < (cut_count > 0 ? cut_count : 0); cut++) {
        if (cut >= 0)
            add("library", NULL, &p, cut);
        for (int i = 0; i < cubin_count; i++)
            add(cubins[i], functions[i], &p, cut);
    }
    if (count == 0)
        stop("the row cannot serve ", size);

    void *expected = malloc((size_t)(elements * bytes)), *got = malloc((size_t)(elements * bytes));
    need(expected && got, "memory");
    double *apart = calloc((size_t)count, sizeof *apart);
    for (int i = 0; i < count; i++) {
        need(gg_gpu_fill(c, update ? 0 : 0xff, (size_t)(elements * bytes), stream), "fill");
        run(&contestants[i], &p);
        void *const copy = i == 0 ? expected : got;
        need(gg_gpu_copy(copy, c, (size_t)(elements * bytes), stream) && gg_gpu_stream_sync(stream), contestants[i].name);
        apart[i] = i == 0 ? 0 : difference(got, expected, &p);
    }
    for (int r = 0; r < rounds; r++) {
        if (cold && r % 2) /* so that it is not always the same contestant's kernel that starts late: see bench.c */
            need(gg_gpu_fill(flush, 1, L2_BYTES, stream), "fill");
        for (int i = 0; i < count; i++)
            contestants[i].seconds[r] = timed(&contestants[i], &p);
    }
    double first = 0;
    for (int i = 0; i < count; i++) {
        const struct contestant *it = &contestants[i];
        qsort(contestants[i].seconds, (size_t)rounds, sizeof(double), ascending);
        const double median = it->seconds[rounds / 2];
        first = i == 0 ? median : first;
        char same[32] = "same";
        if (apart[i] != 0)
            snprintf(same, sizeof same, "%.1e", apart[i]);
        printf("%s %s %.2s  cut %d:%d:%d  %.2f us  %.4f  %s  %s\n", row->name, size, layout, it->choice.cluster, it->choice.groups, it->choice.splits,
               1e6 * median, median / first, same, it->name);
    }
    free(apart), free(expected), free(got);
    gg_gpu_free(a - s.offset * bytes), gg_gpu_free(b - s.offset * bytes), gg_gpu_free(c - s.offset * bytes);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"row", 1, 0, 'k'},  {"sizes", 1, 0, 's'},  {"layouts", 1, 0, 'l'},
                                            {"cut", 1, 0, 'c'},  {"rounds", 1, 0, 'r'}, {"launches", 1, 0, 'n'},
                                            {"cold", 0, 0, 'f'}, {"update", 0, 0, 'u'}, {0}};
    char all_sizes[] = "1024", all_layouts[] = "NN,NT,TN,TT", *sizes = all_sizes, *layouts = all_layouts;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'k':
            for (const struct gg_kernel *each = gg_kernels; each < gg_kernels + gg_kernel_count; each++)
                row = strcmp(each->name, optarg) == 0 ? each : row;
            break;
        case 's': sizes = optarg; break;
        case 'l': layouts = optarg; break;
        case 'c':
            if (cut_count == CUTS)
                stop("more cuts than it has room for: ", optarg);
            sscanf(optarg, "%d:%d:%d", &cuts[cut_count].cluster, &cuts[cut_count].groups, &cuts[cut_count].splits), cut_count++;
            break;
        case 'r': rounds = atoi(optarg); break;
        case 'n': launches = atoi(optarg); break;
        case 'f': cold = true; break;
        case 'u': update = true; break;
        default: return 64;
        }
    update = update && row && row->image[GG_IMAGE_ANY] != row->image[GG_IMAGE_UPDATE];
    if (!row || rounds < 1 || rounds > MOST_ROUNDS || launches < 1 || launches > MOST_ROUNDS) {
        fprintf(stderr,
                "usage: variants --row ROW [--sizes ...] [--layouts ...] [--cut CLUSTER:GROUPS:SPLITS]... [--rounds 9] [--launches 4] [--cold]"
                " [--update] [CUBIN...]\n");
        return 64;
    }
    if (!gg_gpu_wait(GG_PATIENCE))
        stop("no GPU: ", gg_gpu_trouble());
    dev = gg_gpu_default();
    need(gg_gpu_enter(dev), "context");
    stream = gg_gpu_stream_create();
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&elapsed = driver ? dlsym(driver, "cuEventElapsedTime") : NULL;
    flush = cold ? gg_gpu_alloc(L2_BYTES) : NULL;
    need(elapsed && (flush || !cold), "start");
    for (int i = 0; i < launches; i++)
        need(gg_cu.cuEventCreate(&from[i], CU_EVENT_DEFAULT) == CUDA_SUCCESS && gg_cu.cuEventCreate(&to[i], CU_EVENT_DEFAULT) == CUDA_SUCCESS,
             "cuEventCreate");
    contestants = calloc(MOST, sizeof *contestants);
    const int cubin_count = argc - optind;
    CUfunction *functions = calloc((size_t)cubin_count + 1, sizeof(CUfunction));
    need(contestants && functions, "memory");
    for (int i = 0; i < cubin_count; i++)
        functions[i] = load(argv[optind + i]);
    char *rest;
    for (char *size = strtok_r(sizes, ",", &rest); size; size = strtok_r(NULL, ",", &rest))
        for (const char *layout = layouts; layout; layout = strchr(layout, ',') ? strchr(layout, ',') + 1 : NULL)
            measure(size, layout, argv + optind, functions, cubin_count);
    return 0;
}
