/* gathered.h — products whose tiles are added up by all their blocks if one of these rows is forced: what t_gather runs, one row a process
 * (CMakeLists.txt), and t_select checks to be so. */
#ifndef GATHERED_H
#define GATHERED_H

enum { GATHERED = 3 };

/* C := A Bᵀ, column-major and tight. The second has edges in all rows; FP32 packs its operands, FP64 reads them where they lie. */
static const struct {
    int m, n, k;
} gathered[GATHERED] = {{128, 128, 4096}, {98, 70, 9000}, {132, 100, 8000}};

#define GATHERING_ROWS                                                                                                                               \
    "dgemm_tma_32x64", "dgemm_tma_64x32", "dgemm_tma_64x64", "dgemm_tma_64x64_pair", "sgemm_tma_64x64_alone", "sgemm_tma_64x48", "sgemm_tma_64x96",  \
        "sgemm_tma_64x128"

#endif
