/* chunk.c — owns the chunks of a staged call (job.h): how a load, or the C of a step, is cut into chunks, and where they lie. Pure. Called by
 * conduct.c, and by staged.c, which counts chunks and lets the CPU compute those that the GPU failed to deliver. */
#include "job.h"

#include "operand.h"

enum { FIRST_LOADS = 3 }; /* the link waits for these, so they are cut smaller: see cut() */

/* What is to be cut: part of one operand, by indices in the whole problem. */
struct rectangle {
    enum gg_operand operand;
    struct gg_range rows, cols;
    bool later; /* not among the first loads */
};

static struct rectangle of_load(const struct gg_job *job, int i)
{
    const struct gg_load *load = &job->plan->loads[i];
    return (struct rectangle){load->operand, load->rows, load->cols, i >= FIRST_LOADS};
}

static struct rectangle of_step(const struct gg_job *job, int i)
{
    const struct gg_step *step = &job->plan->steps[i];
    return (struct rectangle){GG_C, step->rows, step->cols, false};
}

/* C in page-locked memory only if beta = 0: then a failed chunk can be computed again, because its old contents are not needed. */
bool gg_is_reachable(const struct gg_job *job, enum gg_operand x)
{
    enum gg_place place = job->where[x].place;
    return place >= GG_PEER || (place == GG_PINNED && (x != GG_C || job->p->beta == 0));
}

static bool is_direct(const struct gg_job *job, const struct rectangle *r)
{
    const enum gg_operand x = r->operand;
    const int64_t width = gg_extent(gg_second_contiguous(job->p, x) ? r->cols : r->rows) * (int64_t)gg_size(job->p->type);
    return gg_is_reachable(job, x) && (job->where[x].place >= GG_PEER || !gg_is_packed(gg_leading(job->p, x), width, job->threads, x != GG_C));
}

/* How a rectangle is cut into chunks of at most `limit` bytes: into whole lines if a line fits, else into pieces of lines. */
struct grid {
    int64_t width, lines;             /* elements in a line; number of lines */
    int64_t chunk_width, chunk_lines;
    int64_t across, count;
};

static struct grid grid_of(int64_t width, int64_t lines, int64_t size, int64_t limit)
{
    struct grid q = {.width = width, .lines = lines};
    q.chunk_width = gg_min(width, limit / size);
    q.chunk_lines = q.chunk_width < width ? 1 : gg_min(lines, gg_max(1, limit / (width * size)));
    q.across = gg_ceil_div(width, q.chunk_width);
    q.count = q.across * gg_ceil_div(lines, q.chunk_lines);
    return q;
}

/* Chunks as large as a slot keep the link busiest. But the first chunk of a load cannot leave before it is packed, and the last chunk of C is
 * unpacked when everything else is done. So a small rectangle is cut in two, except for later loads: the link has enough to do before those. */
static struct grid cut(const struct gg_job *job, const struct rectangle *r)
{
    const int64_t size = (int64_t)gg_size(job->p->type), least = 256 << 10, rows = gg_extent(r->rows), cols = gg_extent(r->cols);
    const bool second = gg_second_contiguous(job->p, r->operand);
    const int64_t width = second ? cols : rows, lines = second ? rows : cols;
    const double bytes = (double)rows * (double)cols * (double)size;
    int64_t chunk = job->slot_bytes;
    if (!r->later && bytes < 1e12) { /* in two: whole lines, if there are several, and none left over for a third */
        const int64_t half = (lines > 1 ? gg_ceil_div(lines, 2) * width : width / 2) * size;
        chunk = gg_min(chunk, gg_max(half, least)) & -8;
    }
    return grid_of(width, lines, size, is_direct(job, r) ? INT64_MAX / 16 : chunk);
}

static struct gg_chunk chunk_at(const struct gg_job *job, const struct rectangle *r, int64_t i)
{
    struct grid q = cut(job, r);
    int64_t w0 = i % q.across * q.chunk_width, l0 = i / q.across * q.chunk_lines;
    int64_t w1 = gg_min(w0 + q.chunk_width, q.width), l1 = gg_min(l0 + q.chunk_lines, q.lines);
    bool second = gg_second_contiguous(job->p, r->operand);
    return (struct gg_chunk){.load = -1,
                             .step = -1,
                             .rows0 = r->rows.begin + (second ? l0 : w0),
                             .rows1 = r->rows.begin + (second ? l1 : w1),
                             .cols0 = r->cols.begin + (second ? w0 : l0),
                             .cols1 = r->cols.begin + (second ? w1 : l1),
                             .direct = is_direct(job, r)};
}

int64_t gg_load_chunks(const struct gg_job *job, int load)
{
    const struct rectangle r = of_load(job, load);
    return cut(job, &r).count;
}

int64_t gg_store_chunks(const struct gg_job *job, int step)
{
    const struct rectangle r = of_step(job, step);
    return job->plan->steps[step].last ? cut(job, &r).count : 0;
}

struct gg_chunk gg_load_chunk(const struct gg_job *job, int load, int64_t i)
{
    const struct rectangle r = of_load(job, load);
    struct gg_chunk c = chunk_at(job, &r, i);
    c.load = load;
    return c;
}

struct gg_chunk gg_store_chunk(const struct gg_job *job, int step, int64_t i)
{
    const struct rectangle r = of_step(job, step);
    struct gg_chunk c = chunk_at(job, &r, i);
    c.step = step;
    c.index = job->store_base[step] + i;
    return c;
}

struct gg_sides gg_sides_of(const struct gg_job *job, const struct gg_chunk *c)
{
    const struct gg_load *load = c->load >= 0 ? &job->plan->loads[c->load] : NULL;
    const struct gg_step *step = c->step >= 0 ? &job->plan->steps[c->step] : NULL;
    enum gg_operand x = load ? load->operand : GG_C;
    int64_t size = (int64_t)gg_size(job->p->type), ld = job->plan->ld[x];
    int64_t row = c->rows0 - (load ? load->rows : step->rows).begin, col = c->cols0 - (load ? load->cols : step->cols).begin;
    int64_t rows = c->rows1 - c->rows0, cols = c->cols1 - c->cols0;
    bool second = gg_second_contiguous(job->p, x);
    char *base = job->buffer[x][load ? load->buffer : step->c_buffer];
    return (struct gg_sides){.host = gg_element(job->p, x, c->rows0, c->cols0),
                             .device = base + ((load ? load->offset : step->c_offset) + (second ? col + row * ld : row + col * ld)) * size,
                             .host_pitch = gg_leading(job->p, x),
                             .device_pitch = ld * size,
                             .width = (second ? cols : rows) * size,
                             .lines = second ? rows : cols};
}
