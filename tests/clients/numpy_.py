"""NumPy: products as people write them, and a solve, which stays inside NumPy's own LAPACK."""
import os
import time

import numpy as np

n = int(os.environ.get("N", 400))
rng = np.random.default_rng(1)
a, b = rng.standard_normal((2, n, n))


def case(name, compute):
    compute()
    start = time.perf_counter()
    result = compute()
    print("time", name, time.perf_counter() - start)
    print(name, float(np.linalg.norm(result)))


case("matmul_float64", lambda: a @ b)
case("matmul_float32", lambda: a.astype("f4") @ b.astype("f4"))
case("tensordot", lambda: np.tensordot(a.reshape(n, n // 4, 4), b.reshape(4, n // 4, n), axes=([1, 2], [1, 0])))
case("einsum", lambda: np.einsum("ij,jk->ik", a, b, optimize=True))
case("multi_dot", lambda: np.linalg.multi_dot([a, b, a]))
case("matrix_power", lambda: np.linalg.matrix_power(a / n, 3))
case("solve", lambda: np.linalg.solve(a + n * np.eye(n), b))
