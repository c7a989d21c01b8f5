#!/usr/bin/env python3
"""summary.py FOLDER > docs/measurements.md — every run whose table FOLDER (bench/results) has, one line each: of bench/bench.c's lists of squares and of
odd shapes, and of the parts of bench/host.c and bench/load.c that have a bar."""

import csv
import pathlib
import sys
from collections import defaultdict
from math import exp, log

LISTS = {"square": 52, "odd": 68}  # cases of a routine
PRECISIONS = {"gpugemm": "strict", "gpugemm_strict": "strict", "gpugemm_fp32": "default"}
ROUTINES = "sgemm", "dgemm"


def lists_of(rows):
    """{(routine, precision): {list: [(n, ratio)]}} of the complete runs of bench.c's lists."""
    ours, found = defaultdict(list), defaultdict(lambda: defaultdict(list))
    for row in rows:  # ours come first, and cuBLAS's time of the same case after them
        if row["list"] not in LISTS or row.get("beta", "0") != "0" or row.get("data", "uniform") != "uniform":
            continue
        case = row["routine"], row["list"], row["layout"], row["size"], row.get("offset")
        if row["library"] in PRECISIONS:
            ours[case].append((PRECISIONS[row["library"]], float(row["median_s"])))
        elif row["library"] == "cublas":
            for precision, seconds in ours.pop(case, []):
                found[row["routine"], precision][row["list"]].append((int(row["m"]), float(row["median_s"]) / seconds))
    return {key: lists for key, lists in found.items() if all(len(lists[name]) >= cases for name, cases in LISTS.items())}


def mean(ratios):
    return exp(sum(map(log, ratios)) / len(ratios))


def of_lists(lists):
    square, odd = lists["square"], [ratio for _, ratio in lists["odd"]]
    of = [[r for _, r in square], [r for n, r in square if n <= 2048], [r for n, r in square if n == 1024], [r for n, r in square if n >= 4096]]
    return [f"{mean(of[0]):.3f} ({min(of[0]):.3f})", *(f"{mean(ratios):.3f}" for ratios in of[1:]), f"{mean(odd):.3f} ({min(odd):.3f})"]


def times_of(rows, part):
    """{(routine, m, n, k, layout, beta, memory): {library: seconds}}, of load.c {…: {library and what: seconds}}."""
    times = defaultdict(dict)
    for row in rows:
        if row["part"] == part:
            case = row["routine"], int(row["m"]), int(row["n"]), int(row["k"]), row["layout"], row["beta"], row["memory"]
            times[case][row["library"] + (" " + row["what"] if part == "threads" else "")] = float(row["median_s"])
    return times


def plain(times, routine, n):
    """The libraries' seconds for op(A) = A, op(B) = B, beta = 0 in pageable memory."""
    return times.get((routine, n, n, n, "NN", "0", "pageable"), {})


def both(figure):
    """figure(routine) of sgemm and of dgemm."""
    figures = [figure(routine) for routine in ROUTINES]
    return " / ".join(figures) if all(figures) else ""


def ratio(seconds, one, other, digits=2):
    return f"{seconds[one] / seconds[other]:.{digits}f}" if one in seconds and other in seconds else ""


def of_floor(rows):
    """Time over the floor, the most over all layouts, without and with C read."""
    times = {case: of for case, of in times_of(rows, "large").items() if {"gpugemm", "floor"} <= of.keys()}
    if len(times) < 28:
        return None

    def most(routine, memory, n):
        return f"{max(of['gpugemm'] / of['floor'] for case, of in times.items() if (case[0], case[1], case[6]) == (routine, n, memory)):.2f}"

    rate = 4 * 2 * 4096**2 / plain(times, "sgemm", 4096)["floor"]
    cases = [("pageable", n) for n in (2048, 4096, 8192, 16384)] + [("pinned", n) for n in (4096, 8192, 16384)]
    return [f"{1e-9 * rate:.1f}", *(both(lambda routine: most(routine, *case)) for case in cases)]


def of_calls(rows):
    """Short calls, threads, whole processes, little GPU memory."""
    small, threads, start, core = (times_of(rows, part) for part in ("small", "threads", "start", "core"))
    if not small and not threads:
        return None

    def microseconds(routine, n):
        return f"{1e6 * plain(small, routine, n)['gpugemm']:.0f}" if small else ""

    def gain(routine, n, count):
        return ratio(plain(threads, routine, n), "gpugemm 1 threads", f"gpugemm {count} threads")

    return [*(both(lambda routine: microseconds(routine, n)) for n in (256, 512, 1024)),
            both(lambda routine: ratio(plain(small, routine, 1024), "nvblas", "gpugemm", 1)),
            both(lambda routine: gain(routine, 512, 16)), both(lambda routine: gain(routine, 4096, 8)),
            ", ".join(ratio(plain(start, "dgemm", n), "gpugemm", "openblas") for n in (512, 1024, 2048)) if start else "",
            ratio(plain(core, "dgemm", 24576), "gpugemm", "gpugemm_2G")]


def of_fresh(rows):
    """Calls whose C nobody has used before, over those whose C is there."""
    times = times_of(rows, "fresh")

    def over(routine, memory, n):
        return f"{times[routine, n, n, n, 'NN', '0', memory]['gpugemm'] / plain(times, routine, n)['gpugemm']:.2f}"

    return [both(lambda routine: over(routine, memory, n)) for memory in ("fresh", "fresh huge") for n in (2048, 4096, 8192)] if times else None


def of_dispatch(rows):
    """How often the default is slower than 1.10 times the better of OpenBLAS and the forced GPU."""
    ours = [of["gpugemm"] / min(s for name, s in of.items() if name != "gpugemm") for of in times_of(rows, "dispatch").values() if len(of) > 1]
    return [str(len(ours)), str(sum(r > 1.10 for r in ours)), f"{max(ours):.2f}"] if len(ours) >= 80 else None


LISTS_HEAD = """## {}, {}

| | GPU | squares | up to 2048 | 1024 | from 4096 | odd shapes | commit |"""
HOST = [(of_floor, """## Operands in host memory: time over the floor

The most over all layouts and both values of beta, sgemm / dgemm. The floor: of bytes in over the rate of large page-locked copies up (GB/s), bytes out
likewise, and our kernels, the longest ([how](performance.md#operands-in-host-memory)).

| | GPU | up | pageable 2048 | 4096 | 8192 | 16384 | page-locked 4096 | 8192 | 16384 | commit |"""),
        (of_calls, """## Operands in host memory: short calls, threads, processes, little GPU memory

sgemm / dgemm: microseconds of a call; how many times as long NVBLAS takes at 1024; calls a second by 16 threads at 512 and by 8 at 4096 over those by
one; time of a process that does one dgemm of 512, 1024, 2048 over that with OpenBLAS; rate of dgemm 24576 in 2 GB of GPU memory over that in all of it.

| | GPU | 256 | 512 | 1024 | NVBLAS | 16 threads, 512 | 8, 4096 | process | in 2 GB | commit |"""),
        (of_fresh, """## Operands in host memory: C that nobody has used before

sgemm / dgemm: time over that with the same C when it has been used; as malloc provides it, and with huge pages asked for, as by NumPy.

| | GPU | new, 2048 | 4096 | 8192 | huge, 2048 | 4096 | 8192 | commit |"""),
        (of_dispatch, """## Operands in host memory: is the default ever the slower choice?

Cases; how many took more than 1.10 times the better of OpenBLAS with its best number of threads and the GPU forced; the worst.

| | GPU | cases | above 1.10 | worst | commit |""")]


def line(path, first, figures):
    gpu = first["machine"].split(";")[0].split()[1]
    return f"| {first['date'][:16].replace('T', ' ')} | {gpu} | {' | '.join(figures)} | [{first['commit']}](../bench/results/{path.name}) |"


tables = defaultdict(list)
for path in pathlib.Path(sys.argv[1]).glob("*.csv"):
    with open(path, newline="") as file:
        table = list(csv.DictReader(file))
    if not table or not {"library", "median_s", "machine"} <= table[0].keys():
        continue
    if "list" in table[0]:
        for (name, precision), lists in sorted(lists_of(table).items()):
            tables[LISTS_HEAD.format(name, precision)].append(line(path, table[0], of_lists(lists)))
    elif "part" in table[0]:
        for of, head in HOST:
            if figures := of(table):
                tables[head].append(line(path, table[0], figures))
print("""# Every run

Operands in GPU memory: how many times as long as ours cuBLAS took, geometric mean and, in brackets, the least ratio. The lists: squares, 13 sizes from
256 to 16384, and 17 odd and skinny shapes and alignments, NN NT TN TT each ([how they are measured](performance.md#operands-in-gpu-memory)). Made by
`bench/summary.py` from the tables it links to.""")
order = [LISTS_HEAD.format(routine, precision) for routine in ROUTINES for precision in ("strict", "default")] + [head for _, head in HOST]
for head in order:
    print(f"\n{head}\n{'|---' * (head.splitlines()[-1].count('|') - 1)}|")
    print("\n".join(sorted(tables[head], reverse=True)))
