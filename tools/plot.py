#!/usr/bin/env python3
"""plot.py OUT.svg|png FILE.csv... — draws what the benchmark programs measured, from the files of `bench --csv` and `host --csv`.

Square products: TFLOP/s over n, one panel a routine and place of the operands, with the roofline or the floor where they were measured, and a mark
where the GPU begins to serve host operands. Products m x m x k with k growing: the error over k, with the bound that every element must keep. Every
picture names units, GPU, driver, commit and date, from the files themselves."""
import csv
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("gpugemm: pictures need Python's matplotlib (apt install python3-matplotlib)")
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

STYLE = {  # colours that the colour-blind can tell apart; markers, too
    "gpugemm_strict": ("#7fb88a", "o"), "gpugemm": ("#1a7f37", "o"), "cublas": ("#0969da", "s"), "cublasxt": ("#0969da", "^"), "nvblas": ("#8250df", "v"),
    "openblas_8": ("#d4a72c", "d"), "openblas": ("#bc4c00", "D"), "roofline": ("#57606a", ""), "floor": ("#57606a", ""),
}
NAMES = {
    "gpugemm": "libgpugemm", "gpugemm_fp32": "libgpugemm", "gpugemm_strict": "libgpugemm, strict", "cublas": "cuBLAS", "cublasxt": "cublasXt",
    "nvblas": "NVBLAS", "floor": "floor: link and kernels",
}


def label(library):
    name, _, threads = library.partition("_")
    return f"OpenBLAS, {threads} threads" if name == "openblas" and threads.isdigit() else NAMES.get(library, library)


def style(library):
    for name, look in STYLE.items():
        if library == name or library.startswith((name + "_", name + "-")):
            return look
    return "#9a6700", "x"


def read(paths):
    """Rows of all files that can be drawn: column-major NN, beta = 0, pageable where in host memory."""
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                row["host"] = "memory" in row
                if row["layout"] == "NN" and row.get("tflops") and (not row["host"] or (row["memory"], row["beta"]) == ("pageable", "0")):
                    yield row


def different(rows, column):
    return len({row[column] for row in rows})


def machine(row):
    """The file's "GPU; driver; SM clock; memory clock; power limit", in words."""
    parts = [part.strip() for part in row["machine"].split(";")]
    if len(parts) != 5:
        return row["machine"]
    return "{}, driver {}, up to {}, memory at {}, {} W".format(*parts[:4], parts[4].split(".")[0])


def curve(axis, library, points):
    colour, marker = style(library)
    line = dict(linestyle="--", linewidth=1.2) if library in ("roofline", "floor") else dict(linewidth=2.4 if library in ("gpugemm", "gpugemm_fp32") else 1.5)
    x = sorted(points)
    axis.plot(x, [points[n] for n in x], color=colour, marker=marker, markersize=5, label=label(library),
              zorder=3 if library == "gpugemm" else 2, **line)


def dress(axis, values, **labels):
    ticks = []
    for x in sorted(values):
        if not ticks or x > 1.2 * ticks[-1]:
            ticks.append(x)
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(x) for x in ticks], rotation=45, fontsize=8)
    axis.minorticks_off()
    axis.set(**labels)
    axis.grid(True, color="#d0d7de", linewidth=0.6)
    axis.legend(fontsize=8, frameon=False)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def draw_rates(axis, routine, host, rows):
    libraries, served = {}, []
    for row in rows:
        libraries.setdefault(row["library"], {})[int(row["n"])] = float(row["tflops"])
        if host and row["library"] == "gpugemm" and row["what"] != "cpu":
            served.append(int(row["n"]))
    for library, points in sorted(libraries.items(), key=lambda item: (item[0] != "gpugemm", item[0])):
        curve(axis, library, points)
    sizes = {n for points in libraries.values() for n in points}
    if host:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        if served and min(served) > min(sizes):
            axis.axvline(min(served), color="#1a7f37", linewidth=0.8, linestyle=":")
            axis.annotate(" GPU serves from here", (min(served), 0.01), xycoords=("data", "axes fraction"), fontsize=8, color="#1a7f37")
    else:
        axis.set_ylim(bottom=0)
    dress(axis, sizes, title=f"{routine}, operands in {'pageable host' if host else 'GPU'} memory", xlabel="n (square, column-major NN)", ylabel="TFLOP/s")


def draw_errors(axis, routine, rows):
    libraries = {}
    for row in rows:
        if row["library"] not in ("roofline", "floor"):
            libraries.setdefault(row["library"], {})[int(row["k"])] = float(row["error_u"])
    for library, points in sorted(libraries.items()):
        curve(axis, library, points)
    lengths = sorted({k for points in libraries.values() for k in points})
    axis.plot(lengths, [k + 2 for k in lengths], color="#57606a", linestyle="--", linewidth=1.2, label="bound: k + 2")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    dress(axis, lengths, title=f"{routine}, largest error of m = n = {rows[0]['m']}", xlabel="k", ylabel="error / (u |A||B|)")


def main(out, *paths):
    rates, errors, machines = {}, {}, {}
    for row in read(paths):
        if row["m"] != row["n"]:
            continue
        errors.setdefault((row["routine"], row["m"]), []).append(row)
        if row["m"] == row["k"]:
            rates.setdefault((row["host"], row["routine"]), []).append(row)
        machines.setdefault(machine(row), set()).add((row["date"][:10], row["commit"] if " " in row["commit"] else "commit " + row["commit"]))
    errors = {what: rows for what, rows in errors.items() if different(rows, "k") > 2}
    if errors:  # the one square among them makes no curve of rates
        rates = {what: rows for what, rows in rates.items() if different(rows, "n") > 1}
    panels = [(draw_rates, routine, host, rows) for (host, routine), rows in sorted(rates.items(), key=lambda item: (item[0][0], item[0][1] != "sgemm"))]
    panels += [(draw_errors, routine, rows) for (routine, _), rows in sorted(errors.items(), key=lambda item: item[0][0] != "sgemm")]
    if not panels:
        sys.exit("gpugemm: nothing square was measured: there is nothing to draw")
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(6.2 * columns, 4.2 * lines + 0.5), squeeze=False, layout="constrained")
    for axis, (draw, *arguments) in zip(axes.flat, panels):
        draw(axis, *arguments)
    for axis in list(axes.flat)[len(panels):]:
        axis.remove()
    words = [f"{name}\n" + ", ".join(f"{commit} ({date})" for date, commit in sorted(runs)[:5]) for name, runs in sorted(machines.items())[:2]]
    figure.suptitle("\n".join(words), fontsize=9, color="#57606a")
    figure.savefig(out, dpi=130)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
