/* fit.c — compares the cost model (cost.c) with bench's measurements, and fits the `rate` and `start` of its rows to them.
 *
 *   fit [--check] [--rounds N] [--cc 90] [--sms 132] [--clock 1980] [--bandwidth 4.917e12] CSV...
 *
 * CSV: files of bench, operands in GPU memory, strict sgemm or dgemm. Two kinds of times count: those of a library's own choice, where the file names
 * the row, and those of a forced row (--lib PATH:ROW; then all rows of a problem are known, and so is what is lost by choosing among them by the
 * model). The file does not say how a row cuts k; it is taken to be what select.c would do now. The GPU is an H200 unless the options say otherwise.
 *
 * Prints for each row how far off its predictions are. --check: exit status 1 if the mean of all, or too many of them, are too far off. --rounds:
 * changes rate and start, one by one, as long as that reduces the mean error or the loss, and prints them in the form of kernels.def. To fit another
 * GPU: run `bench/evidence.sh OUT rows` there, then this with the GPU's data. Rows whose speed is set by the power limit (n >= 4096) need problems of
 * that size in the data; otherwise they are fitted to a rate that they hold for a millisecond only. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../src/cost.c"
#include "../src/select.c"

/* What they need from other files: machine code, of which there is none here, and chains, which serve no strict product. */
#undef GG_KERNEL
#define GG_KERNEL(name, file, ...)                                                                                                                   \
    const unsigned char gg_image_##file[1], gg_image_##file##_update[1], gg_image_##file##_whole[1], gg_image_##file##_update_whole[1],              \
        gg_image_##file##_cut[1], gg_image_##file##_update_cut[1];
#include "../cuda/kernels.def"
#undef GG_KERNEL
bool gg_chain_legal(const struct gg_kernel *row, const struct gg_gemm *p)
{
    (void)row, (void)p;
    return false;
}
double gg_chain_seconds(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *on)
{
    (void)row, (void)p, (void)on;
    return INFINITY;
}

enum { MOST = 200000, ROWS = sizeof gg_kernels / sizeof *gg_kernels };

struct measured {
    struct gg_gemm p;
    struct gg_kernel *row;
    double seconds, predicted;
    int problem; /* measurements of one problem are adjacent */
};

static struct gg_arch arch = {.cc = 90, .sms = 132, .clock_mhz = 1980, .smem_per_block = 232448, .l2_bytes = 50 << 20, .bandwidth = 4.917e12};
static struct gg_kernel rows[ROWS]; /* a copy of gg_kernels that the fit changes */
static struct measured *all;
static int count;

/* ---- what was measured ------------------------------------------------------------------------------------------------------------------- */

enum column { ROUTINE, LAYOUT, SIZE, M, N, K, OFFSET, LIBRARY, KERNEL, MEDIAN, COLUMNS };
static const char *const titles[] = {"routine", "layout", "size", "m", "n", "k", "offset", "library", "kernel", "median_s"};

static int split(char *line, char **fields, int most)
{
    int n = 0;
    line[strcspn(line, "\r\n")] = 0;
    for (char *at = line; at && n < most; n++) {
        fields[n] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = 0;
    }
    return n;
}

static void read_csv(const char *path)
{
    enum { FIELDS = 64 };
    static int problems;
    char line[4096], previous[256] = "", *fields[FIELDS];
    int where[COLUMNS];
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file))
        exit((fprintf(stderr, "fit: cannot read %s\n", path), 2));
    const int titled = split(line, fields, FIELDS);
    for (int c = 0; c < COLUMNS; c++) {
        where[c] = 0;
        while (where[c] < titled && strcmp(fields[where[c]], titles[c]) != 0)
            where[c]++;
        if (where[c] == titled)
            exit((fprintf(stderr, "fit: %s has no column %s\n", path, titles[c]), 2));
    }
    while (fgets(line, sizeof line, file) && count < MOST) {
        if (split(line, fields, FIELDS) < titled)
            continue;
#define FIELD(c) fields[where[c]]
        struct measured x = {.seconds = atof(FIELD(MEDIAN))};
        const char *name = strcmp(FIELD(LIBRARY), "gpugemm") == 0 ? FIELD(KERNEL) : FIELD(LIBRARY), *plus = strchr(FIELD(SIZE), '+');
        for (x.row = rows; x.row < rows + ROWS && strcmp(x.row->name, name) != 0;)
            x.row++;
        const int64_t m = atoll(FIELD(M)), n = atoll(FIELD(N)), k = atoll(FIELD(K)), pad = plus ? atoll(plus + 1) : 0;
        const bool dbl = FIELD(ROUTINE)[0] == 'd', ta = FIELD(LAYOUT)[0] == 'T', tb = FIELD(LAYOUT)[1] == 'T';
        const uintptr_t first = 4096 + (uintptr_t)atoll(FIELD(OFFSET)) * gg_size(dbl ? GG_D : GG_S);
        x.p = (struct gg_gemm){.type = dbl ? GG_D : GG_S,
                               .m = m,
                               .n = n,
                               .k = k,
                               .alpha = 1,
                               .a_kmajor = ta,
                               .b_kmajor = !tb,
                               .lda = (ta ? k : m) + pad,
                               .ldb = (tb ? n : k) + pad,
                               .ldc = m + pad,
                               .a = (void *)first,
                               .b = (void *)first,
                               .c = (void *)first};
        if (x.row == rows + ROWS || x.seconds <= 0 || x.row->type != x.p.type || !legal(x.row, &x.p, &arch))
            continue;
        char key[256];
        snprintf(key, sizeof key, "%s %s %s %s", FIELD(ROUTINE), FIELD(LAYOUT), FIELD(SIZE), FIELD(OFFSET));
        problems += strcmp(key, previous) != 0;
        strcpy(previous, key);
        x.problem = problems;
        all[count++] = x;
#undef FIELD
    }
    fclose(file);
}

/* ---- how far off, and what it costs ------------------------------------------------------------------------------------------------------ */

/* The mean error, and the time lost by choosing, of the measured rows, the one predicted to be the fastest. soft: rows predicted within some percent
 * of it count too, each with a weight, so that the loss changes smoothly. */
struct loss {
    double error, lost, far; /* far: the share of predictions more than a third off */
};

static double off(const struct measured *x) { return log(x->predicted / x->seconds); }

static struct loss judge(bool soft)
{
    static const double WITHIN = 0.04;
    struct loss loss = {0};
    double weights = 0;
    int problems = 0;
    for (int first = 0, end; first < count; first = end, problems++) {
        double best = INFINITY, fastest = INFINITY, sum = 0, lost = 0;
        for (end = first; end < count && all[end].problem == all[first].problem; end++) {
            all[end].predicted = choice_of(all[end].row, &all[end].p, &arch, ALL, NULL).seconds;
            best = fmin(best, all[end].seconds), fastest = fmin(fastest, all[end].predicted);
        }
        for (int i = first; i < end; i++) {
            const double weight = pow(best / all[i].seconds, 3), error = fabs(off(&all[i])); /* the prediction for a slow row matters less */
            const double chosen = soft ? exp(-log(all[i].predicted / fastest) / WITHIN) : all[i].predicted == fastest;
            loss.error += weight * fmin(error, 0.5), loss.far += weight * (error > log(4.0 / 3)), weights += weight;
            sum += chosen, lost += chosen * log(all[i].seconds / best);
        }
        loss.lost += lost / sum;
    }
    loss.error /= weights, loss.far /= weights, loss.lost /= problems;
    return loss;
}

static double to_lessen(void)
{
    const struct loss loss = judge(true);
    return loss.error / 4 + loss.lost;
}

static void print_rows(void)
{
    for (const struct gg_kernel *row = rows; row < rows + ROWS; row++) {
        double n = 0, sum = 0, squares = 0;
        for (int i = 0; i < count; i++)
            if (all[i].row == row)
                n++, sum += off(&all[i]), squares += off(&all[i]) * off(&all[i]);
        if (n > 0)
            printf("%-24s rate %4d  start %6d  %5.0f times: predicted %.2f of the time measured, +- %.2f\n", row->name, row->rate, row->start, n,
                   exp(sum / n), sqrt(fmax(squares / n - sum / n * sum / n, 0)));
    }
}

/* ---- the fit ----------------------------------------------------------------------------------------------------------------------------- */

/* Moves each number up and down by its step. The step grows when that helps and shrinks when it does not. */
static void fit(int rounds)
{
    static double steps[ROWS][2];
    bool used[ROWS] = {false};
    for (int i = 0; i < count; i++)
        used[all[i].row - rows] = true;
    for (int i = 0; i < ROWS; i++)
        steps[i][0] = steps[i][1] = 0.15;
    double least = to_lessen();
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 2 * ROWS; i++) {
            int *const number = i % 2 ? &rows[i / 2].start : &rows[i / 2].rate, old = *number;
            double *const step = &steps[i / 2][i % 2];
            bool better = false;
            for (int down = 0; used[i / 2] && !better && down < 2; down++) {
                *number = (int)lround(down ? old / (1 + *step) : old * (1 + *step));
                const double now = to_lessen();
                better = now < least - 1e-7;
                least = better ? now : least;
            }
            *number = better ? *number : old;
            *step = better ? fmin(1.3 * *step, 0.4) : *step > 0.007 ? 0.6 * *step : 0.03;
        }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"check", 0, 0, 'c'}, {"rounds", 1, 0, 'r'},    {"cc", 1, 0, 'g'}, {"sms", 1, 0, 's'},
                                            {"clock", 1, 0, 'm'}, {"bandwidth", 1, 0, 'b'}, {0, 0, 0, 0}};
    bool check = false;
    int rounds = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        check |= option == 'c';
        rounds = option == 'r' ? atoi(optarg) : rounds;
        arch.cc = option == 'g' ? atoi(optarg) : arch.cc;
        arch.sms = option == 's' ? atoi(optarg) : arch.sms;
        arch.clock_mhz = option == 'm' ? atoi(optarg) : arch.clock_mhz;
        arch.bandwidth = option == 'b' ? atof(optarg) : arch.bandwidth;
        if (option == '?')
            return 2;
    }
    memcpy(rows, gg_kernels, sizeof rows);
    all = malloc(MOST * sizeof *all);
    for (int i = optind; all && i < argc; i++)
        read_csv(argv[i]);
    if (count == 0)
        return fprintf(stderr, "fit: no times of our rows\n"), 2;
    if (rounds > 0)
        fit(rounds);
    const struct loss loss = judge(false);
    print_rows();
    printf("%d times: off by %.1f %% in the mean, by more than a third %.1f %%; lost by choice %.1f %%\n", count, 100 * loss.error, 100 * loss.far,
           100 * loss.lost);
    return check && (loss.error > 0.10 || loss.far > 0.05);
}
