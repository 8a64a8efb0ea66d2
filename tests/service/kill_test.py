#!/usr/bin/env python3
"""Kills the service again and again while jobs fail, and looks whether anything was lost or told twice.

usage: kill_test.py TRIAGE SOURCE_FOLDER [--kills N] [--seed N]

Jobs write recorded failing logs in pieces, some rotate their file in between. The service is ended with SIGKILL at random moments and started
again: each sixth time while it starts, else after it has told that it is ready, so that most kills meet a running service. At the end it is
waited for as long as incidents close and messages go out. Then: the database is sound, each job has exactly one incident of the kind that a scan
of its log gives, every incident is closed, no message reached the chat sink twice (it cannot tell; the webhook knows a message again by its key), and what may have been lost on
the way to it is shown as uncertain.
"""
import argparse, collections, http.server, json, os, random, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, threading, time

LOGS = ["capacity_forward.log", "fragmentation.log", "other_process.log", "optimizer_first_step.log", "logits_spike.log", "device_assert.log"]


class Ready:
    """The socket to which the service tells that it is ready, as to systemd."""

    def __init__(self, folder):
        self.path = folder + "/notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def told(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if b"READY=1" in self.socket.recv(4096):
                    return True
            except TimeoutError:
                pass
        return False

    def forget(self):
        self.socket.settimeout(0)
        try:
            while True:
                self.socket.recv(4096)
        except BlockingIOError:
            pass


class Sink(http.server.BaseHTTPRequestHandler):
    chat, hook, faults = collections.Counter(), collections.Counter(), random.Random(3)
    lock = threading.Lock()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Sink.lock:
            fault = Sink.faults.random()
            if fault < 0.02:
                self.send_response(503)
                self.end_headers()
                return
            if self.path == "/chat":
                Sink.chat[body["text"]] += 1
            else:
                Sink.hook[body["key"]] += 1
        if fault < 0.1:
            time.sleep(0.1)
        try:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")
        except OSError:
            pass

    def log_message(self, *_):
        pass


def expected_kind(triage, log):
    answer = subprocess.run([triage, "scan", "--format", "json", log], capture_output=True, check=False).stdout
    incidents = json.loads(answer)["incidents"]
    assert len(incidents) == 1, (log, len(incidents))
    return incidents[0]["kind"]


def known(database, path):
    """The service has met the file: one that comes and is rotated away while the service is down is never read (docs/operating.md)."""
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=1) as store:
            return store.execute("SELECT count(*) FROM watched WHERE name = ?", (path,)).fetchone()[0] > 0
    except sqlite3.OperationalError:
        return False


def write_job(folder, job, text, chance):
    """The log of rank 0 in pieces; other ranks say nothing of a failure."""
    path = f"{folder}/logs/{job}"
    os.makedirs(path)
    for rank in (1, 2):
        with open(f"{path}/rank{rank}.log", "w") as out:
            out.write("starting\nwaiting for the first batch\n")
    lines = text.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        count = chance.randint(1, max(2, len(lines) // 3))
        with open(f"{path}/rank0.log", "ab") as out:
            piece = b"".join(lines[at:at + count])
            cut = chance.randint(0, len(piece))
            out.write(piece[:cut])
            out.flush()
            time.sleep(chance.random() * 0.05)
            out.write(piece[cut:])
        at += count
        time.sleep(chance.random() * 0.1)
        if at < len(lines) and chance.random() < 0.2 and known(f"{folder}/triaged.db", f"{path}/rank0.log"):
            os.rename(f"{path}/rank0.log", f"{path}/rank0.log.1")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("triage")
    parser.add_argument("source")
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    folder = tempfile.mkdtemp(prefix="triage-kill-")
    os.makedirs(folder + "/logs")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sink = f"http://127.0.0.1:{server.server_address[1]}"
    database = folder + "/triaged.db"
    with open(folder + "/triaged.yaml", "w") as out:
        out.write(f"""database: {database}
sources: {{files: ["{folder}/logs/{{job}}/rank{{rank}}.log"], flush: 300ms}}
http: off
incidents: {{close_after: 3s, settle: 300ms}}
alerts:
  group_wait: 0s
  group_by: [job]
  sinks:
    chat: {{type: slack_webhook, url: "{sink}/chat", every: 1ms}}
    hook: {{type: webhook, url: "{sink}/hook", every: 1ms}}
""")
    texts = {name: open(f"{options.source}/tests/corpus/recorded/{name}", "rb").read() for name in LOGS}
    kinds = {name: expected_kind(options.triage, f"{options.source}/tests/corpus/recorded/{name}") for name in LOGS}
    expected, done = {}, threading.Event()

    def writer(number):
        own = random.Random(options.seed * 1000 + number)
        count = 0
        while not done.is_set():
            name = own.choice(LOGS)
            job = f"job-{number}-{count}"
            write_job(folder, job, texts[name], own)
            expected[job] = kinds[name]
            count += 1
            time.sleep(own.random() * 0.5)

    ready = Ready(folder)

    def start():
        ready.forget()
        return subprocess.Popen([options.triage, "serve", "--config", folder + "/triaged.yaml"], stderr=open(folder + "/service.log", "ab"),
                                env=dict(os.environ, NOTIFY_SOCKET=ready.path))

    writers = [threading.Thread(target=writer, args=(n,)) for n in range(3)]
    for thread in writers:
        thread.start()
    process = start()
    running = 0                                    # kills of a service that was ready
    try:
        for kill in range(options.kills):
            if kill % 6 == 3:
                running += ready.told(chance.uniform(0.01, 0.3))
            else:
                if not ready.told(60):
                    raise SystemExit("the service was not ready within a minute")
                running += 1
                time.sleep(chance.uniform(0, 1.2))
            if process.poll() is not None:
                print(open(folder + "/service.log", errors="replace").read()[-2000:])
                raise SystemExit(f"the service ended by itself, status {process.returncode}")
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = start()
    finally:
        done.set()
        for thread in writers:
            thread.join()
    store = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)
    # As long as there is progress: the service may be far behind on a busy machine, and a sink that had refused is tried again after up to a minute.
    left, moved, waited_from = None, time.monotonic(), time.monotonic()
    open_ones = waiting = kept = -1
    while time.monotonic() - moved < 180:
        time.sleep(0.1)
        try:
            open_ones = store.execute("SELECT count(*) FROM tracked WHERE closed = 0").fetchone()[0]
            waiting = store.execute("SELECT count(*) FROM outbox WHERE state IN ('waiting', 'sending')").fetchone()[0]
            kept = store.execute("SELECT count(DISTINCT job) FROM incident").fetchone()[0]
        except sqlite3.OperationalError:
            continue
        if open_ones == 0 and waiting == 0 and kept >= len(expected):
            break
        if (open_ones, waiting, kept) != left:
            left, moved = (open_ones, waiting, kept), time.monotonic()
    waited = time.monotonic() - waited_from
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=20)
    stop_s = time.monotonic() - begin
    faults = []
    sound = store.execute("PRAGMA integrity_check").fetchone()[0]
    if sound != "ok":
        faults.append("the database is damaged: " + sound)
    found = collections.defaultdict(list)
    for job, kind in store.execute("SELECT job, kind FROM incident"):
        found[job].append(kind)
    for job, kind in sorted(expected.items()):
        if found.get(job, []) != [kind]:
            faults.append(f"{job}: wanted one {kind}, stored {found.get(job, [])}")
    faults += [f"{job}: nothing failed there" for job in found if job not in expected]
    states = {(sink_name, state): count for sink_name, state, count in store.execute("SELECT sink, state, count(*) FROM outbox GROUP BY sink, state")}
    if open_ones or waiting:
        faults.append(f"at the end {open_ones} incidents are open and {waiting} messages wait")
    twice = {text: count for text, count in Sink.chat.items() if count > 1}
    # Texts of one job and rank are equal for an opening and an update only if nothing changed, and then there is no update.
    faults += [f"chat got {count} times: {text[:100]}" for text, count in sorted(twice.items())]
    unknown = states.get(("chat", "uncertain"), 0)
    for job in expected:
        if not any(f"job {job}," in text for text in Sink.chat) and unknown == 0:
            faults.append(f"{job}: chat never heard of it")
    opened = store.execute("SELECT count(*) FROM outbox WHERE sink = 'hook' AND state <> 'sent'").fetchone()[0]
    if opened:
        faults.append(f"{opened} messages did not reach the webhook: {dict((k, v) for k, v in states.items() if k[0] == 'hook')}")
    print(f"{options.kills} kills, {running} of them of a service that was ready; {waited:.0f} s until all was told; {len(expected)} jobs, {sum(map(len, found.values()))} incidents; chat took {sum(Sink.chat.values())} messages, {unknown} uncertain; "
          f"webhook took {sum(Sink.hook.values())} of {len(Sink.hook)} keys; stop {stop_s:.2f} s; database {sound}")
    for fault in faults[:20]:
        print("FAULT", fault)
    if faults:
        print("kept:", folder)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
