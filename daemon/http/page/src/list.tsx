// The incidents: filters, counts over time, nodes that come back, and the live list, of which only the rows in sight exist.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {get, type Counts, type NodeRow, type Query, type Row} from './api';
import {ago, family, visible} from './format';
import {Foreign, Path, Section, Time, Trouble, go, onEvent} from './shared';

const kPage = 200;
const spans: [string, string][] = [['1h', 'last hour'], ['24h', 'last 24 hours'], ['7d', 'last 7 days'], ['30d', 'last 30 days'], ['', 'all time']];

export interface Filter { text: string; kind: string; job: string; node: string; since: string; until: string; open: boolean }

/** The filter that the address holds, and back: a filtered list can be shared. */
export function readFilter(search: string): Filter {
  const q = new URLSearchParams(search);
  return {text: q.get('text') ?? '', kind: q.get('kind') ?? '', job: q.get('job') ?? '', node: q.get('node') ?? '', since: q.get('since') ?? '7d',
          until: q.get('until') ?? '', open: q.get('open') === 'true'};
}
export function filterQuery(f: Filter): Query {
  return {text: f.text.trim(), kind: f.kind.trim(), job: f.job.trim(), node: f.node.trim(), since: f.since, until: f.until, open: f.open ? true : undefined};
}

/** Label of the time axis: the day, with the hour where the whole axis is short. */
function axisTime(at: number, span: number): string {
  const t = new Date(at);
  return t.toLocaleString(undefined, span > 3 * 864e5 ? {day: 'numeric', month: 'short'} : {weekday: 'short', hour: '2-digit', minute: '2-digit'});
}

function Chart({counts, pick}: {counts: Counts; pick: (from: string, to: string) => void}) {
  const step = counts.step_s * 1000, first = Math.floor(Date.parse(counts.since) / step) * step;
  const columns = Math.max(1, Math.ceil((Date.parse(counts.until) - first) / step));
  const sums: Map<string, number>[] = Array.from({length: columns}, () => new Map());
  let total = 0;
  for (const b of counts.buckets) {
    const i = Math.floor((Date.parse(b.start) - first) / step);
    if (i < 0 || i >= columns) continue;
    const name = family(b.key ?? '');
    sums[i].set(name, (sums[i].get(name) ?? 0) + b.count);
    total += b.count;
  }
  const heights = sums.map((m) => [...m.values()].reduce((a, b) => a + b, 0)), top = Math.max(1, ...heights);
  const present = ['gpu', 'host', 'comm', 'fault', 'io', 'other'].filter((f) => sums.some((m) => m.has(f)));
  const names: Record<string, string> = {gpu: 'device memory', host: 'host memory', comm: 'collectives', fault: 'device faults', io: 'storage, data', other: 'other'};
  return <figure class="chart">
    <figcaption><b>{total}</b> {total === 1 ? 'incident' : 'incidents'}{top > 1 && `, at most ${top} in one column`}<span class="legend">{present.map((f) => <span><i class={'f-' + f} />{names[f]}</span>)}</span></figcaption>
    <div class="columns">{sums.map((m, i) => {
      const from = new Date(first + i * step).toISOString(), to = new Date(first + (i + 1) * step).toISOString();
      if (!heights[i]) return <span />;
      return <button type="button" class="column" onClick={() => pick(from, to)} title={`${new Date(first + i * step).toLocaleString()}: ${heights[i]}`}
                     aria-label={`${heights[i]} incidents from ${new Date(first + i * step).toLocaleString()}; show only these`}>
        {present.map((f) => m.has(f) && <i class={'f-' + f} style={{height: 100 * m.get(f)! / top + '%'}} />)}</button>;
    })}</div>
    <div class="axis dim" aria-hidden="true"><span>{axisTime(first, columns * step)}</span><span>{axisTime(first + columns * step / 2, columns * step)}</span><span>{axisTime(Date.parse(counts.until), columns * step)}</span></div>
  </figure>;
}

function Nodes({rows, node, pick}: {rows: NodeRow[]; node: string; pick: (node: string) => void}) {
  if (!rows.length) return <p class="dim">No incident names a node in this time.</p>;
  const top = Math.max(...rows.map((r) => r.incidents));
  return <ol class="nodes">{rows.slice(0, 12).map((r) => <li>
    <button type="button" aria-pressed={node === r.node} onClick={() => pick(node === r.node ? '' : r.node)}
            title={r.kinds.map((k) => `${k.kind} ${k.count}`).join(', ')}>
      <span class="meter" style={{width: 100 * r.incidents / top + '%'}} />
      <b><Foreign text={r.node} />{r.device !== null && ` GPU ${r.device}`}</b> <span class="num">{r.incidents}</span>
      <small>{r.jobs} {r.jobs === 1 ? 'job' : 'jobs'}, mostly {visible(r.kinds[0]?.kind ?? '')}</small>
    </button></li>)}</ol>;
}

export function IncidentList() {
  const [filter, setFilter] = useState<Filter>(() => readFilter(location.search));
  const [rows, setRows] = useState<Row[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [counts, setCounts] = useState<Counts | null>(null);
  const [nodes, setNodes] = useState<NodeRow[]>([]);
  const [fault, setFault] = useState<unknown>(null);
  const [loading, setLoading] = useState(true);
  const [fresh, setFresh] = useState<Set<string>>(new Set());
  const [now, setNow] = useState(Date.now());
  const query = useMemo(() => filterQuery(filter), [filter]);
  const busy = useRef(false), loaded = useRef(rows);
  loaded.current = rows;

  const first = async (signal?: AbortSignal, quiet = false) => {
    try {
      const page = await get<{incidents: Row[]; next: string | null}>('/incidents', {...query, limit: kPage}, signal);
      if (quiet) {   // keeps what stands below, so that a reader far down is not thrown back
        const known = new Map(loaded.current.map((r) => [r.id, r]));
        setFresh(new Set(page.incidents.filter((r) => !known.has(r.id)).map((r) => r.id)));
        const ids = new Set(page.incidents.map((r) => r.id));
        const last = page.incidents[page.incidents.length - 1];
        const rest = page.next ? loaded.current.filter((r) => !ids.has(r.id) && r.opened_at <= last.opened_at) : [];
        setRows([...page.incidents, ...rest]);
        if (!rest.length) setNext(page.next);
      } else {
        setRows(page.incidents);
        setNext(page.next);
      }
      setFault(null);
    } catch (e) { if (!signal?.aborted) setFault(e); }
  };
  const around = (signal?: AbortSignal) => {
    const {open: _, text: __, ...plain} = query;
    get<Counts>('/counts', {...query, since: filter.since || '90d', by: 'kind'}, signal).then(setCounts, () => {});
    get<{nodes: NodeRow[]}>('/nodes', {...plain, node: undefined, limit: 12}, signal).then((n) => setNodes(n.nodes), () => {});
  };
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const q = new URLSearchParams();
      for (const [k, v] of Object.entries(query)) if (v !== undefined && v !== '' && !(k === 'since' && v === '7d')) q.set(k, String(v));
      if (filter.since === '') q.set('since', '');
      history.replaceState(null, '', '/' + (q.toString() ? '?' + q : ''));
      setLoading(true);
      first(stop.signal).then(() => setLoading(false));
      around(stop.signal);
    }, 180);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [query]);
  useEffect(() => {
    let timer = 0;
    const stop = onEvent((e) => {
      if (!e.type.startsWith('incident.') && e.type !== 'reset' || timer) return;
      timer = window.setTimeout(() => { timer = 0; first(undefined, true); around(); setNow(Date.now()); }, 400);   // many at once are one load
    });
    const tick = setInterval(() => setNow(Date.now()), 30000);
    return () => { stop(); clearTimeout(timer); clearInterval(tick); };
  }, [query]);
  const more = async () => {
    if (!next || busy.current) return;
    busy.current = true;
    try {
      const page = await get<{incidents: Row[]; next: string | null}>('/incidents', {...query, limit: kPage, cursor: next});
      const ids = new Set(loaded.current.map((r) => r.id));
      setRows([...loaded.current, ...page.incidents.filter((r) => !ids.has(r.id))]);
      setNext(page.next);
    } catch (e) { setFault(e); } finally { busy.current = false; }
  };

  const set = (part: Partial<Filter>) => setFilter({...filter, ...part});
  const field = (name: 'text' | 'kind' | 'job' | 'node', label: string, hint: string) =>
    <label>{label}<input type="search" value={filter[name]} placeholder={hint} onInput={(e) => set({[name]: e.currentTarget.value})} /></label>;
  const narrowed = filter.text || filter.kind || filter.job || filter.node || filter.until || filter.open;
  return <>
    <h1 class="hide">Incidents</h1>
    <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
      {field('text', 'Search', 'summary, job, file')}
      {field('kind', 'Kind', 'gpu.oom')}
      {field('job', 'Job', 'whole name')}
      {field('node', 'Node', 'whole name')}
      <label>Time<select value={filter.until ? 'own' : filter.since} onChange={(e) => { if (e.currentTarget.value !== 'own') set({since: e.currentTarget.value, until: ''}); }}>
        {filter.until && <option value="own">one column</option>}
        {spans.map(([v, n]) => <option value={v}>{n}</option>)}</select></label>
      <label class="check"><input type="checkbox" checked={filter.open} onChange={(e) => set({open: e.currentTarget.checked})} />open only</label>
      {narrowed && <button type="button" onClick={() => setFilter(readFilter(''))}>Clear</button>}
    </form>
    {fault ? <Trouble of={fault} /> : null}
    <div class="two">
      <div class="wide">
        {counts && <Chart counts={counts} pick={(since, until) => set({since, until})} />}
        {rows.length > 0 && <Rows rows={rows} fresh={fresh} now={now} more={more} end={!next} />}
        {!loading && !rows.length && !fault && <p class="empty">{narrowed ? 'No incident matches.' : 'No incident in this time. One appears here by itself when a watched log tells of a failure; a log, a snapshot or a folder that you drag onto the page is read at once.'}</p>}
      </div>
      <aside><Section title="Nodes that recur" id="recur"><Nodes rows={nodes} node={filter.node} pick={(node) => set({node})} /></Section></aside>
    </div>
  </>;
}

function Rows({rows, fresh, now, more, end}: {rows: Row[]; fresh: Set<string>; now: number; more: () => void; end: boolean}) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({top: 0, height: 800});
  const [narrow, setNarrow] = useState(matchMedia('(max-width: 700px)').matches);
  const height = narrow ? 92 : 48;
  useEffect(() => {
    const measure = () => { if (box.current) setSeen({top: box.current.scrollTop, height: box.current.clientHeight}); };
    const media = matchMedia('(max-width: 700px)');
    const change = () => { setNarrow(media.matches); measure(); };
    measure();
    media.addEventListener('change', change);
    const watch = new ResizeObserver(measure);
    watch.observe(box.current!);
    return () => { media.removeEventListener('change', change); watch.disconnect(); };
  }, []);
  const from = Math.max(0, Math.floor(seen.top / height) - 8), to = Math.min(rows.length, Math.ceil((seen.top + seen.height) / height) + 8);
  useEffect(() => { if (to >= rows.length - 40 && rows.length) more(); }, [to, rows.length]);
  const key = (e: KeyboardEvent) => {
    const links = [...box.current!.querySelectorAll<HTMLAnchorElement>('a.row')], at = links.indexOf(document.activeElement as HTMLAnchorElement);
    const step = e.key === 'ArrowDown' || e.key === 'j' ? 1 : e.key === 'ArrowUp' || e.key === 'k' ? -1 : 0;
    if (!step || at < 0) return;
    e.preventDefault();
    links[at + step]?.focus();
  };
  return <div class="rows" ref={box} onScroll={(e) => setSeen({top: e.currentTarget.scrollTop, height: e.currentTarget.clientHeight})} onKeyDown={key}
              role="feed" aria-label="Incidents, newest first" aria-busy={!end && to >= rows.length} tabIndex={0}>
    <div style={{height: rows.length * height + 'px', position: 'relative'}}>
      {rows.slice(from, to).map((r, i) =>
        <article key={r.id} aria-posinset={from + i + 1} aria-setsize={end ? rows.length : -1} aria-labelledby={'i-' + r.id}
                 class={'item' + (fresh.has(r.id) ? ' fresh' : '')} style={{top: (from + i) * height + 'px', height: height + 'px'}}>
          <a class="row" href={'/incidents/' + r.id} onClick={(e) => { if (e.metaKey || e.ctrlKey) return; e.preventDefault(); go('/incidents/' + r.id); }}>
            <span class={'kind f-' + family(r.kind)} id={'i-' + r.id}>{visible(r.kind)}</span>
            <span class="what"><Foreign text={r.summary} /></span>
            <span class="where">{r.job && <Path text={r.job} />}{r.job && r.attempt > 1 && ` #${r.attempt}`}{r.node && <> <Path text={r.node} /></>}{r.rank !== null && ` rank ${r.rank}`}{!r.job && !r.node && <Foreign text={r.source.split('/').pop()!} />}</span>
            <span class="when"><Time at={r.opened_at} /> <small>{r.open && <b class="open">open</b>}<span class="ago">{r.open && ', '}{ago(r.opened_at, now)}{r.seen > 1 && `, seen ${r.seen} times`}</span></small></span>
          </a>
        </article>)}
    </div>
  </div>;
}
