#!/usr/bin/env python3
"""Grows a recorded allocator snapshot: its trace again and again, later in time, each event an object of its own with its own list of frames
for each allocation, as PyTorch makes them, until it has so many events.

usage: grow_snapshot.py RECORDED.pickle[.gz] EVENTS OUT.pickle"""
import gzip, pickle, sys

def main(source, events, out):
    with (gzip.open if source.endswith(".gz") else open)(source, "rb") as f:
        snapshot = pickle.load(f)
    for device, trace in enumerate(snapshot["device_traces"]):
        if not trace:
            continue
        first, last = trace[0]["time_us"], trace[-1]["time_us"]
        grown, shift, live = [], 0, {}
        while len(grown) < events:
            for event in trace:
                copy = dict(event)
                copy["time_us"] += shift
                if copy["action"] == "alloc":            # one list of frames an allocation, shared with its free_completed
                    live[copy["addr"]] = copy["frames"] = list(event["frames"])
                elif copy["action"] == "free_completed":
                    copy["frames"] = live.pop(copy["addr"], event["frames"])
                elif copy["action"] == "free_requested" and not event["frames"]:
                    copy["frames"] = []
                grown.append(copy)
                if len(grown) == events:
                    break
            shift += last - first + 1000
        snapshot["device_traces"][device] = grown
    with open(out, "wb") as f:
        pickle.dump(snapshot, f)

main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
