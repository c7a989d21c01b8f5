#!/usr/bin/env python3
"""plot_accuracy.py CSV PICTURE — error over k from accuracy.c's table: root mean square, one panel a family, one line a contestant. Wants matplotlib."""
import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SHOWN = ["uniform", "positive", "normal", "phi=2", "phi=4", "constant-rows", "one-huge", "block-scaled"]
LINES = {"strict": ("gpugemm strict (FFMA)", "o-"), "fp32": ("gpugemm fp32", "s-"), "cublas": ("cuBLAS", "^--"), "cublas-tf32": ("cuBLAS TF32", "v:")}

matplotlib.rcParams["svg.fonttype"] = "none"
rows = list(csv.DictReader(open(sys.argv[1])))
rows = [r for r in rows if r["C"] == rows[0]["C"]]  # the first of several sizes of C
figure, panels = plt.subplots(2, 4, figsize=(15, 7), sharex=True)
for panel, family in zip(panels.flat, SHOWN):
    for who, (label, style) in LINES.items():
        points = sorted((int(r["k"]), float(r["rms"])) for r in rows if r["family"] == family and r["who"] == who)
        panel.plot(*zip(*points), style, label=label, markersize=4, linewidth=1.2)
    panel.set(title=family, xscale="log", yscale="log")
    panel.grid(True, which="major", alpha=0.3)
for panel in panels[1]:
    panel.set_xlabel("k")
for panel in panels[:, 0]:
    panel.set_ylabel("rms error, u |A||B|")
figure.suptitle(f"sgemm's error over k, C {rows[0]['C']}; {rows[0]['machine'].split(';')[0]}, {rows[0]['date'][:10]}", fontsize=11)
figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="lower center", ncol=4, frameon=False)
figure.tight_layout(rect=(0, 0.05, 1, 0.98))
figure.savefig(sys.argv[2])
