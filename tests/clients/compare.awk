# compare.awk WITHOUT WITH — compares what a client printed without the library and with it: lines "NAME RESULT", which must agree to a relative
# `tolerance` (1e-4 where the name says single precision), and lines "time NAME SECONDS", which are shown side by side.
$1 == "time" { if (FNR == NR) before[$2] = $3; else after[$2] = $3; next }
NF == 2 { if (FNR == NR) expected[$1] = $2; else got[$1] = $2 }
END {
    for (name in expected) {
        n++
        limit = name ~ /float|single|sgemm/ ? 1e-4 : tolerance
        difference = got[name] - expected[name]
        if (!(name in got) || !(difference <= limit * expected[name] && -difference <= limit * expected[name]) || expected[name] <= 0) {
            print "FAILED: " name " is " got[name] ", not " expected[name]
            bad++
        }
        if (after[name] > 0)
            printf "%-24s %10.4f s without, %10.4f s with: x%.2f\n", name, before[name], after[name], before[name] / after[name]
    }
    if (n == 0) { print "FAILED: it printed nothing"; bad++ }
    exit (bad > 0)
}
