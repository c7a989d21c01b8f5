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

/* Has somebody asked for huge pages here? */
static inline bool huge_asked(const void *address)
{
    char line[512];
    bool here = false, asked = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    for (unsigned long from, to; maps && fgets(line, sizeof line, maps);) {
        if (sscanf(line, "%lx-%lx %*c", &from, &to) == 2)
            here = (uintptr_t)address >= from && (uintptr_t)address < to;
        else if (here && !strncmp(line, "VmFlags:", 8))
            asked = strstr(line, " hg") != NULL;
    }
    if (maps)
        fclose(maps);
    return asked;
}

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
