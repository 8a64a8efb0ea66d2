#!/usr/bin/env python3
"""Speed and memory of `triage snapshot` beside Python's pickle.load of the same file, in one run.

usage: snapshot.py TRIAGE SNAPSHOT.pickle [--times N]     (grow_snapshot.py makes a large one)"""
import argparse, os, subprocess, sys, time

def measure(command):
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)

def main():
    options = argparse.ArgumentParser()
    options.add_argument("triage"), options.add_argument("snapshot"), options.add_argument("--times", type=int, default=3)
    options = options.parse_args()
    size = os.path.getsize(options.snapshot)
    with open(options.snapshot, "rb") as f:      # into the page cache
        while f.read(1 << 24):
            pass
    print(f"{options.snapshot}: {size / 1e6:.0f} MB; {os.cpu_count()} cores")
    best = {}
    for name, command in (("pickle.load", [sys.executable, "-c", f"import pickle; pickle.load(open({options.snapshot!r}, 'rb'))"]),
                          ("triage snapshot", [options.triage, "snapshot", options.snapshot, "--format", "json"])):
        runs = [measure(command) for _ in range(1 if name == "pickle.load" else options.times)]
        if any(run[3] for run in runs):
            sys.exit(f"{name} failed")
        best[name] = min(run[0] for run in runs), min(run[1] for run in runs)
        print(f"  {name:16s} {best[name][0]:7.2f} s wall, {best[name][1]:7.2f} s CPU, peak RSS {max(r[2] for r in runs) / 1e6:7.0f} MB = {100 * max(r[2] for r in runs) / size:4.0f} % of the file")
    print(f"  {best['pickle.load'][0] / best['triage snapshot'][0]:.1f} times faster by the clock, {best['pickle.load'][1] / best['triage snapshot'][1]:.1f} times by CPU time")

main()
