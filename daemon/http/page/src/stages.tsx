// What each pipeline stage needs at its peak: one bar a stage, on one scale, with the limit of the device.
import {useEffect, useState} from 'preact/hooks';
import {post} from './api';
import {bytes, visible} from './format';
import {Trouble, termColour} from './shared';

export interface StageTerm { term: string; bytes: number; note: string | null }
export interface Stage {
  pipeline_rank: number; layers: number; static_bytes: number; peak_bytes: number; peak_range: {low: number; mid: number; high: number}; device_bytes: number; peak_phase: string;
  terms: StageTerm[];
}

/** Bytes by term over all stages, largest first: the order of the parts of each bar. */
export function termOrder(stages: Stage[]): string[] {
  const sums = new Map<string, number>();
  for (const s of stages) for (const t of s.terms) if (t.bytes > 0) sums.set(t.term, (sums.get(t.term) ?? 0) + t.bytes);
  return [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
}

export function StageBars({stages, capacity}: {stages: Stage[]; capacity: number}) {
  const order = termOrder(stages), sum = (s: Stage, name: string) => s.terms.reduce((n, t) => t.term === name ? n + Math.max(0, t.bytes) : n, 0);
  const whole = (s: Stage) => order.reduce((n, name) => n + sum(s, name), 0);
  const most = 1.02 * Math.max(1, capacity, ...stages.map(whole));
  return <div class="stages">
    {stages.map((s) => <div class="row2" role="img" aria-label={`stage ${s.pipeline_rank}, ${s.layers} layers, peak in ${s.peak_phase}: ${order.filter((n) => sum(s, n)).map((n) => `${n} ${bytes(sum(s, n))}`).join(', ')}`}>
      <span>stage {s.pipeline_rank}</span>
      <div class="track many">{order.map((n) => sum(s, n) > 0 && <i class={'c-' + termColour(n)} style={{width: 100 * sum(s, n) / most + '%'}} title={`${n} ${bytes(sum(s, n))}`} />)}
        {capacity > 0 && <b class="limit" style={{left: 100 * capacity / most + '%'}} />}</div>
      <span class={'num' + (capacity && whole(s) > capacity ? ' open' : '')}>{bytes(whole(s))}</span></div>)}
    <ul class="legend">{order.map((n) => <li><i class={'c-' + termColour(n)} />{visible(n)}</li>)}</ul>
  </div>;
}

/** The stages of an incident's configuration, by the memory model. */
export function IncidentStages({incident}: {incident: string}) {
  const [plan, setPlan] = useState<{capacity_bytes: number | null; pipeline_stages: Stage[]} | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  useEffect(() => { post<NonNullable<typeof plan>>('/plan', {incident}).then(setPlan, setFault); }, [incident]);
  if (fault) return <Trouble of={fault} />;
  if (!plan) return <p class="dim">Reckoning.</p>;
  const capacity = plan.capacity_bytes ?? 0;
  const worst = plan.pipeline_stages.reduce((w, s) => s.device_bytes > w.device_bytes ? s : w, plan.pipeline_stages[0]);
  return <><StageBars stages={plan.pipeline_stages} capacity={capacity} />
    <p class="dim">Modelled from the configuration, at each stage’s own peak, with PyTorch’s cache and what stands outside{worst && `; stage ${worst.pipeline_rank} needs most, in ${worst.peak_phase}`}{capacity > 0 && `; the line is the limit of ${bytes(capacity)}`}.</p></>;
}
