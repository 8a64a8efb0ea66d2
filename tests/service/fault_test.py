#!/usr/bin/env python3
"""Faults around the running service: it degrades as docs/operating.md says, tells why, and recovers without a restart.

usage: fault_test.py TRIAGE SOURCE_FOLDER [CASE...]
"""
import contextlib, http.client, http.server, json, os, resource, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, threading, time, urllib.parse

TRIAGE, SOURCE = sys.argv[1], sys.argv[2]
OOM = open(f"{SOURCE}/tests/corpus/recorded/capacity_forward.log", "rb").read()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# How many times slower and larger than a release build the one under test may be: sanitizers cost time and memory.
SLOWER = float(os.environ.get("TRIAGE_TEST_SLOWER", "1"))


def wait_for(what, condition, seconds=20):
    until = time.monotonic() + seconds * SLOWER
    while time.monotonic() < until:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
            if condition():
                return
        time.sleep(0.05)
    raise AssertionError("did not come true: " + what)


class Service:
    made = []   # started by the case that runs

    def __init__(self, more="", folder=None, files=0, memory=None):
        self.folder = folder or tempfile.mkdtemp(prefix="triage-fault-")
        self.port, self.files = free_port(), files
        os.makedirs(self.folder + "/logs", exist_ok=True)
        self.config = self.folder + "/triaged.yaml"
        self.write_config(more)
        self.start()

    def write_config(self, more="", database=None):
        with open(self.config + ".new", "w") as out:
            out.write(f"""database: {database or self.folder + '/db/triaged.db'}
sources: {{files: ["{self.folder}/logs/{{job}}/rank{{rank}}.log", "{self.folder}/logs/kernel.log"], flush: 300ms}}
http: {{listen: ["127.0.0.1:{self.port}"]}}
rules: {self.folder}/rules.d
incidents: {{close_after: 3s}}
{more}
""")
        os.makedirs(self.folder + "/rules.d", exist_ok=True)
        os.rename(self.config + ".new", self.config)

    def start(self):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))) if self.files else None
        self.process = subprocess.Popen([TRIAGE, "serve", "--config", self.config], stderr=open(self.folder + "/service.log", "ab"), preexec_fn=limit)
        Service.made.append(self)
        wait_for("ready", lambda: self.get("/readyz")[0] == 200, 30)

    def ask(self, method, path, body=None, headers={}):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data

    def get(self, path):
        return self.ask("GET", path)

    def json(self, path):
        status, data = self.get(path)
        assert status == 200, (path, status, data)
        return json.loads(data)

    def part(self, name):
        return next(part for part in self.json("/api/v1/health")["parts"] if part["part"] == name)

    def incidents(self, job):
        return self.json("/api/v1/incidents?job=" + job)["incidents"]

    def write(self, job, data=OOM, rank=0):
        os.makedirs(f"{self.folder}/logs/{job}", exist_ok=True)
        with open(f"{self.folder}/logs/{job}/rank{rank}.log", "ab") as out:
            out.write(data)

    def memory_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))

    def stop(self, most=10):
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=30)
        took = time.monotonic() - begin
        assert status == 0, f"ended with {status}"
        assert took <= most, f"took {took:.1f} s to stop"
        shutil.rmtree(self.folder, ignore_errors=True)
        return took


def locked_database():
    service = Service()
    lock = sqlite3.connect(service.folder + "/db/triaged.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    service.write("locked")
    wait_for("health tells of the lock", lambda: not service.part("database")["ok"])
    assert service.get("/readyz")[0] == 503 and service.get("/healthz")[0] == 200
    status, _ = service.ask("POST", "/loki/api/v1/push", json.dumps({"streams": [{"stream": {"job": "pushed"}, "values": [[str(time.time_ns()), "hello"]]}]}), {"Content-Type": "application/json"})
    assert status in (429, 503), status
    lock.execute("ROLLBACK")
    wait_for("the incident after the lock", lambda: len(service.incidents("locked")) == 1)
    wait_for("well again", lambda: service.part("database")["ok"])
    return f"stop {service.stop():.1f} s"


def full_disk():
    folder = tempfile.mkdtemp(prefix="triage-full-")
    os.makedirs(folder + "/db")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder + "/db"], capture_output=True).returncode != 0:
        return "skipped: mounting is not permitted"
    try:
        service = Service(folder=folder)
        with open(folder + "/db/ballast", "wb") as out, contextlib.suppress(OSError):
            while True:
                out.write(b"x" * 65536)
                out.flush()
        for n in range(20):
            service.write(f"full{n}")
        wait_for("health tells of the disk", lambda: not service.part("database")["ok"])
        os.unlink(folder + "/db/ballast")
        wait_for("all incidents once there is room", lambda: all(len(service.incidents(f"full{n}")) == 1 for n in range(20)), 40)
        wait_for("well again", lambda: service.part("database")["ok"])
        service.stop()
        return "20 incidents after the disk had room"
    finally:
        subprocess.run(["umount", "-l", folder + "/db"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def wrong_reload():
    service = Service()
    good = open(service.config).read()
    with open(service.config, "w") as out:
        out.write(good + "\nincident: {}\nworkers: many\n")
    service.process.send_signal(signal.SIGHUP)
    wait_for("the reload is refused", lambda: not service.part("configuration")["ok"])
    why = service.part("configuration")["why"]
    assert "2 faults" in why or "3 faults" in why, why
    service.write("after")
    wait_for("the old configuration works on", lambda: len(service.incidents("after")) == 1)
    with open(service.config, "w") as out:
        out.write(good)                            # noticed without a signal
    wait_for("the repaired file is noticed", lambda: service.part("configuration")["ok"])
    with open(service.folder + "/rules.d/mine.yaml", "w") as out:
        out.write("- id: mine.bad\n  pattern: '('\n")
    wait_for("a bad rule is refused", lambda: not service.part("configuration")["ok"])
    os.unlink(service.folder + "/rules.d/mine.yaml")
    wait_for("and well without it", lambda: service.part("configuration")["ok"])
    service.stop()
    return why.splitlines()[0][:90]


def new_patterns():
    service = Service()
    os.makedirs(service.folder + "/more")
    with open(service.folder + "/more/other.log", "wb") as out:
        out.write(OOM)
    service.write("before", b"starting\n")
    time.sleep(0.5)
    assert not service.json("/api/v1/incidents")["incidents"]
    text = open(service.config).read().replace('/logs/kernel.log"', f'/logs/kernel.log", "{service.folder}/more/*.log"')
    with open(service.config, "w") as out:
        out.write(text)
    wait_for("a file of the new pattern is read", lambda: len(service.json("/api/v1/incidents")["incidents"]) == 1)
    service.write("before")
    wait_for("files of the old one go on", lambda: len(service.incidents("before")) == 1)
    service.stop()
    return "files of a new pattern found without a restart"


def few_descriptors():
    service = Service(files=48)
    for n in range(300):
        service.write(f"many{n % 100}", b"starting\n" if n < 290 else OOM, rank=n // 100)
    def told():
        status, data = service.get("/api/v1/incidents?limit=50")
        assert status in (200, 503), (status, data)   # 503: no descriptor for the moment, as docs/operating.md says; asked again
        return status == 200 and len(json.loads(data)["incidents"]) == 10

    wait_for("the incidents of 300 files", told, 40)
    service.stop()
    return "300 files with 48 descriptors"


def link_in_place_of_log():
    """Who may write logs puts a link to somebody else's file where his log was: the page must not show that file."""
    service = Service()
    service.write("linked")
    wait_for("the incident", lambda: len(service.incidents("linked")) == 1)
    incident = service.incidents("linked")[0]["id"]
    lines = lambda: service.get(f"/api/v1/context?incident={incident}&line=1&after=90")
    assert b"CUDA out of memory" in lines()[1], lines()
    log = f"{service.folder}/logs/linked/rank0.log"
    secret = service.folder + "/secret"
    with open(secret, "w") as out:
        out.write("root:$6$of-somebody-else:0:\n" * 200)
    os.rename(log, service.folder + "/kept.log")
    os.symlink(secret, log)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        status, body = lines()
        assert b"of-somebody-else" not in body, (status, body[:300])
        time.sleep(0.1)
    spool = sqlite3.connect(f"file:{service.folder}/db/triaged.db?mode=ro", uri=True).execute("SELECT text FROM spool").fetchall()
    assert not any(b"of-somebody-else" in str(row[0]).encode() for row in spool)
    service.stop()
    return "its lines are not shown"


def long_line():
    service = Service()
    service.write("long", b"x" * (100 << 20))
    service.write("long", b"\n" + OOM)
    wait_for("the incident behind the line", lambda: len(service.incidents("long")) == 1, 60)
    memory = service.memory_mib()
    assert memory < 200 * SLOWER, f"{memory} MiB"
    lost = [source["lost_bytes"] for source in service.json("/api/v1/sources?job=long")["sources"]]
    assert lost and lost[0] > 90 << 20, lost
    service.stop()
    return f"{memory} MiB, {lost[0]} bytes told as lost"


def xid_flood():
    service = Service()
    kinds = [13, 31, 32, 38, 43, 45, 48, 61, 62, 63, 64, 68, 69, 74, 79, 92, 94, 95, 109, 119, 120, 121, 122, 123, 124, 136, 140, 143, 145]
    with open(service.folder + "/logs/kernel.log", "w") as out:
        for n in range(800_000):
            out.write(f"Dec  1 10:{n // 60 % 60:02d}:{n % 60:02d} node7 kernel: [{n}.{n % 1000000:06d}] NVRM: Xid (PCI:0000:{n % 8:02x}:00): {kinds[n % 29]}, pid=1234, name=python3, Ch 00000008\n")
    size = os.path.getsize(service.folder + "/logs/kernel.log")
    taken = lambda: any(source["offset"] >= size for source in service.json("/api/v1/sources")["sources"])
    begin = time.monotonic()
    wait_for("all of it is taken", taken, 120)
    took = time.monotonic() - begin
    wait_for("it is told", lambda: service.json("/api/v1/incidents")["incidents"], 30)
    memory, count = service.memory_mib(), len(service.json("/api/v1/incidents?limit=500")["incidents"])
    assert memory < 300 * SLOWER, f"{memory} MiB"
    assert count <= 29 * 8, count
    service.stop()
    return f"{size >> 20} MiB of Xid lines in {took:.1f} s, {count} incidents, {memory} MiB"


def pushed_and_killed():
    service = Service()
    lines = OOM.decode().splitlines()
    for n in range(12):
        body = json.dumps({"streams": [{"stream": {"job": f"push{n}", "rank": "0"}, "values": [[str(time.time_ns() + i), line] for i, line in enumerate(lines)]}]})
        while True:
            try:
                status, _ = service.ask("POST", "/loki/api/v1/push", body, {"Content-Type": "application/json"})
            except OSError:
                status = 0
            if status in (200, 204):
                break
            time.sleep(0.1)
        service.process.kill()                     # accepted means kept
        service.process.wait()
        service.start()
        status, _ = service.ask("POST", "/loki/api/v1/push", body, {"Content-Type": "application/json"})   # the shipper never saw the answer
        assert status in (200, 204), status
    wait_for("each pushed job has one incident", lambda: all(len(service.incidents(f"push{n}")) == 1 for n in range(12)), 30)
    service.stop()
    return "12 batches, each killed after its answer and pushed again"


def read_only_database():
    """The file system of the database becomes read-only, as ext4 does after an error of its disk."""
    folder = tempfile.mkdtemp(prefix="triage-readonly-")
    os.makedirs(folder + "/db")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder + "/db"], capture_output=True).returncode != 0:
        return "skipped: mounting is not permitted"
    remount = lambda how: subprocess.run(["mount", "-o", "remount," + how, folder + "/db"], capture_output=True)
    try:
        service = Service(folder=folder)
        service.write("before")
        wait_for("the incident before", lambda: len(service.incidents("before")) == 1)
        # Files that are open for writing keep a file system from it: the service is started on one that is read-only, and ends with a reason.
        service.process.kill()
        service.process.wait()
        if remount("ro").returncode != 0:
            return "skipped: the file system cannot be made read-only here"
        refused = subprocess.run([TRIAGE, "serve", "--config", service.config], capture_output=True, timeout=30)
        assert refused.returncode not in (0, -6, -11) and b"read" in refused.stderr, (refused.returncode, refused.stderr[-300:])
        service.write("meanwhile")
        assert remount("rw").returncode == 0
        service.start()
        wait_for("the incident of meanwhile", lambda: len(service.incidents("meanwhile")) == 1)
        service.stop()
        return refused.stderr.decode(errors="replace").strip().splitlines()[0][:90]
    finally:
        subprocess.run(["umount", "-l", folder + "/db"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def database_turns_read_only():
    """No byte of the database may be changed any more while the service runs."""
    service = Service()
    files = [service.folder + "/db/triaged.db" + end for end in ("", "-wal")]
    if subprocess.run(["chattr", "+i", *files], capture_output=True).returncode != 0:
        service.stop()
        return "skipped: this file system has no immutable files"
    try:
        service.write("readonly")
        wait_for("health tells of it", lambda: not service.part("database")["ok"])
        why = service.part("database")["why"]
    finally:
        subprocess.run(["chattr", "-i", *files], capture_output=True)
    wait_for("the incident afterwards", lambda: len(service.incidents("readonly")) == 1)
    wait_for("well again", lambda: service.part("database")["ok"])
    service.stop()
    return why[:90]


def killed_while_pushed():
    """SIGKILL while OTLP batches come in from four shippers, which repeat what was not answered: nothing lost, nothing doubled."""
    service = Service()
    lines = OOM.decode().splitlines()
    stop, accepted, repeated = threading.Event(), set(), [0]

    def shipper(number):
        count = 0
        while not stop.is_set():
            job = f"otlp{number}x{count}"
            records = [{"timeUnixNano": str(time.time_ns() + i), "body": {"stringValue": line}} for i, line in enumerate(lines)]
            body = json.dumps({"resourceLogs": [{"resource": {"attributes": [{"key": "job", "value": {"stringValue": job}}, {"key": "rank", "value": {"stringValue": "0"}}]},
                                                 "scopeLogs": [{"logRecords": records}]}]})
            for attempt in range(600):
                try:
                    status, _ = service.ask("POST", "/v1/logs", body, {"Content-Type": "application/json"})
                except (OSError, http.client.HTTPException):
                    status = 0
                if status == 200:
                    break
                repeated[0] += 1
                time.sleep(0.05)
            assert status == 200, status
            accepted.add(job)
            count += 1

    shippers = [threading.Thread(target=shipper, args=(n,)) for n in range(4)]
    for thread in shippers:
        thread.start()
    for n in range(8):
        time.sleep(0.2 + 0.11 * n)
        service.process.kill()
        service.process.wait()
        service.start()
    stop.set()
    for thread in shippers:
        thread.join()
    assert repeated[0] > 0, "no batch was under way at any kill"
    wait_for("each pushed job has one incident", lambda: all(len(service.incidents(job)) == 1 for job in sorted(accepted)), 90)
    total, page = 0, service.json("/api/v1/incidents?limit=500")
    while page["incidents"]:   # a page holds no more than 500
        total += len(page["incidents"])
        if page["next"] is None:
            break
        page = service.json("/api/v1/incidents?limit=500&cursor=" + urllib.parse.quote(page["next"]))
    assert total == len(accepted), (total, len(accepted))
    service.stop()
    return f"{len(accepted)} batches over 8 kills, {repeated[0]} tries were not answered"


def stop_under_load():
    service = Service()
    stop = threading.Event()

    def flood():
        block = b"[2026-12-01 10:00:00] iteration 1/ 500 | lm loss: 2.3 | something that is told each time\n" * 20000
        while not stop.is_set():
            service.write("flood", block)

    thread = threading.Thread(target=flood)
    thread.start()
    time.sleep(3)
    begin = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    status = service.process.wait(timeout=20)
    took = time.monotonic() - begin
    stop.set()
    thread.join()
    assert status == 0 and took < 10, (status, took)
    shutil.rmtree(service.folder, ignore_errors=True)
    return f"stopped within {took:.2f} s"


def sinks_down():
    """Two sinks that refuse everything, over a restart: afterwards each message comes once, and of an incident in order."""
    down, chat, hook, lock = [True], [], [], threading.Lock()

    class Sink(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                if not down[0]:
                    (chat if self.path == "/chat" else hook).append((body.get("text"), body.get("key"), self.headers["X-Triage-Event"], body.get("incident", {}).get("id")))
            self.send_response(503 if down[0] else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    service = Service(f"""alerts:
  group_wait: 0s
  sinks:
    chat: {{type: slack_webhook, url: "{url}/chat", every: 1ms}}
    hook: {{type: webhook, url: "{url}/hook", every: 1ms}}
""")
    waiting = lambda: sum(sink["items"] for sink in store("SELECT count(*) AS items FROM outbox WHERE state IN ('waiting', 'sending')"))

    def store(sql):
        with contextlib.closing(sqlite3.connect(f"file:{service.folder}/db/triaged.db?mode=ro", uri=True, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(sql).fetchall()

    jobs = [f"job{n}" for n in range(6)]
    for job in jobs:
        service.write(job)
    wait_for("all incidents are closed", lambda: len(store("SELECT 1 FROM tracked WHERE closed = 1")) == len(jobs), 60)
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    service.start()
    time.sleep(2)
    assert not chat and not hook and waiting() >= 2 * len(jobs), "what could not be told waits"
    down[0] = False
    begin = time.monotonic()
    wait_for("all is told", lambda: waiting() == 0, 120)
    took = time.monotonic() - begin
    assert not store("SELECT 1 FROM outbox WHERE state <> 'sent'"), "something was given up"
    assert len({text for text, *_ in chat}) == len(chat) and len({key for _, key, *_ in hook}) == len(hook), "told twice"
    for incident in {one[3] for one in hook}:
        events = [event for _, _, event, id in hook if id == incident]
        assert "closed" not in events[:-1], events
    assert len({one[3] for one in hook}) == len(jobs)
    service.stop()
    return f"{len(chat)} and {len(hook)} messages, each once, {took:.1f} s after the sinks came back"


CASES = [sinks_down, locked_database, full_disk, wrong_reload, new_patterns, few_descriptors, link_in_place_of_log, long_line, xid_flood, pushed_and_killed, killed_while_pushed, read_only_database, database_turns_read_only, stop_under_load]


def main():
    failed = 0
    for case in CASES:
        if len(sys.argv) > 3 and case.__name__ not in sys.argv[3:]:
            continue
        begin = time.monotonic()
        try:
            said = case()
            print(f"{case.__name__:18} ok      {said} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Exception as fault:  # noqa: each case tells its own fault
            failed += 1
            print(f"{case.__name__:18} FAILED  {type(fault).__name__}: {fault}", flush=True)
        for service in Service.made:   # one that a failed case leaves would hold the output open, and the runner would wait for it
            service.process.kill()
            service.process.wait()
        Service.made.clear()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
