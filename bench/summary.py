#!/usr/bin/env python3
"""summary.py FOLDER > docs/measurements.md — every complete run of bench/bench.c's lists of squares and of odd shapes that FOLDER (bench/results) has
a table of, one line each."""

import csv
import pathlib
import sys
from collections import defaultdict
from math import exp, log

LISTS = {"square": 52, "odd": 68}  # cases of a routine
PRECISIONS = {"gpugemm": "strict", "gpugemm_strict": "strict", "gpugemm_fp32": "default"}
HEAD = """# Every run of the two lists

How many times as long as ours cuBLAS took, operands in GPU memory: geometric mean and, in brackets, the least ratio. The lists: squares, 13 sizes from
256 to 16384, and 17 odd and skinny shapes and alignments, NN NT TN TT each ([how they are measured](performance.md#operands-in-gpu-memory)). Made by
`bench/summary.py` from the tables it links to."""


def runs(path):
    """{(routine, precision): {list: [(n, ratio)]}} of the complete runs in a table, and the first of its rows."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"list", "library", "median_s"} <= rows[0].keys():
        return {}, None
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
    return {key: lists for key, lists in found.items() if all(len(lists[name]) >= cases for name, cases in LISTS.items())}, rows[0]


def mean(ratios):
    return exp(sum(map(log, ratios)) / len(ratios))


def line(path, first, lists):
    square, odd = lists["square"], [ratio for _, ratio in lists["odd"]]
    gpu = first["machine"].split(";")[0].split()[1]
    of = [[r for _, r in square], [r for n, r in square if n <= 2048], [r for n, r in square if n == 1024], [r for n, r in square if n >= 4096]]
    figures = [f"{mean(of[0]):.3f} ({min(of[0]):.3f})", *(f"{mean(ratios):.3f}" for ratios in of[1:]), f"{mean(odd):.3f} ({min(odd):.3f})"]
    return f"| {first['date'][:16].replace('T', ' ')} | {gpu} | {' | '.join(figures)} | [{first['commit']}](../bench/results/{path.name}) |"


tables = defaultdict(list)
for path in pathlib.Path(sys.argv[1]).glob("*.csv"):
    complete, first = runs(path)
    for key, lists in complete.items():
        tables[key].append(line(path, first, lists))
print(HEAD)
for (routine, precision), lines in sorted(tables.items(), reverse=True):
    print(f"\n## {routine}, {precision}\n\n| | GPU | squares | up to 2048 | 1024 | from 4096 | odd shapes | commit |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(sorted(lines, reverse=True)))
