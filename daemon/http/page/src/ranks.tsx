// Ranks by node: who failed first, who echoed, who was silent or waited. One canvas, so that thousands of ranks stay quick; the same in words below it.
import {useEffect, useRef, useState} from 'preact/hooks';
import type {Answer} from './api';
import {namedRanks, ranges} from './format';

export type RankState = 'root' | 'culprit' | 'suspect' | 'echo' | 'waiting' | 'silent' | 'other';
const kNames: Record<RankState, string> = {root: 'failed first', culprit: 'others waited for it', suspect: 'one of these stands still', echo: 'failed after it', waiting: 'waited', silent: 'printed nothing', other: 'nothing known'};

/** State of each rank that the answer or the world size names. */
export function rankStates(a: Answer): RankState[] {
  const world = Number((a.config.world ?? {value: 0}).value) || 0;
  const named = [...a.echoes.flatMap((e) => e.ranks), ...(a.collective ? [...a.collective.culprit_ranks, ...a.collective.waiting_ranks, ...a.collective.silent_ranks, ...(a.collective.one_of ?? []).flat()] : []),
                 ...(a.root.rank !== null ? [a.root.rank] : []), ...a.findings.map((f) => f.rank ?? -1)];
  let size = world;
  for (const r of named) if (r + 1 > size) size = r + 1;
  size = Math.min(size, 200000);
  const out: RankState[] = new Array(size).fill('other');
  const mark = (ranks: number[], state: RankState) => { for (const r of ranks) if (r >= 0 && r < size) out[r] = state; };
  if (a.collective) { mark(a.collective.silent_ranks, 'silent'); mark(a.collective.waiting_ranks, 'waiting'); }
  mark(a.echoes.flatMap((e) => e.ranks), 'echo');
  if (a.collective) { mark((a.collective.one_of ?? []).flat(), 'suspect'); mark(a.collective.culprit_ranks, 'culprit'); }
  if (a.root.rank !== null) mark([a.root.rank], 'root');
  return out;
}

/** Sets of which one rank stands still, at most four, as text. */
export function oneOf(a: Answer): string[] { return (a.collective?.one_of ?? []).slice(0, 4).map((set) => ranges(set)); }

export function Ranks({answer}: {answer: Answer}) {
  const states = rankStates(answer);
  const perNode = Number((answer.config.gpus_per_node ?? {value: 0}).value) || (states.length < 8 ? Math.max(1, states.length) : 8);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tip, setTip] = useState('');
  const [at, setAt] = useState(answer.root.rank ?? 0);
  const nodes = Math.ceil(states.length / perNode), cell = states.length > 1024 ? 8 : states.length > 128 ? 12 : 18;
  const geometry = (width: number) => {
    const across = perNode * cell + 6, columns = Math.max(1, Math.floor(width / across));
    return {across, columns, rows: Math.ceil(nodes / columns)};
  };
  useEffect(() => {
    const draw = () => {
      const c = canvas.current;
      if (!c) return;
      const width = c.parentElement!.clientWidth, g = geometry(width), ratio = devicePixelRatio || 1, height = g.rows * (cell + 4);
      c.width = width * ratio;
      c.height = height * ratio;
      c.style.height = height + 'px';
      const p = c.getContext('2d')!, style = getComputedStyle(document.documentElement);
      p.scale(ratio, ratio);
      states.forEach((state, rank) => {
        const node = Math.floor(rank / perNode), x = (node % g.columns) * g.across + (rank % perNode) * cell, y = Math.floor(node / g.columns) * (cell + 4);
        p.fillStyle = style.getPropertyValue('--r-' + state).trim();
        p.fillRect(x, y, cell - 1, cell - 1);
        if (rank === at) { p.strokeStyle = style.getPropertyValue('--fg').trim(); p.lineWidth = 1.5; p.strokeRect(x + .5, y + .5, cell - 2, cell - 2); }
      });
    };
    draw();
    addEventListener('resize', draw);
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', draw);
    return () => { removeEventListener('resize', draw); media.removeEventListener('change', draw); };
  }, [answer, at]);
  if (states.length < 2) return null;
  const tell = (rank: number) => `rank ${rank}, on node ${Math.floor(rank / perNode)} at place ${rank % perNode}, as ${perNode} ranks fill a node: ${kNames[states[rank]]}`;
  const rankAt = (e: MouseEvent) => {
    const g = geometry(canvas.current!.clientWidth), row = Math.floor(e.offsetY / (cell + 4)), column = Math.floor(e.offsetX / g.across), k = Math.floor((e.offsetX % g.across) / cell);
    const rank = (row * g.columns + column) * perNode + k;
    return k < perNode && column < g.columns && rank < states.length ? rank : -1;
  };
  const lists = (Object.keys(kNames) as RankState[]).map((s) => ({s, ranks: states.flatMap((x, r) => x === s ? [r] : [])})).filter((l) => l.ranks.length);
  return <>
    <div><canvas ref={canvas} class="ranks" tabIndex={0} role="img" aria-label={'Ranks. ' + lists.map((l) => `${kNames[l.s]}: ${l.ranks.length}`).join(', ')}
      onMouseMove={(e) => { const r = rankAt(e); setTip(r >= 0 ? tell(r) : ''); }} onMouseLeave={() => setTip('')}
      onKeyDown={(e) => { const d = ({ArrowRight: 1, ArrowLeft: -1, ArrowDown: perNode, ArrowUp: -perNode} as Record<string, number>)[e.key]; if (!d) return; e.preventDefault();
        const r = Math.min(states.length - 1, Math.max(0, at + d)); setAt(r); setTip(tell(r)); }} /></div>
    <p class="tip" aria-live="polite">{tip || `${states.length} ranks; each group is a node of ${perNode}. Point at one, or use the arrow keys.`}</p>
    <ul class="legend">{lists.map((l) => <li><i class={'r-' + l.s} />{kNames[l.s]}: {l.ranks.length > 1 && <><b>{l.ranks.length}</b>, </>}<small>{namedRanks(l.ranks, 120)}</small></li>)}</ul>
  </>;
}
