#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plot the results of `headrace bench --json --baseline FILE` on a GPU, with gnuplot.

Usage: plot.py REPORT.json FOLDER [SSD]

Makes FOLDER/io_size.svg (rate against size of I/O) and FOLDER/io_warps.svg (rate against number of
warps that do I/O) for SSD; the default is the last ssd of the report. Each diagram has a background
of its own, which is dark when the reader's colour scheme is dark.
"""
import json
import re
import subprocess
import sys

WIDTH, HEIGHT = 720, 420
# Colours of curves, by number, on a light and on a dark background.
LIGHT = ("#0969da", "#1a7f37", "#bc4c00", "#8250df", "#6e7781")
DARK = ("#58a6ff", "#56d364", "#ffa657", "#d2a8ff", "#8b949e")


def rules(text, background, colours):
    each = "".join(f" .s{i}{{stroke:{c}}} .c{i}{{color:{c}}}" for i, c in enumerate(colours))
    return f"svg{{color:{text}}} .page{{fill:{background}}}{each}"


STYLE = f"""<style>
{rules("#24292f", "#ffffff", LIGHT)}
@media (prefers-color-scheme: dark) {{
{rules("#c9d1d9", "#0d1117", DARK)}
}}
</style>"""
HEAD = f"""set terminal svg size {WIDTH},{HEIGHT} font 'sans-serif,13' linewidth 1.5
set border 3
set tics nomirror out
set grid ytics linecolor rgb '#000004' linewidth 0.4 dashtype 3
set bmargin at screen 0.41
set key at screen 0.12, screen 0.27 left top samplen 2 reverse Left
set logscale x 2
set yrange [0:60]
set xtics offset 0,0.4
set xlabel offset 0,0.9
set ylabel 'GB/s into GPU memory'
"""


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def line(series, title, colour):
    points = "\n".join(f"{x} {y / 1e9}" for x, y in sorted(series.items()))
    style = f"with linespoints pointtype 7 pointsize 0.6 linewidth 1.6 linecolor rgb {colour}"
    return f"'-' {style} title '{title}'", points + "\ne\n"


def level(value, title, colour):
    style = f"with lines linewidth 1.2 dashtype 2 linecolor rgb {colour}"
    return f"{value / 1e9} {style} title '{title} ({value / 1e9:.1f})'", ""


def tidy(svg):
    """Remove elements without effect from the output of gnuplot, and replace colours by classes."""
    svg = re.sub(r"<defs>.*</defs>", """<defs><circle id='gpPt6' r='1' fill='currentColor'/></defs>
""" + STYLE, svg, flags=re.DOTALL)
    svg = re.sub(r"(stroke|color)=(['\"])rgb\( *0, *0, *(\d)\)\2",
                 lambda m: f"class='{m[1][0]}{m[3]}'", svg)
    svg = re.sub(r"class='(\w+)'([^>]*) class=\"gridline\"", r"class='\1'\2", svg)
    svg = re.sub(r'(<rect [^>]*)fill="none"/>', r'\1class="page"/>', svg, count=1)
    svg = re.sub(r" color=\"\w+\"|<title>Gnuplot</title>|<desc>.*</desc>", "", svg)
    svg = re.sub(r"(stroke|fill)=(['\"])black\2", r"\1='currentColor'", svg)
    svg = re.sub(r"<g [^>]*>\s*</g>\n?", "", svg)
    return re.sub(r"\n\s*", "\n", re.sub(r"[ \t]+\n", "\n", svg))


def draw(name, head, curves):
    script = HEAD + head + "plot " + ", \\\n".join(c[0] for c in curves) + "\n"
    script += "".join(c[1] for c in curves)
    made = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True)
    if made.returncode:
        sys.exit(made.stderr)
    with open(name, "w", encoding="utf-8") as out:
        out.write(tidy(made.stdout))


def reads(ssd, **wanted):
    return [m for m in ssd["measurements"] if m["access"] == "read" and m["data"] == "gpu" and
            all(m[key] == value for key, value in wanted.items())]


def best(measurements, key):
    found = {}
    for m in measurements:
        found[m[key]] = max(found.get(m[key], 0), m["bytes_per_s"])
    return found


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as report_file:
        report = json.load(report_file)
    ssds = [s for s in report["ssds"] if sys.argv[3:] in ([], [s["name"]])]
    if not ssds or "baseline" not in report or "limits" not in report:
        sys.exit(f"{sys.argv[1]}: expected a report of a GPU, with baselines"
                 f"{' and ssd ' + sys.argv[3] if sys.argv[3:] else ''}")
    ssd, limits = ssds[-1], report["limits"]
    ways = {w["way"]: best(w["measurements"], "io_bytes") for w in report["baseline"]["ways"]}
    loads = level(limits["load_bytes_per_s"], "limit: loads by the GPU", 3)
    engine = level(limits["copy_in_bytes_per_s"], "limit: copy engine", 4)
    curves = [line(best(reads(ssd), "io_bytes"), "headrace, at most 64 warps", 0)]
    for (way, series), colour in zip(ways.items(), (2, 1)):
        if series:
            curves.append(line(series, way + ", best of 1, 4, 16 threads", colour))
    ticks = ", ".join(f"'{size_name(1 << i)}' {1 << i}" for i in range(12, 24, 2))
    draw(sys.argv[2] + "/io_size.svg", f"set xrange [3500:10000000]\nset xtics ({ticks})\n"
         "set xlabel 'bytes of a read'\n", curves + [engine, loads])
    curves = [line(best(reads(ssd, io_bytes=4096, pattern="random"), "queues"),
                   "headrace, random reads of 4 KiB", 0)]
    for (way, series), colour in zip(ways.items(), (2, 1)):
        if 4096 in series:
            curves.append(level(series[4096], way + ", 4 KiB", colour))
    ticks = ", ".join(f"'{1 << i}' {1 << i}" for i in range(7))
    draw(sys.argv[2] + "/io_warps.svg", f"set xrange [0.9:72]\nset xtics ({ticks})\n"
         "set xlabel 'warps that do I/O, each with a queue pair'\n", curves + [loads])


main()
