#!/usr/bin/env python3
"""The service under load: from the line written to the diagnosis committed, idle cost, and restart.

usage: live.py TRIAGE FAILING_LOG [--files N] [--rate MB/s] [--seconds S] [--failures N] [--idle N]

Load: N files (8 ranks a job) grow at RATE in all; now and then the failing log is appended to one of a job that has not failed yet. The time runs
from the write of its last line to the event incident.opened of that job, which the service publishes after the commit. Every failed job
must have exactly one incident, and every byte must be taken at the end.
Idle: so many files that do not change: processor time and memory of the service. Restart: from exec to all of them being watched again.
"""
import argparse, http.client, json, os, random, resource, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, threading, time

LINE = "[2026-12-01 10:{:02d}:{:02d}.{:06d}] iteration {:8d}/  500000 | consumed samples: {:12d} | elapsed time per iteration (ms): 812.3 | learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 0.512 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Service:
    def __init__(self, triage, folder):
        self.port = free_port()
        self.database = os.path.join(folder, "triaged.db")
        config = os.path.join(folder, "triaged.yaml")
        with open(config, "w") as out:
            out.write(f"""database: {self.database}
sources:
  files: ["{folder}/logs/{{job}}/rank{{rank}}.log"]
  max_files: 50000
http:
  listen: ["127.0.0.1:{self.port}"]
incidents:
  close_after: 10s
""")
        self.started = time.monotonic()
        self.process = subprocess.Popen([triage, "serve", "--config", config], stderr=open(os.path.join(folder, "service.log"), "ab"))

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    def wait_ready(self, seconds=60):
        while time.monotonic() - self.started < seconds:
            try:
                if self.get("/readyz")[0] == 200:
                    return time.monotonic() - self.started
            except OSError:
                pass
            time.sleep(0.005)
        raise SystemExit("the service does not get ready")

    def metric(self, name):
        for line in self.get("/metrics")[1].decode().splitlines():
            if line.startswith(name + " ") or line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, which="VmHWM"):
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith(which):
                    return int(line.split()[1]) * 1024
        return 0

    def stop(self):
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        return time.monotonic() - begin


def follow_events(service, opened, ready):
    """Keeps when the incident of each job was told of."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=600)
    connection.request("GET", "/api/v1/stream")
    answer = connection.getresponse()
    ready.set()
    kind = ""
    try:
        for raw in answer:
            line = raw.decode().rstrip("\n")
            if line.startswith("event:"):
                kind = line[6:].strip()
            elif line.startswith("data:") and kind == "incident.opened":
                opened.setdefault(json.loads(line[5:])["job"], []).append(time.monotonic())
    except (OSError, ValueError, http.client.HTTPException):
        pass


def load(service, folder, options, failing):
    opened, ready = {}, threading.Event()
    threading.Thread(target=follow_events, args=(service, opened, ready), daemon=True).start()
    ready.wait(10)
    jobs = [f"job{n:04d}" for n in range(max(1, options.files // 8))]
    files = []
    for job in jobs:
        os.makedirs(f"{folder}/logs/{job}", exist_ok=True)
        for rank in range(8):
            files.append((job, os.open(f"{folder}/logs/{job}/rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)))
    turn_s = options.turn
    size = len(LINE.format(1, 1, 1, 1, 256))       # of each line
    block = memoryview(b"".join(LINE.format(i % 60, i % 60, i, i, i * 256).encode() for i in range(65536)))
    assert len(block) == 65536 * size
    to_fail = random.Random(7).sample(jobs, min(options.failures, len(jobs)))
    first_failure, written_at, written = 2.0, {}, 0
    cpu = service.cpu()
    begin = time.monotonic()
    turn = 0
    while time.monotonic() - begin < options.seconds:
        due = int((time.monotonic() - begin - first_failure) / max(0.1, options.seconds - first_failure - 1) * len(to_fail))
        for job in to_fail[len(written_at):max(0, due)]:
            fd = files[jobs.index(job) * 8 + hash(job) % 8][1]
            written += os.write(fd, failing)
            written_at[job] = time.monotonic()
        alive = [fd for job, fd in files if job not in written_at]
        # What this turn owes, spread over those that still run: a failed job writes no more.
        owed = max(0, options.rate * 1e6 * min(options.seconds, time.monotonic() - begin + turn_s) - written)
        lines = min(65536, max(1, round(owed / max(1, len(alive)) / size)))
        portion = block[:lines * size]
        for fd in alive:
            written += os.write(fd, portion)
        turn += 1
        time.sleep(max(0.0, begin + turn * turn_s - time.monotonic()))
    seconds = time.monotonic() - begin
    cpu = service.cpu() - cpu
    for _ in range(200):
        if len(opened) == len(written_at) and service.metric("triage_read_bytes_total") >= written:
            break
        time.sleep(0.1)
    read = service.metric("triage_read_bytes_total")
    times = sorted((opened[job][0] - written_at[job]) * 1e3 for job in written_at if job in opened)
    time.sleep(1)
    with sqlite3.connect(f"file:{service.database}?mode=ro", uri=True) as store:
        stored = dict(store.execute("SELECT job, count(*) FROM incident GROUP BY job"))
    wrong = [job for job in to_fail[:len(written_at)] if stored.get(job, 0) != 1] + [job for job in stored if job not in written_at]
    pick = lambda share: times[min(len(times) - 1, int(len(times) * share))] if times else float("nan")
    slow = sorted(((opened[job][0] - written_at[job], written_at[job] - begin) for job in written_at if job in opened), reverse=True)[:5]
    print("slowest    " + ", ".join(f"{took * 1e3:.0f} ms at {at:.1f} s" for took, at in slow))
    print(f"load       {len(files)} files, {written / seconds / 1e6:.1f} MB/s for {seconds:.0f} s, {cpu / seconds * 100:.0f} % of a core, highest memory {service.memory() / 2**20:.0f} MiB")
    print(f"latency    {len(times)} failures: median {pick(0.5):.0f} ms, p90 {pick(0.9):.0f} ms, p99 {pick(0.99):.0f} ms, worst {times[-1] if times else 0:.0f} ms")
    print(f"lost       {written - int(read)} of {written} bytes; jobs without exactly one incident: {len(wrong)} {wrong[:5]}")
    for _, fd in files:
        os.close(fd)
    return not wrong and read == written


def idle(triage, folder, options):
    for n in range(options.idle):
        path = f"{folder}/logs/idle{n // 100:04d}"
        if n % 100 == 0:
            os.makedirs(path, exist_ok=True)
        with open(f"{path}/rank{n % 100}.log", "w") as out:
            out.write("starting\n" + LINE.format(1, 1, 1, 1, 256))
    service = Service(triage, folder)
    first = service.wait_ready()
    while service.metric('triage_sources{state="known"}') < options.idle:
        time.sleep(0.2)
    time.sleep(65)                                # Intakes that are not used are let go
    cpu, begin = service.cpu(), time.monotonic()
    time.sleep(20)
    share = (service.cpu() - cpu) / (time.monotonic() - begin) * 100
    memory, highest = service.memory("VmRSS"), service.memory()
    drain = service.stop()
    again = Service(triage, folder)
    restart = again.wait_ready()
    begin = again.started
    with open(f"{folder}/logs/idle0000/rank5.log", "a") as out:
        out.write(LINE.format(2, 2, 2, 2, 512))
    print(f"idle       {options.idle} files: {share:.2f} % of a core, memory {memory / 2**20:.0f} MiB (highest {highest / 2**20:.0f}); first start {first:.2f} s, stop {drain:.2f} s")
    print(f"restart    {options.idle} known files: watching after {restart:.2f} s")
    again.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("triage")
    parser.add_argument("failing")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--turn", type=float, default=0.5, help="seconds between two writes to a file")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--failures", type=int, default=100)
    parser.add_argument("--idle", type=int, default=10000)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, options.files + 200), hard))
    good = True
    failing = open(options.failing, "rb").read()
    if options.files:
        folder = tempfile.mkdtemp(prefix="triage-live-")
        service = Service(options.triage, folder)
        service.wait_ready()
        good = load(service, folder, options, failing)
        print(f"stop       {service.stop():.2f} s")
        shutil.rmtree(folder)
    if options.idle:
        folder = tempfile.mkdtemp(prefix="triage-idle-")
        idle(options.triage, folder, options)
        shutil.rmtree(folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
