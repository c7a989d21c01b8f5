"""NumPy: products as people write them, and a solve, which stays inside NumPy's own LAPACK."""
import numpy as np
from cases import case, n

rng = np.random.default_rng(1)
a, b = rng.standard_normal((2, n, n))
a32, b32 = a.astype("f4"), b.astype("f4")

case("matmul_float64", lambda: a @ b)
case("matmul_float32", lambda: a32 @ b32)
case("tensordot", lambda: np.tensordot(a.reshape(n, n // 4, 4), b.reshape(4, n // 4, n), axes=([1, 2], [1, 0])))
case("einsum", lambda: np.einsum("ij,jk->ik", a, b, optimize=True))
case("multi_dot", lambda: np.linalg.multi_dot([a, b, a]))
case("matrix_power", lambda: np.linalg.matrix_power(a / n, 3))
case("solve", lambda: np.linalg.solve(a + n * np.eye(n), b))
