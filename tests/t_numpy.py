"""t_numpy.py [MAX_N] — products by NumPy's own operators, operands of every kind, held to the componentwise error bound.

t_numpy.sh runs it with the library preloaded. The reference never comes near a BLAS: products in long double, for which NumPy has loops of
its own, of all entries of a small result and of sampled rows and columns of a large one; for these also C x against A (B x).
Warnings are errors: a BLAS must leave no floating-point flag behind. Prints the number of gemm calls it must have caused."""

import sys

import numpy as np

rng = np.random.default_rng(2026)
products = 0


def gamma(k, dtype):
    u = np.finfo(dtype).eps / 2
    return k * u / (1 - k * u)


def check(what, c, a, b):
    global products
    products += 1
    m, k, n, dtype = a.shape[0], a.shape[1], b.shape[1], a.dtype
    assert c.shape == (m, n) and c.dtype == dtype, what
    rows = np.arange(m) if m <= 128 else np.unique(np.r_[0, m - 1, rng.integers(0, m, 40)])
    cols = np.arange(n) if n <= 128 else np.unique(np.r_[0, n - 1, rng.integers(0, n, 40)])
    aa, bb = a[rows].astype(np.longdouble), b[:, cols].astype(np.longdouble)
    error = np.abs(c[np.ix_(rows, cols)] - aa @ bb)
    assert np.all(error <= gamma(k + 2, dtype) * (abs(aa) @ abs(bb))), what  # NaN fails
    if m > 128 or n > 128:
        x = rng.uniform(-1, 1, n)
        c, a, b = (np.ascontiguousarray(y, np.float64) for y in (c, a, b))
        slack = (gamma(k + 2, dtype) + gamma(2 * (n + k), np.float64)) * (abs(a) @ (abs(b) @ abs(x)))
        assert np.all(np.abs(c @ x - a @ (b @ x)) <= slack), what + ": residual"


def operands(n, dtype):
    """(name, A, B) of n x n and of neighbouring shapes, in every order of storage that reaches gemm."""
    def r(*shape):
        return rng.uniform(-1, 1, shape).astype(dtype)

    square = r(n, n)
    yield "C C", square, r(n, n)
    yield "F T", np.asfortranarray(square), r(n, n).T
    if n <= 1024:
        yield "C F", square, np.asfortranarray(r(n, n))
        yield "T C", r(n + 1, n).T, r(n + 1, n + 2)
        yield "sliced", r(n + 5, n + 9)[3:-2, 4:-5], r(n + 3, n + 2)[3:, 2:]
        yield "sliced T", r(n + 5, n + 9)[3:-2, 4:-5].T, r(n + 9, n + 3)[4:-5, :-3].T
        yield "every other row", r(2 * n, n)[::2], r(2 * n, n)[::2]
        yield "backwards", r(n, n)[::-1, ::-1], r(n, n)[:, ::-1]
        yield "long", r(n, 3 * n), r(3 * n, 2)


def main():
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    sizes = [1, 2, 3, 7, 8, 16, 17, 31, 33, 64, 65, 127, 129, 255, 257, 500, 512, 1000, 1024, 2048, 4096]
    for dtype in (np.float32, np.float64):
        for n in (n for n in sizes if n <= largest):
            for name, a, b in operands(n, dtype):
                check(f"{dtype.__name__} n = {n} {name}", a @ b, a, b)
            out = np.full((n, n), np.nan, dtype)
            _, a, b = next(operands(n, dtype))
            check(f"{dtype.__name__} n = {n} out", np.matmul(a, b, out=out), a, b)
        stack_a, stack_b = rng.uniform(-1, 1, (5, 40, 30)).astype(dtype), rng.uniform(-1, 1, (5, 30, 50)).astype(dtype)
        for c, a, b in zip(stack_a @ stack_b, stack_a, stack_b):
            check("stack", c, a, b)
        a, b = stack_a[0], stack_b[0]
        check("dot", np.dot(a, b), a, b)
        check("inner", np.inner(a, b.T), a, b)
        check("tensordot", np.tensordot(a, b, 1), a, b)
        check("einsum", np.einsum("ij,jk", a, b, optimize=True), a, b)
        check("A A^T", a @ a.T, a, a.T)
        bad = a.copy()
        bad[3, 4] = np.nan
        with np.errstate(invalid="ignore"):
            assert np.isnan(bad @ b).sum() == b.shape[1], "NaN in one row"
    print(products)


main()
