/* t_exact.c — every spelling once at some sizes, exactly; the program that the shell tests run in all sorts of environments.
 *
 *   t_exact [--lib PATH] [--expect-gpu] [--kill]        --kill: ends by SIGKILL, the worst way to exit */
#include "exact.h"

#include <locale.h>
#include <signal.h>

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    bool expect_gpu = open_by_arguments(argc, argv);
    static const int64_t sizes[] = {1, 8, 33, 150};
    int calls = 0;
    for (int i = 0; i < SPELLINGS; i++)
        for (int n = 0; n < 4 && spellings[i].address; n++, calls++) {
            int64_t wrong = exact_square(&spellings[i], sizes[n], (uint64_t)i);
            CHECK(!wrong, "%s, n = %lld: %lld wrong", spellings[i].name, (long long)sizes[n], (long long)wrong);
        }
    CHECK(calls > 0, "no spelling found");
    CHECK(!expect_gpu || gpu_calls() > 0, "no call was served by the GPU");
    printf("%d calls, %llu on the GPU: %d failures\n", calls, (unsigned long long)gpu_calls(), test_failures);
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[argc - 1], "--kill"))
        raise(SIGKILL);
    return test_failures != 0;
}
