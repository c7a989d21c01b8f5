# R: %*%, which calls dgemm unless there are NaNs, and solve, whose LAPACK calls dgemm where R uses the system's LAPACK.
n <- as.integer(Sys.getenv("N", "400"))
set.seed(1)
a <- matrix(rnorm(n * n), n)
b <- matrix(rnorm(n * n), n)
answer <- function(name, f) {
    seconds <- system.time(x <- f())[["elapsed"]]
    cat(sprintf("time %s %.6f\n%s %.17g\n", name, seconds, name, norm(x, "F")))
}
answer("product", function() a %*% b)
answer("product_transposed", function() crossprod(a, b))
answer("solve", function() solve(a + n * diag(n), b))
answer("cholesky", function() chol(crossprod(b) + n * diag(n)))
