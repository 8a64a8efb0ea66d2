// Sizes: many incidents, many ranks, long logs, grown snapshots. Floors stand on processor time a frame, which does not depend on what else the
// machine does; times by the clock are printed.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {open as openFile, readFile, stat, unlink} from 'node:fs/promises';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {frames} from './harness.mjs';

const kWork = 16;   // ms of the main thread a frame: what a screen of 60 Hz leaves

/** Writes a log of about `bytes` whose OOM stands in its middle. Returns the number of its root line. */
async function writeLog(path, bytes) {
  const file = await openFile(path, 'w');
  const line = (i) => `2026-12-01 10:00:00 [rank${i % 8}] iteration ${i} | elapsed time per iteration (ms): 512.3 | lm loss: 2.345678E+00 | grad norm: 1.234\n`;
  let i = 0, size = 0, root = 0;
  while (size < bytes) {
    let chunk = '';
    while (chunk.length < 1 << 22) chunk += line(i++);
    if (!root && size + chunk.length > bytes / 2) {
      chunk += '[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. ' +
        'Of the allocated memory 76.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n';
      root = ++i;
    }
    size += chunk.length;
    await file.write(chunk);
  }
  await file.close();
  return root;
}

export async function sizes({chromium, service, rows, snapshot, large}) {
  const {test, shot} = chromium;

  await test('5,000 incidents scroll without stutter', async (page) => {
    const row = (i) => ({id: String(i).padStart(16, '0'), fingerprint: 'v1:1', kind: i % 3 ? 'gpu.oom.capacity' : 'nccl.timeout', severity: 'critical', phase: 'forward',
      summary: `Rank ${i} asked for 2.00 GiB in the forward pass at step ${i}; 78.10 of 79.15 GiB were in use.`, job: 'job-' + (i % 50), attempt: 1, node: 'gpu-' + (i % 97), rank: i % 512, step: i,
      source: '/logs/a.log', line: i + 1, confidence: .9, open: false, revision: 1, opened_at: new Date(1.79e12 - i * 1000).toISOString(), changed_at: new Date(1.79e12).toISOString(), occurred_at: null, seen: 1});
    await page.route('**/api/v1/incidents?*', (route) => {
      const from = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0);
      route.fulfill({json: {incidents: Array.from({length: Math.min(200, 5000 - from)}, (_, i) => row(from + i)), next: from + 200 < 5000 ? String(from + 200) : null}});
    });
    await page.goto(service.base + '/');
    await page.waitForSelector('a.row');
    const measured = await frames(page, 1500, () => {
      const box = document.querySelector('.rows');
      if (box.scrollTop > 4900 * 48) return false;
      box.scrollTop += 900;
    });
    const end = await page.evaluate(() => ({at: document.querySelector('.rows').scrollTop, rows: document.querySelectorAll('a.row').length}));
    assert.ok(end.at > 4000 * 48, 'the end is reached');
    assert.ok(end.rows < 80, 'only rows in sight are in the page');
    assert.ok(measured.work < kWork, `${measured.work} ms of the main thread a frame`);
  });

  await test('a matrix of 4,096 ranks is readable and quick', async (page) => {
    const id = rows.find((r) => r.source.includes('ranks-oom')).id;
    await page.route('**/api/v1/incidents/' + id, async (route) => {
      const answer = await (await route.fetch()).json();
      const a = answer.answer, some = (from, to) => Array.from({length: to - from}, (_, i) => from + i);
      a.config = {world: {value: 4096, origin: 'log', source: null, line: null}, gpus_per_node: {value: 8, origin: 'log', source: null, line: null}};
      a.root.rank = 1234;
      a.echoes[0].ranks = some(0, 3000).filter((r) => r !== 1234);
      a.collective = {operation: 'ALLREDUCE', sequence: 7, process_group: '0', culprit_ranks: [1235], waiting_ranks: some(3000, 4000), silent_ranks: some(4000, 4096)};
      await route.fulfill({json: answer});
    });
    await page.goto(service.base + '/incidents/' + id);
    const canvas = page.locator('canvas.ranks');
    await canvas.waitFor();
    await canvas.scrollIntoViewIfNeeded();
    assert.match(await canvas.getAttribute('aria-label'), /failed first: 1, others waited for it: 1, failed after it: 2998, waited: 1000, printed nothing: 96/);
    await canvas.focus();
    const measured = await frames(page, 120, () => { document.querySelector('canvas.ranks').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true})); });
    assert.match(await page.locator('.tip').innerText(), /rank 1354/);
    const box = await canvas.boundingBox();
    assert.ok(box.height < 900, 'all ranks on one screen');
    assert.ok(measured.work < kWork, `${measured.work} ms of the main thread a frame`);
    await shot(page, 'ranks-4096');
  });

  const megabytes = large ? 1024 : 48;
  await test(`a log of ${megabytes} MiB opens at its root line and scrolls without stutter`, async (page) => {
    const path = join(service.logs, 'long.log'), root = await writeLog(path, megabytes << 20), {size} = await stat(path);
    let row = null;
    for (let i = 0; i < 3000 && !row; ++i) {
      row = (await (await fetch(service.base + '/api/v1/incidents')).json()).incidents.find((r) => r.source.includes('long.log'));
      await new Promise((r) => setTimeout(r, 100));
    }
    assert.ok(row, 'the incident of the long log');
    assert.equal(row.line, root);
    await page.goto(service.base + '/incidents/' + row.id);
    const began = Date.now();
    await page.waitForSelector('.line.root');
    console.log(`        ${size} bytes, root line ${root} shown after ${Date.now() - began} ms`);
    const measured = await frames(page, 400, () => { document.querySelector('.lines').scrollTop += 90; });
    const last = async () => Number(await page.locator('.line .no').last().innerText());
    assert.ok(await last() > root + 400, 'further lines are read at the end of what is held');
    assert.ok((await page.locator('.line').count()) < 120, 'only lines in sight are in the page');
    assert.ok(measured.work < kWork, `${measured.work} ms of the main thread a frame`);
    // Any place of the file: the service reads there and nowhere else.
    const jump = Date.now(), answered = page.waitForResponse((r) => r.url().includes('/api/v1/context'));
    await page.getByLabel('Place in the file').evaluate((e) => { e.value = String(Number(e.max) * .9); e.dispatchEvent(new Event('change', {bubbles: true})); });
    await (await answered).finished();
    await page.waitForFunction((o) => Math.abs(Number(document.querySelector('.line .no').title.slice(5)) - o) < 1e6, size * .9);
    console.log(`        a jump to 90 % of the file took ${Date.now() - jump} ms`);
    await shot(page, 'long-log');
    await unlink(path);
  });

  if (snapshot) await test(large ? 'a snapshot of 300 MB opens within two seconds' : 'a grown snapshot opens within two seconds', async (page) => {
    const grown = join(large || service.folder, 'grown.pickle'), tool = fileURLToPath(new URL('../../../../tests/bench/grow_snapshot.py', import.meta.url));
    execFileSync('python3', [tool, large ? join(fileURLToPath(new URL('../../../../tests/snapshots/', import.meta.url)), 'megatron-oom-dense-forward.pickle.gz') : snapshot, large ? '3000000' : '20000', grown], {stdio: 'ignore'});
    const {size} = await stat(grown), sent = Date.now();
    const answer = await (await fetch(service.base + '/api/v1/snapshots?name=grown.pickle', {method: 'POST', body: await readFile(grown), headers: {'Content-Type': 'application/octet-stream'}})).json();
    console.log(`        ${(size / 1e6).toFixed(0)} MB sent and read by the service in ${Date.now() - sent} ms`);
    const began = Date.now();
    await page.goto(service.base + '/snapshots/' + answer.id);
    await page.waitForSelector('.uplot canvas');
    await page.waitForFunction(() => document.querySelectorAll('canvas.canvas').length === 2);
    const took = Date.now() - began;
    console.log(`        analysis shown after ${took} ms`);
    const measured = await frames(page, 120, (i) => {
      const over = document.querySelector('.u-over'), at = over.getBoundingClientRect();
      over.dispatchEvent(new MouseEvent('mousemove', {clientX: at.left + at.width * (i + 1) / 122, clientY: at.top + 50, bubbles: true}));
    });
    assert.ok(measured.work < kWork, `${measured.work} ms of the main thread a frame`);
    assert.ok(took < (large ? 2000 : 10000), `${took} ms`);   // limit: moderate sizes run beside other tests
    await shot(page, 'grown', true);
    await unlink(grown);
  });
}
