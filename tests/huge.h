/* huge.h — what the kernel knows of the memory at an address. */
#ifndef HUGE_H
#define HUGE_H

#include "test.h"

enum { HUGE_PAGE = 2 << 20 };

/* When the kernel makes huge pages: the word in brackets of its setting, "always", "madvise" or "never"; "" if it has none. */
static inline const char *huge_pages(void)
{
    static char word[16];
    FILE *setting = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (setting) {
        if (fscanf(setting, "%*[^[][%15[a-z]", word) != 1)
            (void)!fscanf(setting, "[%15[a-z]", word);
        fclose(setting);
    }
    return word;
}

/* Kilobytes of this process's mappings, only of that at `address` if it is not NULL, that have both flags of /proc/self/smaps: "hg": huge pages were
 * asked for; "dc": a forked child does not get it. */
static inline long mapped_with(const void *address, const char *flag, const char *other)
{
    char line[512];
    long all = 0;
    unsigned long begin = 0, end = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    for (unsigned long from, to; maps && fgets(line, sizeof line, maps);) {
        if (sscanf(line, "%lx-%lx %*c", &from, &to) == 2)
            begin = from, end = to;
        else if (!strncmp(line, "VmFlags:", 8) && strstr(line, flag) && strstr(line, other) &&
                 (!address || ((uintptr_t)address >= begin && (uintptr_t)address < end)))
            all += (long)((end - begin) >> 10);
    }
    if (maps)
        fclose(maps);
    return all;
}

/* Has somebody asked for huge pages here? */
static inline bool huge_asked(const void *address) { return mapped_with(address, " hg", " hg") > 0; }

/* New memory, none of which is there yet, so that `bytes` from `begin` + offset on can be used; begin is a multiple of a huge page. */
struct new_memory {
    char *all, *begin;
    size_t bytes;
};

static inline struct new_memory new_memory(size_t bytes)
{
    struct new_memory memory = {.bytes = bytes + 2 * (size_t)HUGE_PAGE};
    memory.all = mmap(NULL, memory.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory.all == MAP_FAILED)
        exit((perror("mmap"), SKIP));
    memory.begin = (char *)(((uintptr_t)memory.all + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    return memory;
}

static inline void unmap(const struct new_memory *memory) { munmap(memory->all, memory->bytes); }

#endif
