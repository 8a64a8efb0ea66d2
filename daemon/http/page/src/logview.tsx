// Lines of a source around a place. Only some thousand lines are held, wherever in the file (of any size) one is; further ones are read at the edges.
import {useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';
import {get, type Context, type Line} from './api';
import {bytes, visible} from './format';

const kRow = 18, kChunk = 300, kHeld = 3000;

/** Numbers of lines that the service did not count follow from a neighbour whose number is known. */
export function numbered(lines: Line[]): Line[] {
  const out = lines.map((l) => ({...l}));
  for (let i = 1; i < out.length; ++i) if (out[i].number === null && out[i - 1].number !== null) out[i].number = out[i - 1].number! + 1;
  for (let i = out.length - 2; i >= 0; --i) if (out[i].number === null && out[i + 1].number !== null && out[i + 1].number! > 1) out[i].number = out[i + 1].number! - 1;
  return out;
}

export interface Place { source: string; line: number | null; name: string; what: 'root' | 'echo' | 'also' }

export function LogView({incident, places}: {incident: string; places: Place[]}) {
  const [place, setPlace] = useState(places[0]);
  const [lines, setLines] = useState<Line[]>([]);
  const [size, setSize] = useState(0);
  const [spool, setSpool] = useState(false);
  const [fault, setFault] = useState('');
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const box = useRef<HTMLDivElement>(null), busy = useRef(false), wanted = useRef<number | null>(null), version = useRef(0);
  const marks = new Map(places.filter((p) => p.source === place.source && p.line).map((p) => [p.line!, p]));

  const load = async (query: {line?: number; offset?: number; before: number; after: number}) =>
    get<Context>('/context', {incident, source: place.source, ...query});
  const jump = async (query: {line?: number; offset?: number; before: number; after: number}, middle: boolean) => {
    const mine = ++version.current;
    busy.current = true;
    try {
      const c = await load(query);
      if (mine !== version.current) return;
      // A byte in the middle of a line gives its rest first.
      const got = numbered(!middle && query.offset ? c.lines.slice(1) : c.lines);
      const at = query.line ? got.findIndex((l) => l.number === query.line) : 0;
      wanted.current = Math.max(0, at * kRow - (middle ? 120 : 0));
      setLines(got);
      setSize(c.size);
      setSpool(c.from_spool);
      setFault('');
    } catch (e) { if (mine === version.current) { setLines([]); setFault((e as Error).message); } } finally { busy.current = false; }
  };
  useEffect(() => { jump({line: place.line ?? 1, before: kChunk, after: kChunk}, true); }, [place]);
  useLayoutEffect(() => {
    if (box.current && wanted.current !== null) {
      box.current.scrollTop = wanted.current;
      setTop(box.current.scrollTop);
      setHeight(box.current.clientHeight);
      wanted.current = null;
    }
  });
  const scrolled = async () => {
    const b = box.current!;
    setTop(b.scrollTop);
    setHeight(b.clientHeight);
    if (busy.current || !lines.length || spool) return;
    const mine = version.current;
    if (b.scrollTop < 40 * kRow && lines[0].offset > 0) {
      busy.current = true;
      try {
        const c = await load({offset: lines[0].offset, before: kChunk, after: 0});
        if (mine !== version.current) return;
        const above = c.lines.filter((l) => l.offset < lines[0].offset);
        if (above.length) {
          wanted.current = b.scrollTop + above.length * kRow;
          setLines(numbered([...above, ...lines].slice(0, kHeld)));
        }
      } catch { /* the next scroll tries again */ } finally { busy.current = false; }
    } else if (b.scrollTop + b.clientHeight > (lines.length - 40) * kRow && lines[lines.length - 1].offset < size) {
      busy.current = true;
      try {
        const last = lines[lines.length - 1];
        const c = await load({offset: last.offset, before: 0, after: kChunk});
        if (mine !== version.current) return;
        const below = c.lines.filter((l) => l.offset > last.offset);
        if (below.length) {
          const all = [...lines, ...below], over = Math.max(0, all.length - kHeld);
          if (over) wanted.current = b.scrollTop - over * kRow;
          setLines(numbered(all.slice(over)));
        }
      } catch { /* the next scroll tries again */ } finally { busy.current = false; }
    }
  };
  const from = Math.max(0, Math.floor(top / kRow) - 20), to = Math.min(lines.length, Math.ceil((top + height) / kRow) + 20);
  const here = lines[Math.min(lines.length - 1, Math.floor((top + height / 2) / kRow))];
  return <div class="log">
    <div class="jumps" role="group" aria-label="Places in the logs">{places.slice(0, 24).map((p) =>
      <button type="button" aria-pressed={p === place} class={p.what} onClick={() => setPlace(p)}>{p.name}{p.line ? `, line ${p.line}` : ''}</button>)}</div>
    {fault ? <p class="dim">The lines around it cannot be read here: {fault}. The line itself stands under “What”.</p> : <>
      <p class="path"><bdi>{visible(place.source)}</bdi> <span class="dim">{spool ? '' : bytes(size)}{spool ? '; only the lines around what was found are kept, a rule marks a gap' : ''}</span></p>
      <div class="lines" ref={box} onScroll={scrolled} tabIndex={0} role="region" aria-label={'Lines of ' + visible(place.source)}>
        <div style={{height: lines.length * kRow + 'px', position: 'relative'}}>
          {lines.slice(from, to).map((l, i) => {
            const mark = l.number !== null ? marks.get(l.number) : undefined;
            const gap = spool && from + i > 0 && l.number !== null && lines[from + i - 1].number !== null && l.number > lines[from + i - 1].number! + 1;
            return <div key={l.offset} class={'line ' + (mark?.what ?? '') + (gap ? ' gap' : '')} style={{top: (from + i) * kRow + 'px'}}>
              <span class="no" title={'byte ' + l.offset}>{l.number ?? ''}</span><code dir="ltr">{visible(l.text)}{l.cut && <em> (cut)</em>}</code></div>;
          })}
        </div>
      </div>
      {!spool && size > 0 && lines.length > 0 && (lines[0].offset > 0 || size > 60000) &&
        <label class="position">Place in the file<input type="range" min={0} max={size} step={Math.max(1, Math.floor(size / 2000))} value={here?.offset ?? 0}
          onChange={(e) => { const o = Number(e.currentTarget.value); jump({offset: o, before: 0, after: kChunk}, o === 0); }} /></label>}
    </>}
  </div>;
}
