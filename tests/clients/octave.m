% Octave: products in both precisions, and solves, which call dgemm from LAPACK.
n = str2double(getenv("N")); if isnan(n), n = 400; end
rand("seed", 1); randn("seed", 1);
a = randn(n); b = randn(n);
function answer(name, f)
  tic; x = f(); seconds = toc;
  printf("time %s %.6f\n%s %.17g\n", name, seconds, name, norm(x, "fro"));
end
answer("product", @() a * b);
answer("product_single", @() single(a) * single(b));
answer("product_transposed", @() a' * b);
answer("solve", @() (a + n * eye(n)) \ b);
answer("inverse", @() inv(a + n * eye(n)));
answer("cholesky", @() chol(b' * b + n * eye(n)));
