#!/usr/bin/env python3
"""Grows a recorded allocator snapshot: its trace again and again, later in time, each event an object of its own with its own list of frames
for each allocation, as PyTorch makes them, until it has so many events. Segments are made in the first round; only blocks that are also freed
come again, and those that stay in the last round, so that the trace still leads to the state at the dump.

usage: grow_snapshot.py RECORDED.pickle[.gz] EVENTS OUT.pickle"""
import gzip, pickle, sys

def parts(trace):
    """Events of segments; of blocks that come and go; of blocks that stay."""
    segments, passing, staying, open_allocs = [], [], [], {}
    gone = set()
    for i, event in enumerate(trace):
        if event["action"] == "alloc":
            open_allocs[event["addr"]] = i
        elif event["action"] == "free_completed" and event["addr"] in open_allocs:
            gone.add(open_allocs.pop(event["addr"]))
    live = set()
    for i, event in enumerate(trace):
        if event["action"].startswith("segment"):
            segments.append(event)
        elif event["action"] == "alloc":
            (passing if i in gone else staying).append(event)
            if i in gone:
                live.add(event["addr"])
        elif event["addr" if "addr" in event else "device_free"] in live and event["action"].startswith("free"):
            passing.append(event)
            if event["action"] == "free_completed":
                live.discard(event["addr"])
    return segments, passing, staying

def main(source, events, out):
    with (gzip.open if source.endswith(".gz") else open)(source, "rb") as f:
        snapshot = pickle.load(f)
    for device, trace in enumerate(snapshot["device_traces"]):
        if not trace:
            continue
        segments, passing, staying = parts(trace)
        first, last = trace[0]["time_us"], trace[-1]["time_us"]
        grown, shift, live = [dict(event, time_us=first) for event in segments], 0, {}
        while len(grown) + len(staying) < events:
            for event in passing:
                copy = dict(event)
                copy["time_us"] += shift
                if copy["action"] == "alloc":            # one list of frames an allocation, shared with its free_completed
                    live[copy["addr"]] = copy["frames"] = list(event["frames"])
                elif copy["action"] == "free_completed":
                    copy["frames"] = live.pop(copy["addr"], event["frames"])
                elif copy["action"] == "free_requested" and not event["frames"]:
                    copy["frames"] = []
                grown.append(copy)
            shift += last - first + 1000
        grown += [dict(event, time_us=last + shift) for event in staying]
        snapshot["device_traces"][device] = grown
    with open(out, "wb") as f:
        pickle.dump(snapshot, f)

main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
