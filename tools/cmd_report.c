/* cmd_report.c — the page of `gpugemm run --report`: a stacked bar for each run, the tables behind it, and the machine. Plain HTML with inline SVG,
 * readable in light and dark mode, without external references. */
#include "cmd_report.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "gpugemm.h"

/* ---- reading --------------------------------------------------------------------------------------------------------------------------- */

void report_read(struct report_run *run, const char *path)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    bool any = false;
    while (in && getline(&text, &size, in) > 0) { /* stats.c writes one row per line */
        struct report_row r = {0};
        const char *at = strstr(text, "{\"routine\":");
        if (!at || sscanf(at,
                          "{\"routine\": \"%7[^\"]\", \"path\": \"%7[^\"]\", \"kernel\": \"%63[^\"]\", \"reason\": \"%63[^\"]\", \"calls\": %lf, "
                          "\"seconds\": %lf, \"regret\": %lf, \"flops\": %lf, \"bytes_to_gpu\": %lf, \"bytes_from_gpu\": %lf",
                          r.routine, r.path, r.kernel, r.reason, &r.calls, &r.seconds, &r.regret, &r.flops, &r.bytes_up, &r.bytes_down) != 10) {
            r.kernel[0] = 0; /* for a row of the CPU, which has no kernel: scanf cannot read an empty string */
            if (!at || sscanf(at,
                              "{\"routine\": \"%7[^\"]\", \"path\": \"%7[^\"]\", \"kernel\": \"\", \"reason\": \"%63[^\"]\", \"calls\": %lf, "
                              "\"seconds\": %lf, \"regret\": %lf, \"flops\": %lf, \"bytes_to_gpu\": %lf, \"bytes_from_gpu\": %lf",
                              r.routine, r.path, r.reason, &r.calls, &r.seconds, &r.regret, &r.flops, &r.bytes_up, &r.bytes_down) != 9)
                continue;
        }
        const char *tier = strstr(at, "\"not_certified_for\": \"");
        char name[64];
        if (tier && sscanf(tier, "\"not_certified_for\": \"%63[^\"]", name) == 1)
            snprintf(r.reason + strlen(r.reason), sizeof r.reason - strlen(r.reason), ", not certified for %s", name);
        int i = 0;
        while (i < run->row_count && (strcmp(run->rows[i].routine, r.routine) || strcmp(run->rows[i].path, r.path) ||
                                      strcmp(run->rows[i].kernel, r.kernel) || strcmp(run->rows[i].reason, r.reason)))
            i++;
        if (i == REPORT_ROWS)
            i--; /* more kinds of calls than room: the last entry takes the rest */
        else if (i == run->row_count)
            run->rows[run->row_count++] = r, memset(&run->rows[i].calls, 0, sizeof r - offsetof(struct report_row, calls));
        struct report_row *row = &run->rows[i];
        row->calls += r.calls, row->seconds += r.seconds, row->regret += r.regret;
        row->flops += r.flops, row->bytes_up += r.bytes_up, row->bytes_down += r.bytes_down;
        any = true;
    }
    free(text);
    if (in)
        fclose(in);
    run->processes += any;
}

/* ---- writing --------------------------------------------------------------------------------------------------------------------------- */

static void escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*text, out);
        }
}

enum part { ON_GPU, ON_CPU, REST, PARTS };
static const char *const part_names[PARTS] = {"gemm on the GPU, copies included", "gemm on the CPU", "everything else"};
static const char *const part_classes[PARTS] = {"gpu", "cpu", "rest"};

/* Divides the wall-clock time. Calls of several threads overlap, so that gemm's seconds may exceed the wall-clock time; they are then scaled to
 * it. */
static void divide(const struct report_run *run, double seconds[PARTS])
{
    memset(seconds, 0, PARTS * sizeof *seconds);
    for (int i = 0; i < run->row_count; i++)
        seconds[strcmp(run->rows[i].path, "cpu") ? ON_GPU : ON_CPU] += run->rows[i].seconds;
    double gemm = seconds[ON_GPU] + seconds[ON_CPU];
    if (gemm > run->wall)
        seconds[ON_GPU] *= run->wall / gemm, seconds[ON_CPU] *= run->wall / gemm;
    seconds[REST] = run->wall - seconds[ON_GPU] - seconds[ON_CPU];
}

static void bars(FILE *out, const struct report_run *runs, int count)
{
    enum { LEFT = 10, WIDTH = 860, BAR = 34, STEP = 74 };
    double longest = 0;
    for (int r = 0; r < count; r++)
        longest = runs[r].wall > longest ? runs[r].wall : longest;
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Where the time went\">\n", LEFT + WIDTH + 10, count * STEP + 46);
    for (int r = 0; r < count; r++) {
        double seconds[PARTS], x = LEFT;
        divide(&runs[r], seconds);
        fprintf(out, "<text x=\"%d\" y=\"%d\">%s: %s</text>\n", LEFT, r * STEP + 20, runs[r].title, cmd_seconds(runs[r].wall));
        for (int p = 0; p < PARTS; p++) {
            double width = WIDTH * seconds[p] / longest;
            fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"><title>%s: %s</title></rect>\n", part_classes[p], x,
                    r * STEP + 28, width, BAR, part_names[p], cmd_seconds(seconds[p]));
            if (width > 60)
                fprintf(out, "<text class=\"in\" x=\"%.1f\" y=\"%d\">%s</text>\n", x + width / 2, r * STEP + 50, cmd_seconds(seconds[p]));
            x += width;
        }
    }
    for (int p = 0, x = LEFT; p < PARTS; x += 40 + 8 * (int)strlen(part_names[p]), p++)
        fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"14\" height=\"14\"/><text x=\"%d\" y=\"%d\">%s</text>\n", part_classes[p], x,
                count * STEP + 12, x + 20, count * STEP + 24, part_names[p]);
    fputs("</svg>\n", out);
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct report_row *)a)->seconds, y = ((const struct report_row *)b)->seconds;
    return (x < y) - (x > y);
}

static void table(FILE *out, const struct report_run *run)
{
    static struct report_row rows[REPORT_ROWS];
    memcpy(rows, run->rows, sizeof rows);
    qsort(rows, (size_t)run->row_count, sizeof *rows, by_seconds);
    fprintf(out, "<h2>%s</h2>\n<p>%s by the clock, %s of CPU time, %d process%s with matrix products.</p>\n", run->title, cmd_seconds(run->wall),
            cmd_seconds(run->cpu), run->processes, run->processes == 1 ? "" : "es");
    if (!run->row_count) {
        fputs("<p><b>No call of sgemm or dgemm came through the library.</b> A program that binds its BLAS statically, or keeps it inside another "
              "library "
              "(LAPACK inside OpenBLAS), cannot be reached by preloading.</p>\n",
              out);
        return;
    }
    fputs("<table><tr><th>routine<th>who<th>kernel<th>why<th class=\"n\">calls<th class=\"n\">seconds<th class=\"n\" title=\"how much longer than "
          "the other side was predicted to take\">regret<th class=\"n\">GFLOP/s<th class=\"n\">MB up<th class=\"n\">MB down</tr>\n",
          out);
    for (int i = 0; i < run->row_count; i++) {
        const struct report_row *r = &rows[i];
        fprintf(out, "<tr><td>%s<td>%s<td>%s<td>", r->routine,
                strcmp(r->path, "cpu") == 0 ? "CPU"
                : strcmp(r->path, "staged") ? "GPU, in place"
                                            : "GPU, staged",
                *r->kernel ? r->kernel : "CPU BLAS");
        escaped(out, r->reason);
        fprintf(out,
                "<td class=\"n\">%.0f<td class=\"n\">%.4f<td class=\"n\">%.4f<td class=\"n\">%.1f<td class=\"n\">%.1f<td class=\"n\">%.1f</tr>\n",
                r->calls, r->seconds, r->regret, r->seconds > 0 ? 1e-9 * r->flops / r->seconds : 0, 1e-6 * r->bytes_up, 1e-6 * r->bytes_down);
    }
    fputs("</table>\n", out);
}

/* Explains why nothing ran on the GPU, so that there is nothing to compare: there is no GPU, as `info` says, or the reason that applied for most of
 * the time. */
static void no_product_on_gpu(FILE *out, const struct report_run *run, const char *info)
{
    static const char none[] = "\nGPU        none: ";
    const char *trouble = info ? strstr(info, none) : NULL, *why = "no call of sgemm or dgemm came through the library";
    double most = -1;
    for (int i = 0; i < run->row_count; i++)
        if (run->rows[i].seconds > most)
            most = run->rows[i].seconds, why = trouble ? trouble + strlen(none) : run->rows[i].reason;
    char line[200];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(why, "\n"), why);
    fputs("<br><b>No product ran on the GPU</b>: ", out);
    escaped(out, line);
}

bool report_write(const char *path, char *const *program, const struct report_run *runs, int count)
{
    static const char head[] =
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>gpugemm "
        "run</title>\n<style>\n"
        ":root{color-scheme:light dark;--ink:#1b1f24;--dim:#57606a;--page:#fff;--line:#d0d7de;--gpu:#2a7d2e;--cpu:#2f6fb5;--rest:#747c86;--in:#fff}\n"
        "@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#9da7b1;--page:#0f1318;--line:#30363d;--gpu:#3f9a44;--cpu:#4584c9;--rest:#"
        "5b636c}}\n"
        "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:60rem;margin:2rem auto;padding:0 1rem}\n"
        "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}p,pre{color:var(--dim)}b,code{color:var(--ink)}pre{overflow-x:auto;font-size:12px;"
        "line-height:1.4}\n"
        "svg{width:100%;height:auto}svg text{font:14px system-ui,sans-serif;fill:var(--ink)}svg text.in{fill:var(--in);text-anchor:middle}\n"
        ".gpu{fill:var(--gpu)}.cpu{fill:var(--cpu)}.rest{fill:var(--rest)}\n"
        "table{border-collapse:collapse;width:100%;font-size:13px}th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid "
        "var(--line)}.n{text-align:right;"
        "font-variant-numeric:tabular-nums}\n</style>\n";
    FILE *out = fopen(path, "w");
    if (!out)
        return false;
    char date[64];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
    fputs(head, out);
    fputs("<h1>Where the time went</h1>\n<p><code>", out);
    for (int i = 0; program[i]; i++) {
        escaped(out, program[i]);
        fputc(program[i + 1] ? ' ' : '<', out);
    }
    fprintf(out, "/code><br>%s", date);
    char *info = ((__typeof__(gpugemm_info) *)cmd_symbol("gpugemm_info"))();
    bool any_on_gpu = false;
    for (int i = 0; i < runs[count - 1].row_count; i++)
        any_on_gpu |= strcmp(runs[count - 1].rows[i].path, "cpu") != 0;
    if (!any_on_gpu) {
        no_product_on_gpu(out, &runs[count - 1], info);
    } else if (count == 2 && runs[1].wall > 0) {
        double gemm[2] = {0};
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < runs[r].row_count; i++)
                gemm[r] += runs[r].rows[i].seconds;
        fprintf(out, "<br><b>%.2f times as fast as on the CPU</b>", runs[0].wall / runs[1].wall);
        if (gemm[1] > 0)
            fprintf(out, "; its matrix products %.2f times", gemm[0] / gemm[1]);
    }
    fputs("</p>\n", out);
    bars(out, runs, count);
    for (int r = 0; r < count; r++)
        table(out, &runs[r]);
    fputs("<h2>Machine and options</h2>\n<pre>", out);
    escaped(out, info ? info : "");
    fputs("</pre>\n</html>\n", out);
    free(info);
    return fclose(out) == 0;
}
