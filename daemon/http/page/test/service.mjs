// Starts the real service on a folder of its own with recorded logs.
import {spawn} from 'node:child_process';
import {copyFile, mkdir, mkdtemp, rm, writeFile} from 'node:fs/promises';
import {createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const freePort = () => new Promise((done) => { const s = createServer().listen(0, '127.0.0.1', () => { const {port} = s.address(); s.close(() => done(port)); }); });

export async function startService(triage, logs = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'triaged-page-')), port = await freePort();
  for (const name of ['logs', 'jobs']) await mkdir(join(folder, name));
  for (const [name, from] of Object.entries(logs)) await copyFile(from, join(folder, 'logs', name));
  await writeFile(join(folder, 'triaged.yaml'),
    `database: ${folder}/triaged.db\nhttp:\n  listen: 127.0.0.1:${port}\nsources:\n  files:\n    - ${folder}/logs/*.log\n    - ${folder}/jobs/{job}/{node}/rank{rank}.log\nincidents:\n  settle: 200ms\n  close_after: 2s\n`);
  const child = spawn(triage, ['serve', '--config', join(folder, 'triaged.yaml')], {stdio: ['ignore', 'pipe', 'pipe']});
  let said = '';
  child.stdout.on('data', (d) => (said += d));
  child.stderr.on('data', (d) => (said += d));
  const base = `http://127.0.0.1:${port}`;
  for (let i = 0; ; ++i) {
    try { if ((await fetch(base + '/healthz')).ok) break; } catch { /* not yet */ }
    if (child.exitCode !== null || i > 150) throw new Error('the service did not start: ' + said);
    await new Promise((r) => setTimeout(r, 100));
  }
  return {base, folder, logs: join(folder, 'logs'), jobs: join(folder, 'jobs'), said: () => said,
          stop: async () => { child.kill('SIGTERM'); await new Promise((r) => child.once('exit', r)); await rm(folder, {recursive: true, force: true}); }};
}

export async function incidentsOf(base, atLeast) {
  for (let i = 0; ; ++i) {
    const {incidents} = await (await fetch(base + '/api/v1/incidents?limit=200')).json();
    if (incidents.length >= atLeast) return incidents;
    if (i > 200) throw new Error(`only ${incidents.length} incidents, not ${atLeast}`);
    await new Promise((r) => setTimeout(r, 100));
  }
}
