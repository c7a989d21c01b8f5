/* multistage.cuh — small blocks whose threads all copy and all multiply: for short k, where the time until the first product and to store C is as
 * long as the products, and for few tiles that TMA cannot read.
 *
 * One tile per block; a ring of stages filled by cp.async, one barrier per step. The number of instructions counts, most of all those between the
 * launch and the first copy: indices have 32 bits, and tiles go down the columns of C, which takes one division. For split-K gridDim.y blocks each
 * have a piece of a tile's k; the last of them to finish adds up what all have written, in the order of k; none waits for another.
 *
 * PRODUCT: an FP32 or FP64 tile's products and sums, of multistage.cu or multistage_d.cu. */
#ifndef GG_MULTISTAGE_CUH
#define GG_MULTISTAGE_CUH

#include "parts.cuh"
#include "pipeline.cuh"
#include "stream.cuh"

template <typename PRODUCT> struct multistage {
    using T = typename PRODUCT::element;
    static constexpr int TILE_M = PRODUCT::TILE_M, TILE_N = PRODUCT::TILE_N, TILE_K = PRODUCT::TILE_K, STAGES = PRODUCT::STAGES;
    static constexpr int THREADS = PRODUCT::THREADS;
    static constexpr bool VECTORS = TILE_M * TILE_N >= 64 * 64;
    using stream_a = gg_stream<T, TILE_M, TILE_K, THREADS, PRODUCT::PITCH_A, VECTORS>;
    using stream_b = gg_stream<T, TILE_N, TILE_K, THREADS, PRODUCT::PITCH_B, VECTORS>;
    static constexpr int BYTES = stream_a::BYTES + stream_b::BYTES, SHARED = STAGES * BYTES;

    /* `own` is what each thread has of a part of a tile: 16-byte vectors, with those of all threads side by side. */
    using vector = typename PRODUCT::vector;
    static constexpr int PART = TILE_M * TILE_N * sizeof(T) / 16, OWN = PART / THREADS;
    struct own {
        vector v[OWN];
    };

    /* Adds up the parts, with as many loads in flight as registers hold. */
    static __device__ void add(PRODUCT &product, const vector *parts, unsigned count)
    {
        add_parts<(OWN < 8 ? 8 / OWN : 1)>(
            0u, count,
            [&](unsigned part) {
                own x;
#pragma unroll
                for (int i = 0; i < OWN; i++)
                    x.v[i] = __ldcg(parts + part * PART + i * THREADS);
                return x;
            },
            [&](const own &x) { product.add(x.v); });
    }

    static __device__ void run(const gg_args &p)
    {
        if (gg_gated(p))
            return;
        extern __shared__ __align__(128) char shared_memory[];
        const int rows_c = int(p.m), columns_c = int(p.n);
        const unsigned tiles_m = unsigned(rows_c + TILE_M - 1) / TILE_M, column = blockIdx.x / tiles_m;
        gg_tile tile;
        tile.slot = -1;
        const int own_m = int(blockIdx.x - column * tiles_m) * TILE_M, own_n = int(column) * TILE_N;
        const int m0 = max(0, min(own_m, rows_c - TILE_M)), n0 = max(0, min(own_n, columns_c - TILE_N)); /* as gg_tile with move_back */
        int steps = unsigned(int(p.k) + TILE_K - 1) / TILE_K, k0 = 0, k = int(p.k);
        if (gridDim.y > 1) {
            const unsigned first = gg_share(steps, blockIdx.y, gridDim.y);
            steps = int(gg_share(steps, blockIdx.y + 1, gridDim.y) - first);
            k0 = int(first) * TILE_K, k = min(k - k0, steps * TILE_K);
        }
        int m, n; /* the thread's first sum, in the tile */
        PRODUCT::place(m, n);
        stream_a a(p.a, p.lda, p.a_kmajor, p.a_vec, m0, rows_c, k0, k);
        stream_b b(p.b, p.ldb, p.b_kmajor, p.b_vec, n0, columns_c, k0, k);
        unsigned shared = gg_shared(shared_memory), at_a = PRODUCT::from_a(m), at_b = stream_a::BYTES + PRODUCT::from_b(n);
        asm("" : "+r"(shared), "+r"(steps), "+r"(at_a), "+r"(at_b));
        unsigned now = shared, next = shared;
        PRODUCT product;
        product.clear();
        gg_fetch_c<T, TILE_M, TILE_N>(p, own_m, own_n, blockIdx.y * THREADS + threadIdx.x, gridDim.y * THREADS);

        /* The first iterations only copy. That is in the same loop so that the code for copying exists once: code comes from memory the first
         * time. */
#pragma unroll 1
        for (int step = 1 - STAGES; step < steps; step++) {
            if (step >= 0) {
                asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
                __syncthreads(); /* this stage has arrived, and the one before has been read */
                product.begin(now + at_a, now + at_b);
            }
            const int ahead = step + STAGES - 1;
            if (ahead < steps) {
                if (ahead == steps - 1)
                    a.count = a.last, b.count = b.last;
                a.copy_step(next);
                b.copy_step(next + stream_a::BYTES);
                next = next + BYTES == shared + SHARED ? shared : next + BYTES;
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
            if (step < 0)
                continue;
            product.end(now + at_a, now + at_b);
            now = now + BYTES == shared + SHARED ? shared : now + BYTES;
        }
        if (gridDim.y > 1) {
            vector *const parts = static_cast<vector *>(p.workspace) + int64_t(blockIdx.x * gridDim.y) * PART + threadIdx.x;
            product.write(p, parts + int64_t(blockIdx.y) * PART);
            if (!gg_last_part(p, blockIdx.x, gridDim.y))
                return;
            product.clear();
            add(product, parts, gridDim.y);
        }
        tile.own_m = own_m, tile.own_n = own_n, tile.m0 = m0, tile.n0 = n0;
        product.store(p, gg_out<T, TILE_M, TILE_N>(p, tile), tile, m, n, shared);
    }
};

#endif
