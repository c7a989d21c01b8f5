"""Matrix products by an unmodified NumPy: the big ones run on the GPU. Sizes may follow.

  $ gpugemm run python3 numpy_matmul.py 64 512

Nothing here knows of libgpugemm. Each product is checked: 64 of its elements, against dot products in higher precision."""
import sys
import time

import numpy as np

sizes = [int(a) for a in sys.argv[1:]] or [64, 256, 1024, 2048, 4096]
rng = np.random.default_rng()
wrong = 0
print(f"NumPy {np.__version__}: C = A @ B, n x n")
print(f"{'type':>8} {'n':>6} {'ms':>10} {'GFLOP/s':>10}  largest error / bound")
for dtype, higher in ((np.float32, np.float64), (np.float64, np.longdouble)):
    u = np.finfo(dtype).eps / 2
    for n in sizes:
        a, b = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            c = a @ b
            best = min(best, time.perf_counter() - start)
            if best > 1:  # once is enough
                break
        i, j = rng.integers(0, n, (2, 64))
        x, y = a[i].astype(higher), b[:, j].T.astype(higher)
        error = np.abs((x * y).sum(axis=1) - c[i, j]) / (n * u * (np.abs(x) * np.abs(y)).sum(axis=1))
        print(f"{dtype.__name__:>8} {n:>6} {best * 1e3:>10.3f} {2e-9 * n**3 / best:>10.1f}  {float(error.max()):.4f}")
        wrong += not error.max() <= 1  # written so that NaN is wrong
sys.exit(f"{wrong} products are wrong" if wrong else 0)
