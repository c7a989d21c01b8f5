#!/usr/bin/env python3
"""plot.py OUT.svg|png FILE.csv... — draws what the benchmark programs measured: TFLOP/s over n, one panel a routine and place of the operands.

The files are those of `bench --csv` and `host --csv`; square products alone are drawn. Device panels have the roofline where it was measured. Every
picture names units, GPU, driver, commit and date, from the files themselves."""
import csv
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("gpugemm: pictures need Python's matplotlib (apt install python3-matplotlib)")
matplotlib.use("Agg")
import matplotlib.pyplot as plt

STYLE = {  # colours that the colour-blind can tell apart; markers, too
    "gpugemm": ("#1a7f37", "o"), "cublas": ("#0969da", "s"), "cublasxt": ("#0969da", "^"), "nvblas": ("#8250df", "v"),
    "openblas": ("#bc4c00", "D"), "roofline": ("#57606a", ""), "floor": ("#57606a", ""),
}


def style(library):
    for name, look in STYLE.items():
        if library == name or library.startswith(name + "_") or library.startswith(name + "-"):
            return look
    return "#9a6700", "x"


def panels(paths):
    """{(routine, place): {library: {n: TFLOP/s}}} and the words of the conditions."""
    found, words = {}, []
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                if not row["m"] == row["n"] == row["k"] or not row.get("tflops") or row["layout"] != "NN":
                    continue
                if "memory" in row and (row["memory"] != "pageable" or row["beta"] != "0"):
                    continue
                place = "operands in host memory, pageable" if "memory" in row else "operands in GPU memory"
                found.setdefault((row["routine"], place), {}).setdefault(row["library"], {})[int(row["n"])] = float(row["tflops"])
                words.append((row["machine"].replace(";", ","), row["commit"], row["date"][:10]))
    return found, sorted(set(words))


def main(out, *paths):
    found, words = panels(paths)
    if not found:
        sys.exit("gpugemm: nothing square was measured: there is nothing to draw")
    keys = sorted(found, key=lambda key: (key[1], key[0]))
    columns = min(2, len(keys))
    rows = -(-len(keys) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(6.2 * columns, 4.2 * rows + 0.5), squeeze=False, layout="constrained")
    for axis, key in zip(axes.flat, keys):
        for library, points in sorted(found[key].items(), key=lambda item: (item[0] != "gpugemm", item[0])):
            colour, marker = style(library)
            line = dict(linestyle="--", linewidth=1.2) if library in ("roofline", "floor") else dict(linewidth=2.4 if library == "gpugemm" else 1.5)
            n = sorted(points)
            axis.plot(n, [points[x] for x in n], color=colour, marker=marker, markersize=5, label=library, zorder=3 if library == "gpugemm" else 2, **line)
        ticks = sorted({x for points in found[key].values() for x in points})
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [str(x) for x in ticks], rotation=45, fontsize=8)
        axis.minorticks_off()
        if "host" in key[1]:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        axis.set(title=f"{key[0]}, {key[1]}", xlabel="n (square, column-major NN)", ylabel="TFLOP/s")
        axis.grid(True, color="#d0d7de", linewidth=0.6)
        axis.legend(fontsize=8, frameon=False)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    for axis in list(axes.flat)[len(keys):]:
        axis.remove()
    figure.suptitle("\n".join(f"{machine}; commit {commit}; {date}" for machine, commit, date in words[:2]), fontsize=9, color="#57606a")
    figure.savefig(out, dpi=130)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
