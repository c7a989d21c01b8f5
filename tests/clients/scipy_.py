"""SciPy: the BLAS under its own names, functions built on products, and LAPACK, which stays inside SciPy's OpenBLAS."""
import numpy as np
import scipy.linalg
from cases import case, n

rng = np.random.default_rng(2)
a, b = rng.standard_normal((2, n, n))

case("blas_dgemm", lambda: scipy.linalg.blas.dgemm(1.0, a, b))
case("blas_sgemm", lambda: scipy.linalg.blas.sgemm(1.0, a.astype("f4"), b.astype("f4"), trans_b=1))
case("expm", lambda: scipy.linalg.expm(a / n))
case("sqrtm", lambda: scipy.linalg.sqrtm((a @ a.T)[: n // 2, : n // 2] + n * np.eye(n // 2)))
case("lu_solve", lambda: scipy.linalg.solve(a + n * np.eye(n), b))
case("cho_solve", lambda: scipy.linalg.cho_solve(scipy.linalg.cho_factor(a @ a.T + n * np.eye(n)), b))
