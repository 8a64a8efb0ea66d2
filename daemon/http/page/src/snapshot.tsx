// An allocator snapshot: memory over time, stacks, segments, categories, and replays under other settings.
import 'uplot/dist/uPlot.min.css';
import uPlot from 'uplot';
import {useEffect, useRef, useState} from 'preact/hooks';
import {get, graphOf, post} from './api';
import {bytes, percent, visible} from './format';
import {Foreign, Section, Stack, Trouble} from './shared';

interface Device {
  device: number; facts: [string, number | string][]; moment: string; categories: [string, number, number][]; timeline: [number, number, number, number][]; stretch: number; points: number; merged: number;
  stacks: {b: number; c: string; f: number[]}[]; segments: {b: number; a: number; n: string; k: [number, number, number][]}[];
}
interface Graph { file: string; note: string; frames: string[]; devices: Device[] }
interface Replay { devices: {device: number; replay_check: {reserved_error_percent?: number} | null; what_if: Record<string, unknown>[]}[] }

const kBinary = Array.from({length: 52}, (_, i) => 2 ** i);   // ticks of the axis at whole GiB, MiB

/** Colours of the theme by name; each is asked for once, as asking costs more than drawing. */
function palette(): (name: string) => string {
  const style = getComputedStyle(document.documentElement), known = new Map<string, string>();
  return (name) => {
    let value = known.get(name);
    if (value === undefined) known.set(name, value = style.getPropertyValue('--' + name).trim() || '#888');
    return value;
  };
}

/** Draws now-ish: after what stands above has been painted; again when the size or the theme changes. Returns the end of it. */
function drawn(draw: () => void): () => void {
  const timer = setTimeout(draw), dark = matchMedia('(prefers-color-scheme: dark)');
  addEventListener('resize', draw);
  dark.addEventListener('change', draw);
  return () => { clearTimeout(timer); removeEventListener('resize', draw); dark.removeEventListener('change', draw); };
}

type Points = [number, number, number, number][];
export interface Part { from: number; merged: number; timeline: Points }

/** The whole timeline with one part of it in finer points: numbers of the first recorded point of each, and the points. */
export function withPart(all: Points, merged: number, part: Part | null): {at: number[]; points: Points} {
  const at: number[] = [], points: Points = [];
  const end = part && part.timeline.length ? part.from + part.timeline.length * part.merged : 0;
  const add = (n: number, p: Points[number]) => { at.push(n); points.push(p); };
  let placed = !end;
  all.forEach((p, i) => {
    const n = i * merged;
    if (end && n >= part!.from && n < end) return;
    if (!placed && n >= end) { part!.timeline.forEach((q, k) => add(part!.from + k * part!.merged, q)); placed = true; }
    add(n, p);
  });
  if (!placed) part!.timeline.forEach((q, k) => add(part!.from + k * part!.merged, q));
  return {at, points};
}

function Timeline({d, id}: {d: Device; id: string}) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!box.current || !d.timeline.length) return;
    const t = d.timeline, timed = t[0][0] > 0, colour = palette();
    let at: number[] = [], x: number[] = [];
    const dataOf = (part: Part | null): uPlot.AlignedData => {
      const whole = withPart(t, d.merged, part);
      at = whole.at;
      x = whole.points.map((p, i) => timed ? (p[0] - t[0][0]) / 1e6 : at[i] * d.stretch / d.merged);
      for (let i = 1; i < x.length; ++i) if (x[i] <= x[i - 1]) x[i] = x[i - 1] + 1e-6;
      return [x, whole.points.map((p) => p[3]), whole.points.map((p) => p[2])];
    };
    // A part that is looked at more closely comes in finer points, as far as they were recorded.
    let timer = 0, asked = '', gone = false;
    const closer = (u: uPlot) => {
      const {min, max} = u.scales.x;
      if (d.merged === 1 || min == null || max == null) return;
      const from = Math.max(0, x.findIndex((v) => v >= min) - 1), past = x.findIndex((v) => v > max), to = past < 0 ? d.points : at[past];
      const first = Math.floor(at[from] / d.merged) * d.merged, last = Math.min(d.points, Math.ceil(to / d.merged) * d.merged + d.merged), key = first + '-' + last;
      if (asked === key || last - first > d.points / 2) return;
      clearTimeout(timer);
      timer = window.setTimeout(() => {
        asked = key;
        get<Part>(`/snapshots/${encodeURIComponent(id)}/timeline`, {device: d.device, from: first, to: last, points: 1500}).then((part) => {
          if (gone || asked !== key) return;
          u.setData(dataOf(part), false);
          u.setScale('x', {min, max});
        }, () => { asked = ''; });
      }, 120);
    };
    const axis = {stroke: colour('dim'), grid: {stroke: colour('line'), width: 1}, ticks: {stroke: colour('line')}};
    const value = (_: uPlot, v: number | null) => v === null ? '' : bytes(v);
    const plot = new uPlot({
      width: box.current.clientWidth, height: 280, hooks: {setScale: [(u, key) => { if (key === 'x') closer(u); }]}, scales: {x: {time: false}}, cursor: {drag: {x: true, y: false}},
      axes: [{...axis, label: timed ? 'seconds since the first event' : 'events'}, {...axis, size: 84, incrs: kBinary, values: (_, v) => v.map((n) => bytes(n))}],
      series: [{label: timed ? 's' : 'event'}, {label: 'reserved', stroke: colour('logits'), width: 1.5, value}, {label: 'allocated', stroke: colour('activations'), fill: colour('activations') + '33', width: 1, value}],
    }, dataOf(null), box.current);
    const resize = () => plot.setSize({width: box.current!.clientWidth, height: 280});
    addEventListener('resize', resize);
    return () => { gone = true; clearTimeout(timer); removeEventListener('resize', resize); plot.destroy(); };
  }, [d]);
  return d.timeline.length ? <><p class="dim">Drag: zoom; double click: all.</p><div ref={box} /></> : <p class="dim">The file has no events: memory over time is not known.</p>;
}

interface Node { name: string; bytes: number; kids: Map<string, Node>; category: string; up: Node | null }

/** The tree of stacks, outermost frame first, below its category. */
export function flameTree(d: Pick<Device, 'stacks'>, frames: string[]): Node {
  const root: Node = {name: 'all', bytes: 0, kids: new Map(), category: '', up: null};
  for (const s of d.stacks) {
    if (!s.b) continue;
    let at = root;
    root.bytes += s.b;
    for (const name of [s.c, ...(s.f.length ? s.f.map((k) => frames[k] ?? '?') : ['(no Python frames)'])]) {
      let next = at.kids.get(name);
      if (!next) at.kids.set(name, next = {name, bytes: 0, kids: new Map(), category: s.c, up: at});
      next.bytes += s.b;
      at = next;
    }
  }
  return root;
}

function Flame({d, frames}: {d: Device; frames: string[]}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [zoom, setZoom] = useState<Node | null>(null);
  const [tip, setTip] = useState('');
  const boxes = useRef<{x: number; w: number; d: number; node: Node}[]>([]);
  const tree = useRef<{d: Device; root: Node} | null>(null);
  if (tree.current?.d !== d) tree.current = {d, root: flameTree(d, frames)};
  const root = tree.current.root, base = zoom ?? root, kHigh = 20;
  useEffect(() => setZoom(null), [d]);
  useEffect(() => {
    const draw = () => {
      const c = canvas.current;
      if (!c) return;
      const width = c.clientWidth, ratio = devicePixelRatio || 1, list: typeof boxes.current = [], colour = palette();
      const todo: {node: Node; x: number; w: number; d: number}[] = [{node: base, x: 0, w: width, d: 0}];
      let depth = 0;
      while (todo.length) {
        const b = todo.pop()!;
        list.push(b);
        depth = Math.max(depth, b.d);
        let x = b.x;
        for (const kid of [...b.node.kids.values()].sort((p, q) => q.bytes - p.bytes)) {
          const w = b.w * kid.bytes / Math.max(1, b.node.bytes);
          if (w >= .6) todo.push({node: kid, x, w, d: b.d + 1});
          x += w;
        }
      }
      boxes.current = list;
      c.style.height = (depth + 1) * kHigh + 'px';
      c.width = width * ratio;
      c.height = (depth + 1) * kHigh * ratio;
      const g = c.getContext('2d')!;
      g.scale(ratio, ratio);
      g.font = '12px system-ui, sans-serif';
      for (const b of list) {
        g.fillStyle = b.node.category ? colour(b.node.category) : colour('unattributed');
        g.globalAlpha = b.d < 2 ? 1 : .34 + .03 * (b.d * 7 % 5);   // pale, so that text in the page's own colour stays readable on every category
        g.fillRect(b.x, b.d * kHigh, Math.max(.5, b.w - .7), kHigh - 1);
        g.globalAlpha = 1;
        if (b.w > 46) {
          g.save();
          g.beginPath();
          g.rect(b.x, b.d * kHigh, b.w - 5, kHigh);
          g.clip();
          g.fillStyle = b.d < 2 ? '#fff' : colour('fg');
          g.fillText(visible(b.node.name) + '  ' + bytes(b.node.bytes), b.x + 4, b.d * kHigh + 14);
          g.restore();
        }
      }
    };
    return drawn(draw);
  }, [d, base]);
  const at = (e: MouseEvent) => boxes.current.find((b) => e.offsetX >= b.x && e.offsetX < b.x + b.w && Math.floor(e.offsetY / kHigh) === b.d)?.node;
  const tell = (n: Node | undefined) => n ? `${visible(n.name)}: ${bytes(n.bytes)}, ${percent(n.bytes / Math.max(1, root.bytes))} of all` : '';
  const kids = [...base.kids.values()].sort((p, q) => q.bytes - p.bytes).slice(0, 12);
  return <>
    <canvas ref={canvas} class="canvas" role="img" aria-label="Bytes by call stack; the same as buttons below" onMouseMove={(e) => setTip(tell(at(e)))} onMouseLeave={() => setTip('')}
      onClick={(e) => { const n = at(e); if (n) setZoom(n === base ? n.up : n); }} />
    <p class="tip" aria-live="polite">{tip || tell(base)}</p>
    <div class="jumps">{base.up && <button type="button" onClick={() => setZoom(base.up)}>up</button>}{kids.map((k) => <button type="button" onClick={() => setZoom(k)}>{visible(k.name).slice(0, 60)} {bytes(k.bytes)}</button>)}</div>
  </>;
}

function Segments({d}: {d: Device}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tip, setTip] = useState('');
  const list = d.segments.slice(0, 600), high = list.length > 120 ? 6 : 13, most = Math.max(1, ...list.map((s) => s.b));
  useEffect(() => {
    const draw = () => {
      const c = canvas.current;
      if (!c) return;
      const width = c.clientWidth, ratio = devicePixelRatio || 1, height = Math.max(20, list.length * high), colour = palette();
      c.style.height = height + 'px';
      c.width = width * ratio;
      c.height = height * ratio;
      const g = c.getContext('2d')!;
      g.scale(ratio, ratio);
      list.forEach((s, i) => {
        const w = Math.max(3, width * Math.sqrt(s.b / most));
        g.fillStyle = colour('free');
        g.fillRect(0, i * high, w, high - 1);
        let from = 0;
        for (const [size, state, stack] of s.k) {
          if (state < 2) {
            g.fillStyle = colour(state === 1 || stack < 0 ? 'unattributed' : d.stacks[stack]?.c ?? 'unattributed');
            g.fillRect(from / s.b * w, i * high, Math.max(.5, size / s.b * w - .3), high - 1);
          }
          from += size;
        }
      });
    };
    return drawn(draw);
  }, [d]);
  const used = list.reduce((s, x) => s + x.a, 0), all = list.reduce((s, x) => s + x.b, 0);
  return <><canvas ref={canvas} class="canvas" role="img" aria-label={`${list.length} segments of ${bytes(all)}, ${bytes(used)} in use`}
    onMouseMove={(e) => { const s = list[Math.floor(e.offsetY / high)]; setTip(s ? `${bytes(s.b)}, ${s.n}, ${bytes(s.a)} in use, ${s.k.length} blocks` : ''); }} onMouseLeave={() => setTip('')} />
    <p class="tip">{tip || `${list.length} segments of ${bytes(all)}, largest first, ${bytes(used)} in use; grey is free`}</p></>;
}

function WhatIf({id}: {id: string}) {
  const [text, setText] = useState('expandable_segments:True');
  const [got, setGot] = useState<Replay | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const ask = async (settings: string) => {
    setBusy(true);
    try { setGot(await post<Replay>(`/snapshots/${encodeURIComponent(id)}/what-if`, {settings: [settings]})); setFault(null); } catch (e) { setFault(e); }
    setBusy(false);
  };
  return <><form class="filters" onSubmit={(e) => { e.preventDefault(); ask(text); }}>
    <label>PYTORCH_CUDA_ALLOC_CONF<input size={40} value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
    <button disabled={busy}>Replay</button><button type="button" disabled={busy} onClick={() => ask('all')}>Replay the usual ones</button></form>
    {fault ? <Trouble of={fault} /> : null}
    {got && <div class="scroll" tabIndex={0}><table><thead><tr><th>GPU</th><th>settings</th><th>out of memory</th><th>peak reserved</th></tr></thead><tbody>{got.devices.flatMap((d) => d.what_if.map((w) =>
      <tr><td>{d.device}</td><td><code><Foreign text={typeof w.settings === 'string' ? w.settings : JSON.stringify(w.settings)} /></code></td>
        <td>{w.would_oom === true ? <b class="open">yes</b> : w.would_oom === false ? 'no' : 'unknown'}</td><td>{bytes(w.reserved_peak_bytes as number | null)}</td></tr>))}</tbody></table></div>}</>;
}

export function SnapshotPage({id}: {id: string}) {
  const [graph, setGraph] = useState<Graph | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [at, setAt] = useState(0);
  useEffect(() => { graphOf<Graph>(id).then(setGraph, setFault); }, [id]);
  if (fault) return <Trouble of={fault} />;
  if (!graph) return <p class="dim">Loading.</p>;
  const d = graph.devices[at];
  if (!d) return <p>The snapshot holds no device.</p>;
  const sum = d.categories.reduce((s, c) => s + c[1], 0);
  return <>
    <div class="title"><h1><Foreign text={graph.file} /></h1></div><p class="dim"><Foreign text={graph.note} /></p>
    {graph.devices.length > 1 && <div class="jumps" role="group" aria-label="Devices">{graph.devices.map((x, i) => <button type="button" aria-pressed={i === at} onClick={() => setAt(i)}>GPU {x.device}</button>)}</div>}
    <dl class="facts">{d.facts.map(([k, v]) => <div><dt>{k}</dt><dd>{typeof v === 'number' ? bytes(v) : visible(v)}</dd></div>)}</dl>
    <Section title={d.moment} id="categories"><Stack whole={sum} label="Categories" parts={d.categories.map(([n, b, guess]) => ({name: n, bytes: b, colour: 'c-' + n, text: `${bytes(b)} (${percent(b / Math.max(1, sum))})${guess > b / 2 ? ' likely' : ''}`}))} /></Section>
    <Section title="Memory over time" id="time"><Timeline d={d} id={id} /></Section>
    <Section title="By call stack" id="flame"><Flame d={d} frames={graph.frames} /></Section>
    <Section title="Segments" id="segments"><Segments d={d} /></Section>
    <Section title="What if: replay under other settings" id="whatif"><WhatIf id={id} /></Section>
  </>;
}
