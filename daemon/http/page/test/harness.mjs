// What the tests in Chromium share: pages that note their faults, axe-core, outlines, frame times, screenshots.
import {chromium} from 'playwright-core';
import assert from 'node:assert/strict';
import {existsSync} from 'node:fs';
import {mkdir, readFile} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {join} from 'node:path';

/** Value of an option on the command line; empty when it is not given. */
export function option(name) {
  const at = process.argv.indexOf('--' + name);
  return at > 0 ? process.argv[at + 1] : '';
}

export async function startBrowser() {
  const program = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
  if (!program) { console.log('skipped: Chromium is not installed'); process.exit(77); }
  const shots = option('shots'), only = option('only');
  if (shots) await mkdir(shots, {recursive: true});
  const browser = await chromium.launch({executablePath: program, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
  const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  let passed = 0, failed = 0;

  async function fresh(options) {
    const context = await browser.newContext({viewport: {width: 1400, height: 900}, timezoneId: 'Europe/Berlin', ...options});
    const page = await context.newPage();
    page.setDefaultTimeout(20000);
    page.faults = [];
    page.on('pageerror', (e) => page.faults.push(String(e)));
    page.on('console', (m) => { if (m.type() === 'error' && !/status of [45]\d\d/.test(m.text())) page.faults.push(m.text()); });
    page.on('dialog', (d) => { page.faults.push('dialog: ' + d.message()); d.dismiss(); });
    return page;
  }
  return {
    shots,
    /** Runs one test in a page of its own; an error that the page reports fails it. */
    async test(name, body, options = {}) {
      if (only && !name.includes(only)) return;
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
    },
    /** No finding of axe-core that is serious or critical. The policy allows no foreign script in the page; the debugger's way in is not bound by it. */
    async accessible(page, where) {
      await page.evaluate(axe);
      const found = await page.evaluate(() => globalThis.axe.run(document, {resultTypes: ['violations']}));
      const bad = found.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
      assert.deepEqual(bad.map((v) => `${where}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`), []);
    },
    shot: async (page, name, whole = false) => { if (shots) await page.screenshot({path: join(shots, name + '.png'), fullPage: whole}); },
    async end() {
      await browser.close();
      console.log(`${passed} passed, ${failed} failed`);
      return failed;
    },
  };
}

/** What a screenshot has to show, in order: headings, tables, graphs (a canvas that is drawn on), bars, log views. Equal in each theme and width. */
export const outline = (page) => page.evaluate(() => [...document.querySelectorAll('main h1:not(.hide), main h2, main table, main canvas, main .stack, main .lines, main .rows, main .columns')]
  .filter((e) => e.checkVisibility?.() ?? true).map((e) => {
    if (e.matches('h1, h2')) return e.tagName.toLowerCase() + ' ' + e.innerText.replace(/\s+/g, ' ').toLowerCase();
    if (e.matches('canvas')) {
      const data = e.getContext('2d').getImageData(0, 0, e.width, e.height).data, seen = new Set();
      for (let i = 0; i < data.length; i += 4 * 97) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
      return seen.size > 1 ? 'graph' : 'empty graph';
    }
    return e.matches('table') ? 'table' : e.classList[0];
  }));

/** The page is as wide as its window. */
export const fitsWidth = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

/**
 * Does `step` (in the page, with the number of the frame) once a frame. Returns ms a frame: by the clock, and of processor time of the page's
 * main thread, which does not depend on what else the machine does.
 */
export async function frames(page, count, step) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', {timeDomain: 'threadTicks'});
  const busy = async () => (await session.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration').value * 1000;
  const before = await busy();
  const times = await page.evaluate(`(async () => {
    const step = ${step}, out = [];
    let last = performance.now();
    for (let i = 0; i < ${count}; ++i) {
      if (step(i) === false) break;
      await new Promise((r) => requestAnimationFrame(r));
      const now = performance.now();
      out.push(now - last);
      last = now;
    }
    return out;
  })()`);
  const work = (await busy() - before) / Math.max(1, times.length);
  await session.detach();
  times.sort((a, b) => a - b);
  const out = {frames: times.length, median: times[times.length >> 1], p95: times[Math.floor(times.length * .95)], work};
  console.log(`        ${out.frames} frames: median ${out.median.toFixed(1)} ms, 95 % ${out.p95.toFixed(1)} ms; main thread ${work.toFixed(1)} ms a frame`);
  return out;
}
