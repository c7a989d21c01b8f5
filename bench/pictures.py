#!/usr/bin/env python3
"""pictures.py FOLDER [OUT] — pictures of the CSVs that evidence.sh left in FOLDER, as PNG and SVG in OUT (FOLDER itself if not given):

  ladder   GFLOP/s over n of bench/ladder's steps, ours, cuBLAS and the roofline      ladder.csv
  device   TFLOP/s over n of ours and cuBLAS, sgemm and dgemm, all layouts            device.csv
  host     time over n of ours, OpenBLAS, NVBLAS, cublasXt and the floor              host-large.csv, host-small.csv, host-dispatch.csv

A picture whose CSVs are not there is left out. Wants matplotlib."""

import csv
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "gpugemm"  # the same CSV gives the same file
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator

OURS, CUBLAS, BOUND = "#d62728", "#222222", "#888888"
STEPS = ["naive", "coalesced", "shared_tiles", "blocked_1d", "blocked_2d", "vectorised", "double_buffered", "warp_tiled"]


def rows(folder, *names):
    found = []
    for name in names:
        path = folder / name
        if path.exists():
            with open(path, newline="") as file:
                found += list(csv.DictReader(file))
    return found


def source(chosen):
    """The GPU, the days and the commits that the rows are of."""
    gpu, driver = (part.strip() for part in chosen[0]["machine"].split(";")[:2])
    days, commits = (" and ".join(sorted(set(values))) for values in ([row["date"][:10] for row in chosen], [row["commit"] for row in chosen]))
    return f"{gpu}, driver {driver}, {days}, commit {commits}"


def square(row):
    return row["m"] == row["n"] == row["k"]


def series(chosen, value):
    """{library: ([n...], [value...])}, n ascending"""
    points = {}
    for row in chosen:
        points.setdefault(row["library"], {})[int(row["n"])] = value(row)
    return {library: tuple(zip(*sorted(at.items()))) for library, at in points.items()}


def sizes_axis(axis, ticks):
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(n) for n in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)


def save(figure, out, name):
    for suffix in ("png", "svg"):
        figure.savefig(out / f"{name}.{suffix}", dpi=130, bbox_inches="tight", metadata={"Date": None} if suffix == "svg" else None)
    plt.close(figure)
    print(out / f"{name}.png")


def ladder(folder, out):
    chosen = [row for row in rows(folder, "ladder.csv") if row["list"] == "ladder" and square(row)]
    if not chosen:
        return
    lines = series(chosen, lambda row: 1000 * float(row["tflops"]))
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.6))
    shades = plt.get_cmap("viridis_r")
    for axis in (left, right):
        for i, step in enumerate(STEPS):
            if step in lines:
                axis.plot(*lines[step], color=shades(0.08 + 0.85 * i / (len(STEPS) - 1)), marker=".", linewidth=1.4, label=f"{i + 1} {step.replace('_', ' ')}")
        axis.plot(*lines["cublas"], color=CUBLAS, marker="s", markersize=3.5, linewidth=1.8, label="cuBLAS")
        axis.plot(*lines["gpugemm"], color=OURS, marker="o", markersize=4, linewidth=2.2, label="libgpugemm")
        axis.plot(*lines["roofline"], color=BOUND, linestyle="--", linewidth=1.4, label="roofline: peak FP32 and memory bandwidth")
        sizes_axis(axis, [n for n in lines["gpugemm"][0] if n & (n - 1) == 0])
        axis.set_xlabel("n (m = n = k)")
        axis.set_ylabel("GFLOP/s")
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}".replace(",", " ")))
    left.set_yscale("log")
    left.set_title("logarithmic", fontsize=10)
    right.set_ylim(bottom=0)
    right.set_title("linear", fontsize=10)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=4, bbox_to_anchor=(0.5, -0.14), frameon=False, fontsize=9)
    figure.suptitle("sgemm NN on operands in GPU memory, strict FP32: eight steps up\n" + source(chosen), fontsize=11)
    figure.tight_layout()
    save(figure, out, "ladder")


def device(folder, out):
    chosen = [row for row in rows(folder, "device.csv") if row["list"] == "square"]
    if not chosen:
        return
    figure, axes = plt.subplots(2, 2, figsize=(13, 8), height_ratios=(3, 2), sharex="col")
    marks = {"NN": "o", "NT": "s", "TN": "^", "TT": "v"}
    for column, routine in enumerate(("sgemm", "dgemm")):
        top, bottom = axes[0][column], axes[1][column]
        for layout, mark in marks.items():
            lines = series([r for r in chosen if r["routine"] == routine and r["layout"] == layout], lambda row: float(row["tflops"]))
            if "gpugemm" not in lines or "cublas" not in lines:
                continue
            top.plot(*lines["cublas"], color=CUBLAS, marker=mark, markersize=4, linewidth=1, alpha=0.75, label=f"cuBLAS {layout}")
            top.plot(*lines["gpugemm"], color=OURS, marker=mark, markersize=4, linewidth=1.2, label=f"libgpugemm {layout}")
            ratio = [ours / theirs for ours, theirs in zip(lines["gpugemm"][1], lines["cublas"][1])]
            bottom.plot(lines["gpugemm"][0], ratio, color=OURS, marker=mark, markersize=4, linewidth=1.2, label=layout)
            if layout == "NN" and "roofline" in lines:
                top.plot(*lines["roofline"], color=BOUND, linestyle="--", linewidth=1.4, label="roofline")
        top.set_title(routine)
        top.set_ylim(bottom=0)
        top.legend(fontsize=8, frameon=False, ncol=2, loc="lower right")
        bottom.axhline(1, color=CUBLAS, linewidth=1)
        bottom.legend(fontsize=8, frameon=False, ncol=4)
        bottom.set_xlabel("n (m = n = k)")
        for axis in (top, bottom):
            sizes_axis(axis, [256, 512, 1024, 2048, 4096, 8192, 16384])
    axes[0][0].set_ylabel("TFLOP/s")
    axes[1][0].set_ylabel("rate over cuBLAS's")
    figure.suptitle("Operands in GPU memory, L2 flushed, beta = 0\n" + source(chosen), fontsize=11)
    figure.tight_layout()
    save(figure, out, "device")


def host(folder, out):
    chosen = [
        row
        for row in rows(folder, "host-dispatch.csv", "host-small.csv", "host-large.csv")  # of one size the last counts
        if square(row) and row["layout"] == "NN" and row["beta"] == "0" and row["memory"] == "pageable"
    ]
    if not chosen:
        return
    figure, axes = plt.subplots(1, 2, figsize=(13, 5.8), sharey=True)
    style = {
        "cublasxt": ("cublasXt", "#9467bd", "v", "-"),
        "nvblas": ("NVBLAS", "#2ca02c", "^", "-"),
        "openblas": ("OpenBLAS, best number of threads", "#1f77b4", "s", "-"),
        "gpugemm": ("libgpugemm", OURS, "o", "-"),
        "floor": ("floor: copies and kernel measured in this run", BOUND, None, "--"),
    }
    for axis, routine in zip(axes, ("sgemm", "dgemm")):
        of_routine = [dict(row) for row in chosen if row["routine"] == routine]
        best = {}
        for row in of_routine:
            if row["library"].startswith("openblas"):
                n = int(row["n"])
                best[n] = min(best.get(n, float("inf")), float(row["median_s"]))
        lines = series(of_routine, lambda row: 1000 * float(row["median_s"]))
        if best:
            lines["openblas"] = tuple(zip(*sorted((n, 1000 * s) for n, s in best.items())))
        for library, (label, color, mark, dash) in style.items():
            if library in lines:
                axis.plot(*lines[library], color=color, marker=mark, markersize=4, linestyle=dash, linewidth=2 if library == "gpugemm" else 1.4, label=label)
        axis.set_yscale("log")
        sizes_axis(axis, [8, 32, 128, 512, 2048, 8192])
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axis.set_xlabel("n (m = n = k)")
        axis.set_title(routine, fontsize=10)
    axes[0].set_ylabel("time of a call, ms")
    axes[0].legend(fontsize=9, frameon=False, loc="upper left")
    figure.suptitle("Operands in pageable host memory, NN, beta = 0\n" + source(chosen), fontsize=11)
    figure.tight_layout()
    save(figure, out, "host")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for picture in (ladder, device, host):
        picture(folder, out)


if __name__ == "__main__":
    main()
