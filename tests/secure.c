/* secure.c — makes one gemm call and prints whether the system treats this process as a secure one (AT_SECURE). For t_security.sh, which gives it the
 * setuid bit. */
#include <sys/auxv.h>

#include "exact.h"

int main(int argc, char **argv)
{
    open_by_arguments(argc, argv);
    int64_t wrong = exact_square(spelling_named("dgemm_"), 200, 1);
    printf("secure=%lu gpu=%llu wrong=%lld\n", getauxval(AT_SECURE), (unsigned long long)gpu_calls(), (long long)wrong);
    return wrong != 0;
}
