// The page in Chromium against the real service: node test/browser.mjs TRIAGE RECORDED [--shots FOLDER]
// Exit status 77: Chromium is not there.
import {chromium} from 'playwright-core';
import assert from 'node:assert/strict';
import {existsSync} from 'node:fs';
import {mkdir, readFile, writeFile} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {incidentsOf, startService} from './service.mjs';

const [triage, recorded] = process.argv.slice(2);
const shots = process.argv.includes('--shots') ? process.argv[process.argv.indexOf('--shots') + 1] : '';
const program = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
if (!program) { console.log('skipped: Chromium is not installed'); process.exit(77); }
if (shots) await mkdir(shots, {recursive: true});

const service = await startService(triage, Object.fromEntries(['ranks-oom', 'fragmentation', 'megatron-oom-dense-forward', 'other_process'].map((n) => [n + '.log', join(recorded, n + '.log')])));
const browser = await chromium.launch({executablePath: program, args: ['--no-sandbox', '--disable-gpu']});
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let passed = 0, failed = 0;

async function fresh(options = {}) {
  const context = await browser.newContext({viewport: {width: 1400, height: 900}, timezoneId: 'Europe/Berlin', ...options});
  const page = await context.newPage();
  page.setDefaultTimeout(10000);
  page.faults = [];
  page.on('pageerror', (e) => page.faults.push(String(e)));
  page.on('console', (m) => { if (m.type() === 'error' && !/status of 4\d\d/.test(m.text())) page.faults.push(m.text()); });
  page.on('dialog', (d) => { page.faults.push('dialog: ' + d.message()); d.dismiss(); });
  return page;
}
async function test(name, body, options) {
  const began = Date.now(), page = await fresh(options);
  try {
    await body(page);
    assert.deepEqual(page.faults, [], 'errors of the page');
    ++passed;
    console.log(`ok      ${name} (${Date.now() - began} ms)`);
  } catch (e) {
    ++failed;
    console.log(`FAILED  ${name}: ${e.stack ?? e}`);
    if (shots) await page.screenshot({path: join(shots, 'failed-' + failed + '.png')}).catch(() => {});
  }
  await page.context().close();
}
async function accessible(page, where) {
  // The policy allows no foreign script in the page, the debugger's way in is not bound by it.
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, {resultTypes: ['violations']}));
  const bad = found.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
  assert.deepEqual(bad.map((v) => `${where}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`), []);
}
const shot = async (page, name, whole = false) => { if (shots) await page.screenshot({path: join(shots, name + '.png'), fullPage: whole}); };
const narrow = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

const rows = await incidentsOf(service.base, 4);
const byLog = (name) => rows.find((r) => r.source.includes(name));

await test('the list shows all incidents, with filters and search', async (page) => {
  await page.goto(service.base + '/');
  await page.waitForSelector('a.row');
  assert.equal(await page.locator('a.row').count(), rows.length);
  await page.getByLabel('Kind').fill('gpu.oom.fragmentation');
  await page.waitForFunction(() => document.querySelectorAll('a.row').length === 1);
  assert.match(page.url(), /kind=gpu\.oom\.fragmentation/);
  await page.getByRole('button', {name: 'Clear'}).click();
  await page.waitForFunction((n) => document.querySelectorAll('a.row').length === n, rows.length);
  await page.getByLabel('Search').fill('ranks-oom');
  await page.waitForFunction(() => document.querySelectorAll('a.row').length === 1);
  const hover = await page.locator('a.row time').first().getAttribute('title');
  assert.match(hover, /UTC$/);
});
for (const theme of ['light', 'dark'])
  for (const width of [360, 1400])
    await test(`list and incident, ${theme}, ${width} px: nothing sticks out, axe finds nothing serious`, async (page) => {
      await page.goto(service.base + '/');
      await page.waitForSelector('a.row');
      await page.waitForSelector('.chart');
      assert.ok(await narrow(page), 'the list sticks out');
      await accessible(page, 'list');
      await shot(page, `list-${theme}-${width}`);
      await page.goto(service.base + '/incidents/' + byLog('megatron-oom').id);
      await page.waitForSelector('.line.root');
      assert.ok(await narrow(page), 'the incident sticks out');
      await accessible(page, 'incident');
      await shot(page, `incident-${theme}-${width}`, true);
    }, {colorScheme: theme, viewport: {width, height: 900}});
await test('an incident says what, where, why and how to mend it, and shows the line in its place', async (page) => {
  const row = byLog('ranks-oom');
  await page.goto(service.base + '/');
  await page.locator('a.row', {hasText: row.summary.slice(0, 30)}).first().click();
  await page.waitForSelector('.line.root');
  assert.match(await page.locator('.summary').innerText(), /Rank 2 asked for 128\.00 GiB/);
  assert.match(await page.locator('.facts').innerText(), /rank\s+2/);
  assert.match(await page.locator('.line.root').innerText(), /CUDA out of memory/);
  assert.ok((await page.locator('.fixes > li').count()) > 0);
  assert.match(await page.locator('#ledger + *, .stack').first().innerText(), /GiB/);
  await page.getByRole('group', {name: 'Places in the logs'}).getByRole('button').nth(1).click();
  await page.waitForSelector('.line.echo');
  assert.ok(await page.locator('canvas.ranks').isVisible());
  await shot(page, 'ranks-oom', true);
});
await test('flags are copied as they are, and the whole as Markdown', async (page) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], {origin: service.base});
  await page.goto(service.base + '/incidents/' + byLog('megatron-oom').id);
  const flag = await page.locator('.fixes .apply code').first().innerText();
  await page.locator('.fixes .apply button').first().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), flag);
  await page.getByRole('button', {name: 'Copy as Markdown'}).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^## gpu\.oom.*\n[\s\S]*### Fixes/);
});
await test('feedback is kept', async (page) => {
  const id = byLog('fragmentation').id;
  await page.goto(service.base + '/incidents/' + id);
  await page.locator('section[aria-labelledby=verdict] input').fill('<b>true</b>');
  await page.locator('section[aria-labelledby=verdict]').getByRole('button', {name: 'Right'}).click();
  await page.waitForSelector('text=Said to be right');
  const detail = await (await fetch(`${service.base}/api/v1/incidents/${id}`)).json();
  assert.equal(detail.feedback[0].helped, true);
  assert.equal(detail.feedback[0].note, '<b>true</b>');
});
await test('a silence is made', async (page) => {
  await page.goto(service.base + '/incidents/' + byLog('other_process').id);
  await page.getByRole('button', {name: 'Silence', exact: true}).click();
  await page.getByLabel('Reason').fill('known');
  await page.locator('form.silence').getByRole('button', {name: 'Silence'}).click();
  await page.waitForSelector('text=No alerts for it until');
  const {silences} = await (await fetch(service.base + '/api/v1/silences')).json();
  assert.equal(silences.length, 1);
});
await test('a new incident appears by itself', async (page) => {
  await page.goto(service.base + '/');
  await page.waitForSelector('.live.on');
  await page.waitForSelector('a.row');
  const before = await page.locator('a.row').count();
  await writeFile(join(service.logs, 'late.log'), await readFile(join(recorded, 'cupy_oom.log')));
  await page.waitForFunction((n) => document.querySelectorAll('a.row').length > n, before);
});
await test('an upload opens its incident', async (page) => {
  await page.goto(service.base + '/');
  await page.locator('#files').setInputFiles(join(recorded, 'model_load.log'));
  await page.waitForURL(/\/incidents\//);
  await page.waitForSelector('.summary');
});
await test('several files dropped are judged together, with progress', async (page) => {
  await page.goto(service.base + '/');
  await page.locator('#files').setInputFiles([join(recorded, 'device_assert.log'), join(recorded, 'ok_train.log')]);
  await page.waitForSelector('.upload a, .summary');
});
await test('text from logs stays text', async (page) => {
  const evil = '<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31mred\x1b]0;title\x07 \u202egnp.exe\u202c &amp; javascript:alert(3)';
  const text = `2026-12-01 10:00:00 start ${evil}\nTraceback (most recent call last):\n  File "/t/${'<script>alert(4)</script>'}.py", line 3, in <module>\n    main()\n` +
    `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 76.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated. ${evil}\n${evil}\n`;
  await writeFile(join(service.logs, 'evil <b>x.log'), text);
  let row;
  for (let i = 0; i < 100 && !row; ++i) {
    row = (await (await fetch(service.base + '/api/v1/incidents')).json()).incidents.find((r) => r.source.includes('evil'));
    await new Promise((r) => setTimeout(r, 100));
  }
  assert.ok(row, 'the incident of the hostile log');
  await page.goto(service.base + '/');
  await page.waitForSelector('a.row');
  await page.goto(service.base + '/incidents/' + row.id);
  await page.waitForSelector('.line.root');
  for (const d of await page.locator('details').all()) await d.evaluate((e) => { e.open = true; });
  const facts = await page.evaluate(() => ({images: document.images.length, scripts: document.scripts.length, text: document.body.innerText, links: [...document.links].map((a) => a.protocol), title: document.title}));
  assert.equal(facts.images, 0);
  assert.equal(facts.scripts, 1);
  assert.ok(facts.text.includes('<img src=x onerror=alert(1)>'));
  assert.ok(facts.text.includes('<U+202E>') && !facts.text.includes('\u202e'));
  assert.ok(facts.text.includes('\u241b[31m') && !facts.text.includes('\x1b'));
  assert.ok(facts.links.every((p) => p === 'http:'));
  await shot(page, 'hostile', true);
});
await test('the planner follows its knobs', async (page) => {
  await page.goto(service.base + '/plan?incident=' + byLog('megatron-oom').id);
  await page.waitForSelector('.stack');
  const before = await page.locator('.verdict-line').innerText();
  await page.getByLabel('micro_batch', {exact: true}).fill('1');
  await page.waitForFunction((t) => document.querySelector('.verdict-line').innerText !== t, before);
  assert.match(page.url(), /micro_batch=1/);
  await accessible(page, 'planner');
  await shot(page, 'planner', true);
});
const snapshot = process.argv.includes('--snapshot') ? process.argv[process.argv.indexOf('--snapshot') + 1] : '';
if (snapshot) await test('a snapshot opens with its graphs', async (page) => {
  await page.goto(service.base + '/');
  await page.locator('#files').setInputFiles(snapshot);
  await page.waitForURL(/\/snapshots\//);
  await page.waitForSelector('.uplot canvas');
  await accessible(page, 'snapshot');
  await shot(page, 'snapshot', true);
});
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
  const frames = await page.evaluate(async () => {
    const box = document.querySelector('.rows'), times = [];
    let last = performance.now();
    for (let i = 0; i < 1500 && box.scrollTop < 4900 * 48; ++i) {
      box.scrollTop += 400;
      await new Promise((r) => requestAnimationFrame(r));
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    times.sort((a, b) => a - b);
    return {frames: times.length, median: times[Math.floor(times.length / 2)], p95: times[Math.floor(times.length * .95)], rows: document.querySelectorAll('a.row').length, at: box.scrollTop};
  });
  console.log(`        frames ${frames.frames}, median ${frames.median.toFixed(1)} ms, 95 % ${frames.p95.toFixed(1)} ms, rows in the page ${frames.rows}`);
  assert.ok(frames.at > 4000 * 48, 'the end is reached');
  assert.ok(frames.rows < 80);
  assert.ok(frames.median < 50, 'median frame');
});

await browser.close();
await service.stop();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
