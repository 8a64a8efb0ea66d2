#!/usr/bin/env python3
"""Throughput of `triage scan` beside ripgrep and Python's re, in one run on the same files in page cache.

usage: scan.py TRIAGE [--mib 1024] [--repeat 5] [--folder DIR] [--python-mib 1] [--cores 0,1]

Makes two Megatron-like logs: `rare` (three failures in all) and `heavy` (one line in 50 holds a failure text). The literals that
ripgrep and re look for are those of our first pass (`triage rules literals`). Each figure is the best of the repeats, in MB/s of 1e6
bytes; ratios are to ripgrep on one thread. What the machine itself gives stands beside: `wc -l` counts newlines, and two scans of one core
each, at the same time, are what two cores can do at most that share a memory and, in many virtual machines, one real core.
Last, on `rare`: all rules beside 80 of them (spread over all families; the others switched off by a rule file), one core, in turns,
processor time.
"""
import argparse
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HEALTHY = (
    " [2026-11-30 10:{m:02d}:{s:02d}] iteration {i:8d}/  500000 | consumed samples: {c:12d} | elapsed time per iteration (ms): {t:.1f} | "
    "throughput per GPU (TFLOP/s/GPU): {f:.1f} | learning rate: 1.{l:06d}E-04 | global batch size:  1024 | lm loss: {x:.6E} | "
    "loss scale: 1.0 | grad norm: {g:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
PLAIN = [
    "INFO:megatron.core.timers:(min, max) time across ranks (ms): forward-backward ({x:.2f}, {t:.2f}) optimizer ({g:.2f}, {f:.2f})\n",
    "[rank{r}]: saved the data index of epoch {l} with {c} samples in {t:.2f} seconds to the cache folder of this run\n",
    "WARNING:megatron.core.rerun: setting of deterministic mode is off, results of iteration {i} may differ in the last bits\n",
]
FAILURE = (
    "[rank{r}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {l} MiB. GPU {r} has a total capacity of 79.10 GiB of which "
    "12.00 MiB is free. Including non-PyTorch memory, this process has 79.08 GiB memory in use. Of the allocated memory 76.20 GiB is "
    "allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated.\n"
)


def make(path, size, every):
    """Writes `size` bytes; a failure every `every` lines (0: three in all)."""
    rng = random.Random(17)
    lines = []
    for i in range(20000):
        form = HEALTHY if rng.random() < 0.7 else rng.choice(PLAIN)
        lines.append(form.format(m=i // 60 % 60, s=i % 60, i=i, c=i * 1024, t=rng.uniform(800, 900), f=rng.uniform(300, 500),
                                 l=rng.randrange(10**6), x=rng.uniform(1, 9), g=rng.uniform(0, 2), r=rng.randrange(8)))
        if every and i % every == 0:
            lines.append(FAILURE.format(r=rng.randrange(8), l=rng.randrange(2, 4096)))
    block = "".join(lines).encode()
    failure = FAILURE.format(r=3, l=512).encode()
    with open(path, "wb") as out:
        written = 0
        while written < size:
            out.write(block)
            written += len(block)
            if not every and written // (size // 3 + 1) != (written - len(block)) // (size // 3 + 1):
                out.write(failure)
                written += len(failure)
    return os.path.getsize(path)


def best(repeat, command):
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        times.append(time.perf_counter() - begin)
    return min(times)


def best_pair(repeat, first, second):
    """Two commands at the same time; seconds until both have ended."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in (first, second)]
        for process in both:
            process.wait()
        times.append(time.perf_counter() - begin)
    return min(times)


FEW = 80


def few_rules(triage, folder):
    """A rule file that leaves 80 shipped rules; what the program waits for besides stays."""
    listed = subprocess.run([triage, "rules", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    ids = [line.split()[0] for line in listed if re.match(r"[a-z0-9_]+\.", line)]
    kept = {ids[i * len(ids) // FEW] for i in range(FEW)}
    path = os.path.join(folder, "few.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(f"- {{id: {name}, disable: true}}\n" for name in ids if name not in kept)
    return path, len(ids)


def processor_time(command):
    """User and system seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compare_rules(triage, path, size, folder, repeat):
    few, count = few_rules(triage, folder)
    command = ["taskset", "-c", "0", triage, "scan", "--threads", "1"]
    empty = os.path.join(folder, "empty.log")
    open(empty, "wb").close()
    times = {"all": [], "few": [], "start": [], "start few": []}
    for _ in range(repeat):
        times["all"].append(processor_time(command + [path]))
        times["few"].append(processor_time(command + ["--rules", few, path]))
        times["start"].append(processor_time(command + [empty]))
        times["start few"].append(processor_time(command + ["--rules", few, empty]))
    least = {name: min(t) for name, t in times.items()}
    everything, some = least["all"] - least["start"], least["few"] - least["start few"]
    pairs = statistics.median(a / b for a, b in zip(times["all"], times["few"]))
    print(f"rare     {count} rules {size / everything / 1e6:.0f} MB/s, {FEW} rules {size / some / 1e6:.0f} MB/s of processor time without start: {100 * (everything / some - 1):+.1f} %; "
          f"with it, median of {repeat} pairs: {100 * (pairs - 1):+.1f} %", flush=True)


def python_re(path, literals, limit):
    """Seconds a byte of one alternation over all literals."""
    pattern = re.compile(b"|".join(re.escape(x) for x in literals))
    with open(path, "rb") as f:
        data = f.read(limit)
    begin = time.perf_counter()
    sum(1 for _ in pattern.finditer(data))
    return (time.perf_counter() - begin) / len(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("triage")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder")
    parser.add_argument("--python-mib", type=int, default=1)
    parser.add_argument("--cores", default="0,1", help="two cores to run on")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="triage-bench-")
    literals = subprocess.run([args.triage, "rules", "literals"], capture_output=True, check=True).stdout.splitlines()
    words = os.path.join(folder, "literals")
    with open(words, "wb") as out:
        out.write(b"\n".join(literals) + b"\n")
    print(f"{len(literals)} literals, {subprocess.run([args.triage, '--version'], capture_output=True, text=True).stdout.strip()}")
    print(f"{'log':8} {'what':28} {'MB/s':>8} {'times rg':>9}")
    for name, every in (("rare", 0), ("heavy", 50)):
        path = os.path.join(folder, name + ".log")
        size = make(path, args.mib << 20, every)
        subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
        rows = []
        if shutil.which("rg"):
            rows.append(("rg -j1 -c -F -f", best(args.repeat, ["rg", "-j1", "-c", "-F", "-f", words, path])))
        first, second = args.cores.split(",")
        scan = lambda cores, threads: ["taskset", "-c", cores, args.triage, "scan", "--threads", threads, path]
        rows.append(("wc -l, one core", best(args.repeat, ["taskset", "-c", first, "wc", "-l", path])))
        rows.append(("triage scan, one core", best(args.repeat, scan(first, "1"))))
        if (os.cpu_count() or 1) > 1:
            rows.append(("triage scan, two cores", best(args.repeat, scan(args.cores, "2"))))
            rows.append(("two scans, a core each", best_pair(args.repeat, scan(first, "1"), scan(second, "1")) / 2))
        rows.append((f"Python re, first {args.python_mib} MiB", python_re(path, literals, args.python_mib << 20) * size))
        base = rows[0][1] if rows[0][0].startswith("rg") else None
        for what, seconds in rows:
            ratio = f"{base / seconds:9.3g}" if base else f"{'no rg':>9}"
            print(f"{name:8} {what:28} {size / seconds / 1e6:8.4g} {ratio}", flush=True)
        if name == "rare":
            compare_rules(args.triage, path, size, folder, 2 * args.repeat + 1)
        os.unlink(path)
    if not args.folder:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
