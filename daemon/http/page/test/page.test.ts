import {describe, expect, it} from 'vitest';
import {eventCutter, problemOf, url} from '../src/api';
import {ago, bytes, family, namedRanks, ranges, shortPath, telling, utcTime, visible} from '../src/format';
import {codeBlock, escapeText, markdown} from '../src/markdown';
import {numbered} from '../src/logview';
import {tarOf} from '../src/tar';
import {oneOf, rankStates} from '../src/ranks';
import {costText, peakBefore, settingsOf} from '../src/fixes';
import {echoPlaces, ledgerParts} from '../src/incident';
import {filterQuery, readFilter} from '../src/list';
import {knobsOf, planQuery} from '../src/planner';

const answer = (more: object = {}): any => ({id: 'a', fingerprint: 'v1:1', kind: 'gpu.oom.capacity', summary: 'Rank 2 *asked*', job: null, attempt: 1, framework: [], phase: 'forward', confidence: .98,
  reasons: ['full'], root: {source: 'a_b.log', line: 3, offset: 0, text: 'x ``` y', rank: 2, node: null, device: 0, step: 4, frames: []}, echoes: [{kind: 'dist.peer_closed', count: 2, ranks: [1, 3], source: null, first_line: 9}],
  ledger: null, collective: null, composition: [], config: {}, fixes: [], missing: [], findings: [], ...more});

describe('format', () => {
  it('shows bytes in GiB, small ones smaller, none as unknown', () => {
    for (const [count, text] of [[2147483648, '2.00 GiB'], [74186752, '70.8 MiB'], [2048, '2.0 KiB'], [12, '12 B'], [0, '0 B'], [null, 'unknown']] as const) expect(bytes(count)).toBe(text);
  });
  it('joins ranks to ranges', () => { expect(ranges([3, 1, 2, 7, 7, 9, 10])).toBe('1-3, 7, 9-10'); expect(ranges([])).toBe(''); });
  it('names ranks, of many the first ones whole', () => {
    for (const [list, most, text] of [[[2], 60, 'rank 2'], [[0, 1, 3], 60, 'ranks 0-1, 3'], [[100, 102, 104, 106], 9, 'ranks 100, 102 and 2 more'], [[100, 101, 104, 106], 12, 'ranks 100-101, 104 and 1 more'], [[1000, 1002], 2, 'ranks 1000 and 1 more']] as const)
      expect(namedRanks([...list], most)).toBe(text);
  });
  it('makes what steers a terminal or the direction of reading visible', () => {
    expect(visible('a\x1b[31mb\u202ec\x07\u009bd\te')).toBe('a\u241b[31mb<U+202E>c\u2407<U+009B>d\te');
  });
  it('shortens paths, and long lines to what they tell', () => {
    expect(shortPath('/data/logs/job 7/rank0.log')).toBe('\u2026/job 7/rank0.log');
    expect(shortPath('/rank0.log')).toBe('/rank0.log');
    expect(shortPath('llama-70b')).toBe('llama-70b');
    expect(shortPath('/a/' + 'J'.repeat(90) + '/' + 'K'.repeat(90))).toBe('\u2026/' + 'J'.repeat(28) + '\u2026' + 'K'.repeat(30));
    expect(telling('short: CUDA out of memory')).toEqual({text: 'short: CUDA out of memory', cut: false});
    const long = telling('x'.repeat(3000) + 'ValueError: a; torch.OutOfMemoryError: CUDA out of memory. Tried' + ' y'.repeat(900));
    expect(long.text).toMatch(/^\u2026 torch\.OutOfMemoryError: CUDA out of memory\. Tried y.* \u2026$/);
    expect(long.text.length).toBeLessThan(1210);
    expect(telling('x'.repeat(3000) + ' it failed').text).toBe('\u2026 failed');
    expect(telling('a'.repeat(1500) + 'b'.repeat(1500)).text).toBe('a'.repeat(600) + ' \u2026 ' + 'b'.repeat(600));
    expect(telling('NVRM: Xid (PCI:0000:17:00): 79' + 'x'.repeat(3000)).text).toMatch(/^\u2026 Xid \(PCI/);
  });
  it('tells times in UTC and how long ago', () => {
    expect(utcTime('2026-12-01T13:19:02.5Z')).toBe('2026-12-01 13:19:02 UTC');
    expect(ago('2026-12-01T13:19:02Z', Date.parse('2026-12-01T13:23:02Z'))).toBe('4 min ago');
  });
  it('puts kinds into families', () => { expect(['gpu.oom.leak', 'gpu.xid.79', 'nccl.timeout', 'host.shm', 'sched.cancelled'].map(family)).toEqual(['gpu', 'fault', 'comm', 'host', 'other']); });
});
describe('api', () => {
  it('cuts events however the stream is cut', () => {
    const text = ': hello\n\nid: e-1\nevent: incident.opened\ndata: {"a":1}\n\nid: e-2\r\nevent: reset\r\ndata: x\r\ndata: y\r\n\r\n';
    for (let size = 1; size < text.length; ++size) {
      const cut = eventCutter(), got: unknown[] = [];
      for (let i = 0; i < text.length; i += size) got.push(...cut(text.slice(i, i + size)));
      expect(got).toEqual([{id: 'e-1', type: 'incident.opened', data: '{"a":1}'}, {id: 'e-2', type: 'reset', data: 'x\ny'}]);
    }
  });
  it('leaves out what is not asked and tells problems', () => {
    expect(url('/x', {a: '', b: 0, c: undefined, d: 'x y'})).toBe('/api/v1/x?b=0&d=x+y');
    expect(problemOf(404, '{"code":"not_found","detail":"none","help":"look"}')).toMatchObject({code: 'not_found', message: 'none', help: 'look'});
    expect(problemOf(502, '<html>').message).toContain('502');
  });
});
describe('markdown', () => {
  it('escapes foreign text and closes no fence early', () => {
    expect(escapeText('*a* [b](c) <d>\n# e')).toBe('\\*a\\* \\[b\\](c) \\<d\\> \\#\u200b e');
    expect(escapeText('- @all #7 &lt;\u200b')).toBe('\\- @\u200ball \\#\u200b7 \\&lt;\\<U+200B\\>');   // names nobody and no ticket
    expect(codeBlock('a\n```\nb')).toBe('````\na\n```\nb\n````');
    expect(markdown(answer(), 'http://h/incidents/a')).toContain('rank 2, GPU 0, step 4, forward');
  });
});
describe('log lines', () => {
  it('numbers follow from neighbours', () => {
    const line = (number: number | null, offset: number) => ({number, offset, text: '', cut: false});
    expect(numbered([line(null, 0), line(5, 1), line(null, 2)]).map((l) => l.number)).toEqual([4, 5, 6]);
    expect(numbered([line(null, 0), line(null, 1)]).map((l) => l.number)).toEqual([null, null]);
  });
});
describe('tar', () => {
  it('is made of whole blocks with right sums, long names too', async () => {
    const data = new Uint8Array(await tarOf([{path: 'a/b.log', file: new Blob(['hello'])}, {path: 'x'.repeat(150), file: new Blob(['y'])}]).arrayBuffer());
    expect(data.length % 512).toBe(0);
    const head = data.slice(0, 512), sum = parseInt(new TextDecoder().decode(head.slice(148, 154)), 8);
    expect([...head].reduce((s, b, i) => s + (i >= 148 && i < 156 ? 32 : b), 0)).toBe(sum);
    expect(new TextDecoder().decode(data)).toContain(' path=' + 'x'.repeat(150) + '\n');
  });
});
describe('incident', () => {
  it('knows the state of each rank', () => {
    expect(rankStates(answer())).toEqual(['other', 'echo', 'root', 'echo']);
    expect(rankStates(answer({config: {world: {value: 6}}, collective: {culprit_ranks: [5], waiting_ranks: [0], silent_ranks: [4]}}))).toEqual(['waiting', 'echo', 'root', 'echo', 'silent', 'culprit']);
    const hung = answer({config: {world: {value: 6}}, root: {rank: null}, echoes: [], collective: {culprit_ranks: [], waiting_ranks: [0, 1, 4, 5], silent_ranks: [], one_of: [[1, 4], [5]]}});
    expect(rankStates(hung)).toEqual(['waiting', 'suspect', 'other', 'other', 'suspect', 'suspect']);
    expect(oneOf(hung)).toEqual(['1, 4', '5']);
    expect(oneOf(answer())).toEqual([]);
  });
  it('makes the bars of ledger and fixes', () => {
    const ledger: any = {capacity_bytes: 100, free_bytes: 5, tried_bytes: 20, in_use_bytes: 85, allocated_bytes: 70, reserved_unallocated_bytes: 10, outside_pytorch_bytes: 5, limit_bytes: null, other_processes: [{pid: 1, bytes: 10}]};
    expect(ledgerParts(ledger).reduce((s, p) => s + p.bytes, 0)).toBe(100);
    const fix: any = {saving_bytes: null, predicted_peak_bytes: 60, cost: {step_time_percent: {low: 20, high: 33}, note: null}};
    expect(peakBefore(fix, answer({ledger}))).toBe(105);
    expect(peakBefore({...fix, saving_bytes: {low: 1, mid: 30, high: 40}}, answer())).toBe(90);
    expect(costText(fix)).toBe('step time 20 to 33 %');
  });
  it('shows the settings of the programs that are named, else of the likeliest one', () => {
    const apply = ['pytorch', 'megatron-lm', 'nemo'].map((framework) => ({framework, set: framework})), fix: any = {apply};
    const shown = (frameworks: string[]) => settingsOf(fix, frameworks).shown.map((s) => s.set);
    expect(shown([])).toEqual(['pytorch']);
    expect(shown(['megatron-lm'])).toEqual(['megatron-lm']);
    expect(shown(['other'])).toEqual(['pytorch']);
    expect(settingsOf(fix, []).rest.length).toBe(2);
    expect(settingsOf({...fix, apply: [{framework: 'any', set: 'A=1'}, ...apply]}, []).shown.map((s) => s.set)).toEqual(['A=1', 'pytorch']);
  });
  it('offers the first line of each rank that followed', () => {
    const f = (line: number, rank: number | null, role = 'cascade') => ({rule: 'r', role, kind: 'dist.peer_closed', source: 'a.log', line, rank, captures: {}});
    expect(echoPlaces(answer({findings: [f(3, 2, 'root'), f(9, 1), f(10, 1), f(12, 3), f(14, null)]})).map((p) => [p.line, p.name])).toEqual([[9, 'dist.peer_closed, rank 1'], [12, 'dist.peer_closed, rank 3']]);
    expect(echoPlaces(answer()).map((p) => [p.source, p.line, p.name])).toEqual([['a_b.log', 9, 'dist.peer_closed']]);   // whose of the two ranks it is, nobody says
    const twice = [{kind: 'dist.peer_closed', count: 1, ranks: [1], source: null, first_line: 9}, {kind: 'user.exception', count: 2, ranks: [0, 1], source: null, first_line: 9}];
    expect(echoPlaces(answer({echoes: twice})).map((p) => p.name)).toEqual(['dist.peer_closed, rank 1']);   // one place for one line
  });
});
describe('addresses', () => {
  it('hold the filter', () => { expect(filterQuery(readFilter('?kind=gpu.oom&open=true'))).toMatchObject({kind: 'gpu.oom', open: true, since: '7d'}); });
  it('hold the plan', () => {
    expect(planQuery(knobsOf('?incident=ab&micro_batch=1&gpu=h100&x<y=1'))).toBe('incident=ab&gpu=h100&micro_batch=1');
  });
});
