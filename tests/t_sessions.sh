#!/usr/bin/env bash
# t_sessions.sh LIB [FAKE_LIBCUDA] — sessions of R and Octave under LIB: products before, during and after what such sessions do to their process
# (forked workers, other programs, errors in the middle of a call). The session must end with the status it was told, and with nothing on stderr that
# is not there without LIB. With a fake driver once more with the GPU serving. Products are of small integers, exact. What is not installed is left
# out.
. "$(dirname "$0")/lib.sh"
fake=${2:+$(realpath "$2")}
cat > "$work/session.R" << 'END'
product <- function(seed) {
    set.seed(seed)
    n <- c(3, 70, 240, 400)[1 + seed %% 4]
    a <- matrix(sample(-4:4, n * n, TRUE), n); b <- matrix(sample(-4:4, n * n, TRUE), n)
    c <- a %*% b; d <- crossprod(a, b); rows <- unique(c(1, n, sample(n, min(n, 9))))
    for (i in rows) stopifnot(all(c[i, ] == colSums(a[i, ] * b)), all(d[i, ] == colSums(a[, i] * b)))
    1
}
right <- sum(sapply(1:6, product))
right <- right + sum(unlist(parallel::mclapply(1:12, product, mc.cores = 3)))      # forked
stopifnot(inherits(try(matrix(1, 2, 3) %*% matrix(1, 2, 3), silent = TRUE), "try-error"))
stopifnot(system("true") == 0)
cluster <- parallel::makeCluster(2)                                                # other processes
right <- right + sum(unlist(parallel::parLapply(cluster, 1:6, product)))
parallel::stopCluster(cluster)
s <- crossprod(matrix(c(2, 1, 0, 1, 3, 1, 0, 1, 4), 3))
stopifnot(max(abs(solve(s) %*% s - diag(3))) < 1e-10)
invisible(gc()); right <- right + product(103)
cat(right, "\n"); quit(save = "no", status = 7)
END
cat > "$work/session.m" << 'END'
1;
function right = product (seed)
  rand ("twister", seed);
  sizes = [3 70 240 400];
  n = sizes(1 + mod (seed, 4));
  for type = {"double", "single"}
    a = cast (floor (9 * rand (n)) - 4, type{1}); b = cast (floor (9 * rand (n)) - 4, type{1});
    c = a * b; d = a' * b; rows = unique ([1 n ceil(n * rand (1, min (n, 9)))]);
    for i = rows
      assert (c(i,:), sum (a(i,:)' .* b, 1)); assert (d(i,:), sum (a(:,i) .* b, 1));
    end
  end
  right = 1;
end
right = 0;
for seed = 1:6, right += product (seed); end
try, ones (2, 3) * ones (2, 3); error ("no error"); catch e, assert (! isempty (strfind (e.message, "nonconformant"))); end
assert (system ("true") == 0);
pid = fork ();
if (pid == 0), product (2); product (3); exit (5); end
[~, status] = waitpid (pid); assert (WEXITSTATUS (status), 5);
[status, output] = system ("echo from a shell"); assert (status, 0);
right += product (103);
printf ("%d\n", right); exit (7);
END

session() { # session WHAT EXPECTED COMMAND… : under LIB; the statistics must show that LIB was loaded
    local what=$1 expected=$2
    rm -f "$work/stats.json"
    (cd "$work" && "${@:3}" > out.without 2> err.without) # Octave itself prints a line about exit in a script
    (cd "$work" && timeout 300 env GPUGEMM_STATS="$work/stats.json" LD_PRELOAD="$PRELOAD" "${@:3}" > out 2> err)
    status=$?
    [ $status = 7 ] || fail "$what: status $status: $(tail -n 3 "$work/out") $(tail -n 3 "$work/err")"
    [ "$(tail -n 1 "$work/out" | tr -d ' ')" = "$expected" ] || fail "$what: $(tail -n 1 "$work/out") right products, not $expected"
    diff "$work/err.without" "$work/err" > "$work/more" || fail "$what: stderr: $(head -n 3 "$work/more")"
    echo "$what: LIB saw $(stat_of "$work/stats.json" calls) calls, $(stat_of "$work/stats.json" gpu) on the GPU"
    [ "$(stat_of "$work/stats.json" calls)" -gt 0 ] || fail "$what: LIB saw nothing"
    [ "${GPUGEMM_MODE:-}" != gpu ] || [ "$(stat_of "$work/stats.json" gpu)" -gt 0 ] || fail "$what: none on the GPU"
}
sessions() {
    if command -v Rscript > /dev/null; then session "R $1" 25 Rscript --vanilla session.R; else echo "no R"; fi
    if command -v octave-cli > /dev/null; then session "Octave $1" 7 octave-cli --no-init-file --quiet session.m; else echo "no Octave"; fi
}
command -v Rscript octave-cli > /dev/null || skip "neither R nor Octave"
sessions "${GPUGEMM_MODE:-auto}"
if [ -n "$fake" ]; then
    mkdir "$work/driver" && cp "$fake" "$work/driver/libcuda.so.1"
    export GPUGEMM_MODE=gpu LD_LIBRARY_PATH=$work/driver
    sessions "on the fake GPU"
fi
finish
