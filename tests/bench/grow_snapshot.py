#!/usr/bin/env python3
"""Grows a recorded allocator snapshot: its trace again and again, later in time, each event an object of its own with its own list of frames
for each allocation, as PyTorch makes them, until it has so many events. Segments are made in the first round; only blocks that are also freed
come again, and those that stay in the last round, so that the trace still leads to the state at the dump.

The file is written round by round, so gigabytes need little memory: two rounds are pickled, and the opcodes of the second one are written
over and over, each time with the memo numbers and the times moved on.

usage: grow_snapshot.py RECORDED.pickle[.gz] EVENTS OUT.pickle"""
import gzip, pickle, pickletools, struct, sys

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

def again(passing, shift):
    """One more round."""
    out, live = [], {}
    for event in passing:
        copy = dict(event)
        copy["time_us"] += shift
        if copy["action"] == "alloc":            # one list of frames an allocation, shared with its free_completed
            live[copy["addr"]] = copy["frames"] = list(event["frames"])
        elif copy["action"] == "free_completed":
            copy["frames"] = live.pop(copy["addr"], event["frames"])
        elif copy["action"] == "free_requested" and not event["frames"]:
            copy["frames"] = []
        out.append(copy)
    return out

def operations(data):
    """Opcodes of a pickle of protocol 4 without its frames: (name, argument, bytes)."""
    ops = list(pickletools.genops(data))
    for (op, argument, at), (_, _, end) in zip(ops, ops[1:] + [(None, None, len(data))]):
        if op.name != "FRAME":
            yield op.name, argument, data[at:end]

def get(number):
    return b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)

class Writer:
    """Writes pieces of one pickle as another: knows where each object that the first one memoizes stands in the memo of the second."""
    def __init__(self, out):
        self.out, self.memo, self.new = out, 0, []

    def raw(self, data, memoized=0):
        self.out.write(data)
        self.memo += memoized

    def skip(self):
        """The piece memoizes an object that is not written."""
        self.new.append(None)

    def ops(self, ops):
        out = bytearray()
        for name, argument, data in ops:
            if name in ("BINGET", "LONG_BINGET"):
                data = get(self.new[argument])
            elif name == "MEMOIZE":
                self.new.append(self.memo)
                self.memo += 1
            out += data
        self.out.write(out)

    def rounds(self, ops, times, count, shift):
        """The same ops `count` times: objects that they memoize are new ones each time, times (of `times`) move on by `shift`."""
        start, own, out, gets, stamps = len(self.new), 0, bytearray(), [], []
        for name, argument, data in ops:
            if name in ("BINGET", "LONG_BINGET"):
                if argument >= start:
                    gets.append((len(out) + 1, argument - start))
                    data = b"j0000"
                else:
                    data = get(self.new[argument])
            elif name == "MEMOIZE":
                own += 1
            elif name == "LONG1" and argument in times:
                stamps.append((len(out) + 2, argument))
            out += data
        self.new += [self.memo + i for i in range(own)]
        for turn in range(count):
            for at, index in gets:
                struct.pack_into("<I", out, at, self.memo + index)
            for at, time in stamps:
                out[at:at + 7] = (time + turn * shift).to_bytes(7, "little")
            self.raw(out, own)

def lists(ops):
    """The ops of a pickled list of lists -> the ops of each inner list, without the two that make the list itself."""
    depth, inner = 0, []
    for op in ops[4:-2]:                         # PROTO, EMPTY_LIST, MEMOIZE, MARK ... APPENDS, STOP
        if depth == 0 and op[0] == "EMPTY_LIST":
            inner.append([])
        inner[-1].append(op)
        depth += {"MARK": 1, "APPENDS": -1, "SETITEMS": -1, "TUPLE": -1}.get(op[0], 0)
    return [piece[2:] for piece in inner]

def grown(trace, events):
    """The pieces of a trace: segments, the first round, a second one, what stays. And of the second one its times, how often, and the step in time."""
    segments, passing, staying = parts(trace)
    turns = max(2, -(-(events - len(segments) - len(staying)) // len(passing))) if passing else 2
    first, last = (trace[0]["time_us"], trace[-1]["time_us"]) if trace else (0, 0)
    shift = last - first + 1000
    second = again(passing, shift)
    pieces = [[dict(event, time_us=first) for event in segments], again(passing, 0), second, [dict(event, time_us=last + turns * shift) for event in staying]]
    return pieces, ({event["time_us"] for event in second}, turns - 1, shift)

def write(out, snapshot, events):
    traces = [grown(trace, events) for trace in snapshot["device_traces"]]
    pieces = []                                  # in the order of the file
    for key, value in snapshot.items():
        pieces.append([key, None if key == "device_traces" else value])
        if key == "device_traces":
            pieces += [piece for four, _ in traces for piece in four]
    ops = iter(lists(list(operations(pickle.dumps(pieces, 4)))))
    writer = Writer(out)
    writer.raw(b"\x80\x04}\x94(", 1)
    writer.skip()                                # the outer list of the pieces
    for key in snapshot:
        writer.skip()                            # the list of the piece
        pair = next(ops)                         # MARK key value APPENDS
        if key != "device_traces":
            writer.ops(pair[1:-1])
            continue
        writer.ops(pair[1:-2])
        writer.raw(b"]\x94(", 1)
        for _, repeated in traces:
            writer.raw(b"]\x94", 1)
            for i in range(4):
                writer.skip()
                writer.rounds(next(ops), *repeated) if i == 2 else writer.ops(next(ops))
        writer.raw(b"e")
    writer.raw(b"u.")

def main(source, events, out):
    with (gzip.open if source.endswith(".gz") else open)(source, "rb") as f:
        snapshot = pickle.load(f)
    with open(out, "wb") as f:
        write(f, snapshot, events)

main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
