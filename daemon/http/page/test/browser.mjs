// The page in Chromium against the real service: node test/browser.mjs TRIAGE RECORDED --snapshot FILE [--shots FOLDER] [--only NAME] [--large FOLDER]
// Exit status 77: Chromium is not there. --large: the sizes of a big cluster instead of moderate ones, with files made in FOLDER.
import assert from 'node:assert/strict';
import {copyFile, mkdir, readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {fitsWidth, option, outline, startBrowser} from './harness.mjs';
import {sizes} from './sizes.mjs';
import {incidentsOf, startService} from './service.mjs';

const [triage, recorded] = process.argv.slice(2);
const snapshot = option('snapshot'), large = option('large');
const chromium = await startBrowser(), {test, accessible, shot} = chromium;
const service = await startService(triage, Object.fromEntries(['ranks-oom', 'fragmentation', 'megatron-oom-dense-forward', 'other_process'].map((n) => [n + '.log', join(recorded, n + '.log')])));
const rows = await incidentsOf(service.base, 4);
const byLog = (name) => rows.find((r) => r.source.includes(name));
const open = (page, path) => page.goto(service.base + path);
const incident = (page, name) => open(page, '/incidents/' + byLog(name).id);

await test('the list shows all incidents, with filters and search', async (page) => {
  await open(page, '/');
  await page.waitForSelector('a.row');
  assert.equal(await page.locator('a.row').count(), rows.length);
  await page.getByLabel('Kind').fill('gpu.oom.fragmentation');
  await page.waitForFunction(() => document.querySelectorAll('a.row').length === 1);
  assert.match(page.url(), /kind=gpu\.oom\.fragmentation/);
  await page.getByRole('button', {name: 'Clear'}).click();
  await page.waitForFunction((n) => document.querySelectorAll('a.row').length === n, rows.length);
  await page.getByLabel('Search').fill('ranks-oom');
  await page.waitForFunction(() => document.querySelectorAll('a.row').length === 1);
  assert.match(await page.locator('a.row time').first().getAttribute('title'), /UTC$/);
  await page.getByLabel('Search').fill('<nothing like it>');
  await page.waitForSelector('text=No incident matches.');
});

// Each view in both themes, on a telephone and on a wide screen: the same outline, nothing sticks out, no finding of axe-core.
let answer = null;
if (snapshot) answer = await (await fetch(`${service.base}/api/v1/snapshots?name=a.pickle`, {method: 'POST', body: await readFile(snapshot), headers: {'Content-Type': 'application/octet-stream'}})).json();
const views = [
  ['list', '/', 'a.row', ['columns', 'rows', 'h2 nodes that recur']],
  ['incident', '/incidents/' + byLog('megatron-oom').id, '.line.root', ['h1 gpu.oom.capacity the gpu memory is full', 'h2 what', 'h2 where', 'h2 why', 'h2 where the memory went', 'stack', 'h2 what fills it', 'stack', 'h2 fixes', 'h2 evidence', 'lines',
                                                                        'h2 ranks', 'graph', 'h2 to be surer next time', 'h2 was this right?']],
  ['planner', '/plan?incident=' + byLog('megatron-oom').id + '&pipeline_parallel=2', '.stack', ['h1 planner', 'h2 stages', 'table', 'h2 ledger of stage 0', 'stack', 'h2 what each change saves', 'table']],
  ...(answer ? [['snapshot', '/snapshots/' + answer.id, '.uplot canvas', ['h1 a.pickle', 'h2 what filled it when the allocation failed', 'stack', 'h2 memory over time', 'graph', 'h2 by call stack', 'graph', 'h2 segments', 'graph',
                                                                          'h2 what if: replay under other settings']]] : [])];
for (const [name, path, ready, want] of views)
  for (const colorScheme of ['light', 'dark'])
    for (const width of [360, 1400])
      await test(`${name}, ${colorScheme}, ${width} px`, async (page) => {
        await open(page, path);
        await page.waitForSelector(ready);
        if (name === 'list') await page.waitForSelector('.column');
        await page.waitForTimeout(50);   // limit: graphs are drawn in the frame after their place is there
        assert.deepEqual((await outline(page)).filter((x) => name !== 'snapshot' || x !== 'table'), want);
        assert.ok(await fitsWidth(page), 'something sticks out');
        await shot(page, `${name}-${colorScheme}-${width}`, name !== 'list');
        if ((colorScheme === 'dark') === (width === 360)) await accessible(page, name);   // both themes and both widths; all four would say the same
      }, {colorScheme, viewport: {width, height: 900}});

await test('an incident says what, where, why and how to mend it, and shows the line in its place', async (page) => {
  const row = byLog('ranks-oom');
  await open(page, '/');
  await page.locator('a.row', {hasText: row.summary.slice(0, 30)}).first().click();
  await page.waitForSelector('.line.root');
  assert.match(await page.locator('.summary').innerText(), /Rank 2 asked for 128\.00 GiB/);
  assert.match(await page.locator('.facts').innerText(), /rank\s+2/);
  assert.match(await page.locator('.line.root').innerText(), /CUDA out of memory/);
  assert.match(await page.locator('.stack').first().innerText(), /GiB/);
  assert.ok((await page.locator('.fixes > li').count()) > 0);
  // The log names no training program: one form of each setting is shown, the others are folded.
  assert.equal(await page.locator('.fixes > li').first().locator('.apply').locator('visible=true').count(), 1);
  await page.locator('.others summary').first().click();
  assert.ok((await page.locator('.fixes > li').first().locator('.apply').locator('visible=true').count()) > 1);
  const places = page.getByRole('group', {name: 'Places in the logs'}).getByRole('button');
  assert.match((await places.allInnerTexts()).join('; '), /rank 2.*peer_closed, rank 1.*peer_closed, rank 3/);
  await places.nth(2).click();
  await page.waitForFunction(() => [...document.querySelectorAll('.line.echo')].some((e) => e.innerText.includes('rank3')));
  assert.ok(await page.locator('canvas.ranks').isVisible());
  await shot(page, 'ranks-oom', true);
});
await test('two fixes stand side by side', async (page) => {
  await incident(page, 'megatron-oom');
  for (const i of [0, 1]) {
    await page.locator('.fixes > li').nth(i).getByText('Why, and what it rests on').click();
    await page.locator('.fixes > li').nth(i).getByRole('checkbox').check();
  }
  assert.match(await page.locator('table.compare').innerText(), /peak[\s\S]*GiB[\s\S]*GiB[\s\S]*cost/);
});
await test('flags are copied as they are, and the whole as Markdown', async (page) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], {origin: service.base});
  await incident(page, 'megatron-oom');
  const flag = await page.locator('.fixes .apply code').first().innerText();
  await page.locator('.fixes .apply button').first().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), flag);
  await page.getByRole('button', {name: 'Copy as Markdown'}).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^## gpu\.oom.*\n[\s\S]*### Fixes/);
});
await test('the keyboard alone goes from the list to an incident and through its log', async (page) => {
  await open(page, '/');
  await page.waitForSelector('a.row');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement.matches('a.row'))); ++i) await page.keyboard.press('Tab');
  const first = await page.evaluate(() => document.activeElement.getAttribute('href'));
  await page.keyboard.press('ArrowDown');
  const second = await page.evaluate(() => document.activeElement.getAttribute('href'));
  assert.ok(second && second !== first);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.line.root');
  assert.ok(page.url().endsWith(second));
  await page.locator('.lines').focus();
  const before = await page.evaluate(() => document.querySelector('.lines').scrollTop);
  await page.keyboard.press('PageUp');
  await page.waitForFunction((b) => document.querySelector('.lines').scrollTop < b || b === 0, before);
  await page.goBack();
  await page.waitForSelector('a.row');
});
await test('feedback is kept', async (page) => {
  const id = byLog('fragmentation').id;
  await open(page, '/incidents/' + id);
  await page.locator('section[aria-labelledby=verdict] input').fill('<b>true</b>');
  await page.locator('section[aria-labelledby=verdict]').getByRole('button', {name: 'Right'}).click();
  await page.waitForSelector('text=Said to be right');
  const detail = await (await fetch(`${service.base}/api/v1/incidents/${id}`)).json();
  assert.equal(detail.feedback[0].helped, true);
  assert.equal(detail.feedback[0].note, '<b>true</b>');
});
await test('a silence is made', async (page) => {
  await incident(page, 'other_process');
  await page.getByRole('button', {name: 'Silence', exact: true}).click();
  await page.getByLabel('Reason').fill('known');
  await page.locator('form.silence').getByRole('button', {name: 'Silence'}).click();
  await page.waitForSelector('text=No alerts for it until');
  const {silences} = await (await fetch(service.base + '/api/v1/silences')).json();
  assert.equal(silences.length, 1);
});
await test('a new incident appears by itself', async (page) => {
  await open(page, '/');
  await page.waitForSelector('.live.on');
  await page.waitForSelector('a.row');
  const before = await page.locator('a.row').count();
  await writeFile(join(service.logs, 'late.log'), await readFile(join(recorded, 'cupy_oom.log')));
  await page.waitForFunction((n) => document.querySelectorAll('a.row').length > n, before);
});
await test('the GPU that recurs stands beside its node, and a click shows its incidents', async (page) => {
  // Three jobs die on GPU 0 of gpu-07, two on different GPUs of gpu-08: there no GPU is named.
  const text = await readFile(join(recorded, 'capacity_forward.log'), 'utf8');
  for (const [job, node, device] of [['a', 'gpu-07', 0], ['b', 'gpu-07', 0], ['c', 'gpu-07', 0], ['d', 'gpu-08', 1], ['e', 'gpu-08', 2]]) {
    await mkdir(join(service.jobs, job, node), {recursive: true});
    await writeFile(join(service.jobs, job, node, `rank${device}.log`), text.replaceAll('GPU 0 has', `GPU ${device} has`));
  }
  await open(page, '/');
  const nodes = page.locator('.nodes button');
  await page.waitForFunction(() => [...document.querySelectorAll('.nodes .num')].map((e) => e.innerText).join() === '3,2');
  assert.deepEqual(await nodes.locator('b').allInnerTexts(), ['gpu-07 GPU 0', 'gpu-08']);
  assert.match(await nodes.first().innerText(), /3 jobs, mostly gpu\.oom\.capacity/);
  await accessible(page, 'nodes');
  await shot(page, 'nodes');
  await nodes.first().click();
  await page.waitForFunction(() => document.querySelectorAll('a.row').length === 3);
  assert.match(page.url(), /node=gpu-07/);
  assert.equal(await nodes.first().getAttribute('aria-pressed'), 'true');
});
await test('an incident of a pipeline shows what each stage needs', async (page) => {
  // The arguments as Megatron prints them, of the same run on four stages of as many layers.
  const text = await readFile(join(recorded, 'megatron-oom-dense-forward.log'), 'utf8');
  const set = (log, name, value) => { const place = new RegExp(`^(.*?\\b${name}[ :.]+)\\d+`, 'm'); assert.match(log, place); return log.replace(place, `$1${value}`); };
  const changes = {'data-parallel size': 2, 'pipeline-model-parallel size': 4, 'pipeline model parallel with size': 4, data_parallel_size: 2, pipeline_model_parallel_size: 4, transformer_pipeline_model_parallel_size: 4,
                   num_layers: 96, encoder_num_layers: 96, 'number of microbatches to constant': 4, 'model parallel rank \\(0, 0, 0\\)': 5760024576};   // the first stage has no output layer
  await writeFile(join(service.logs, 'pipeline.log'), Object.entries(changes).reduce((log, [name, value]) => set(log, name, value), text));
  let row = null;
  for (let i = 0; i < 200 && !row; ++i) {
    row = (await (await fetch(service.base + '/api/v1/incidents')).json()).incidents.find((r) => r.source.endsWith('pipeline.log'));
    await new Promise((r) => setTimeout(r, 100));
  }
  await open(page, '/incidents/' + row.id);
  const bars = page.locator('section[aria-labelledby=stages] .row2');
  await bars.nth(3).waitFor();
  assert.equal(await bars.count(), 4);
  assert.match(await bars.first().getAttribute('aria-label'), /^stage 0, 24 layers, peak in \w+: .*activations [\d.]+ GiB/);
  const sizes = (await bars.locator('.num').allInnerTexts()).map(parseFloat);
  assert.ok(sizes[0] > sizes[1] && sizes[1] > sizes[2], `the first stage holds most layers in flight: ${sizes}`);
  assert.ok(await fitsWidth(page));
  await accessible(page, 'stages');
  await shot(page, 'stages', true);
});
await test('an upload opens its incident', async (page) => {
  await open(page, '/');
  await page.locator('#files').setInputFiles(join(recorded, 'model_load.log'));
  await page.waitForURL(/\/incidents\//);
  await page.waitForSelector('.summary');
  await page.waitForSelector('.line.root');   // the file is gone; the lines around what was found in it are kept
  assert.ok((await page.locator('.line').count()) > 5);
  await shot(page, 'upload', true);
});
await test('several files are judged together', async (page) => {
  await open(page, '/');
  await page.locator('#files').setInputFiles([join(recorded, 'device_assert.log'), join(recorded, 'ok_train.log')]);
  await page.waitForSelector('.upload a, .summary');
});
await test('a folder dropped onto the page is judged as one job', async (page) => {
  const folder = join(service.folder, 'job 7');
  await mkdir(join(folder, 'attempt_0'), {recursive: true});
  await copyFile(join(recorded, 'capacity_forward.log'), join(folder, 'attempt_0', 'rank0.log'));
  await copyFile(join(recorded, 'ok_train.log'), join(folder, 'attempt_0', 'rank1.log'));
  await open(page, '/');
  await page.waitForSelector('a.row');
  const session = await page.context().newCDPSession(page);
  for (const type of ['dragEnter', 'dragOver', 'drop'])
    await session.send('Input.dispatchDragEvent', {type, x: 400, y: 400, data: {items: [], files: [folder], dragOperationsMask: 1}});
  await page.waitForURL(/\/incidents\//);
  await page.waitForSelector('.summary');
  assert.match(await page.locator('main').innerText(), /rank0\.log/);
  await page.waitForSelector('.line.root');
});
await test('what is no log is told in words', async (page) => {
  await open(page, '/');
  await page.locator('#files').setInputFiles({name: 'weights.bin', mimeType: 'application/octet-stream', buffer: Buffer.from(Array.from({length: 5000}, (_, i) => i * 7 % 256))});
  await page.waitForSelector('.upload .warn, .upload p:has-text("No failure")');
});
await test('text from logs stays text', async (page) => {
  const evil = '<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31mred\x1b]0;title\x07 \u202egnp.exe\u202c &amp; javascript:alert(3)';
  const text = `2026-12-01 10:00:00 start ${evil}\nTraceback (most recent call last):\n  File "/t/${'<script>alert(4)</script>'}.py", line 3, in <module>\n    main()\n` +
    `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 76.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated. ${evil}\n${evil}\n`;
  await writeFile(join(service.logs, 'evil <b>x.log'), text);
  let row;
  for (let i = 0; i < 200 && !row; ++i) {
    row = (await (await fetch(service.base + '/api/v1/incidents')).json()).incidents.find((r) => r.source.includes('evil'));
    await new Promise((r) => setTimeout(r, 100));
  }
  assert.ok(row, 'the incident of the hostile log');
  await open(page, '/');
  await page.waitForSelector('a.row');
  await open(page, '/incidents/' + row.id);
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
for (const width of [360, 1400])
  await test(`hostile names and endless words stay text, ${width} px`, async (page) => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], {origin: service.base});
    const job = `<img src=x onerror=alert(1)> @all ${'J'.repeat(200)}`, node = `<b>\u202e#7 ${'n'.repeat(200)}`, word = '<i>\x1b[31m\u202e' + 'W'.repeat(10000);
    const folder = join(service.jobs, job, node), text = await readFile(join(recorded, 'capacity_forward.log'), 'utf8');
    await mkdir(folder, {recursive: true});
    await writeFile(join(folder, 'rank3.log'), `${word}\n${text.replace('torch.OutOfMemoryError', word + ' torch.OutOfMemoryError')}${word}\n`);
    let row = null;
    for (let i = 0; i < 200 && !row; ++i) {
      row = (await (await fetch(service.base + '/api/v1/incidents')).json()).incidents.find((r) => r.job === job);
      await new Promise((r) => setTimeout(r, 100));
    }
    const sound = () => page.evaluate(() => {
      const steers = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/, said = [...document.querySelectorAll('*')].flatMap((e) => [...e.attributes].map((a) => a.value));
      return {images: document.images.length, scripts: document.scripts.length, marks: document.querySelectorAll('main i i, main bdi *, main code b').length,
              steers: steers.test(document.body.innerText) || said.some((t) => steers.test(t)), wide: document.documentElement.scrollWidth > innerWidth};
    });
    const fine = {images: 0, scripts: 1, marks: 0, steers: false, wide: false};
    await open(page, '/?text=rank3');
    await page.waitForSelector('a.row');
    await page.waitForSelector('.nodes button');
    assert.match(await page.locator('a.row .where').first().innerText(), /^<img .*\u2026J+ <b><U\+202E>#7 n+\u2026n+ rank 3$/);
    assert.deepEqual(await sound(), fine);
    await open(page, '/incidents/' + row.id);
    await page.waitForSelector('.line.root');
    await page.getByRole('button', {name: 'Silence', exact: true}).click();
    for (const d of await page.locator('details').all()) await d.evaluate((e) => { e.open = true; });
    assert.deepEqual(await sound(), fine);
    await page.getByRole('button', {name: 'Copy as Markdown'}).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(copied.includes('\\<img src=x onerror=alert(1)\\> @\u200ball'), 'a name that calls nobody');
    assert.ok(!copied.includes('@all') && !copied.includes('#7'));
    await accessible(page, 'hostile names');
    await shot(page, 'hostile-names-' + width, true);
  }, {viewport: {width, height: 900}});
await test('the planner follows its knobs, and its link opens the same plan', async (page) => {
  await open(page, '/plan?incident=' + byLog('megatron-oom').id);
  await page.waitForSelector('.stack');
  const before = await page.locator('.verdict-line').innerText();
  assert.match(before, /Does not fit/);
  await page.getByLabel('micro_batch', {exact: true}).fill('1');
  await page.waitForFunction((t) => document.querySelector('.verdict-line').innerText !== t, before);
  const after = await page.locator('.verdict-line').innerText();
  assert.match(after, /^Fits/);
  assert.match(page.url(), /micro_batch=1/);
  await page.getByLabel('list the layouts that fit').check();
  await page.waitForSelector('#layouts');
  assert.ok((await page.locator('section[aria-labelledby=layouts] tr').count()) > 0);
  await shot(page, 'planner-layouts', true);
  await open(page, new URL(page.url()).pathname + new URL(page.url()).search);
  await page.waitForSelector('.verdict-line');
  assert.equal(await page.locator('.verdict-line').innerText(), after);
});
if (snapshot) await test('a snapshot that is uploaded opens with its graphs, zooms, and is replayed', async (page) => {
  await open(page, '/');
  await page.locator('#files').setInputFiles(snapshot);
  await page.waitForURL(/\/snapshots\//);
  await page.waitForSelector('.uplot canvas');
  await page.getByRole('button', {name: /^logits/}).click();
  assert.match(await page.locator('.tip').first().innerText(), /^logits: 64\.00 GiB/);
  await page.getByRole('button', {name: 'up', exact: true}).click();
  await page.getByRole('button', {name: 'Replay', exact: true}).click();
  await page.waitForSelector('section[aria-labelledby=whatif] table, section[aria-labelledby=whatif] .warn');
});
await sizes({chromium, service, rows, recorded, snapshot, large});

const failed = await chromium.end();
await service.stop();
process.exit(failed ? 1 : 0);
