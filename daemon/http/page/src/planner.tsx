// The planner: knobs of a configuration, prefilled from a run; the need of each pipeline stage follows at once. The address holds all of it.
import {useEffect, useState} from 'preact/hooks';
import {post, type Fix} from './api';
import {bytes, visible} from './format';
import {Copy, Foreign, Section, Stack, Trouble, termColour} from './shared';
import {StageBars, type Stage} from './stages';

interface Plan {
  config: Record<string, {value: unknown; origin: string}>; capacity_bytes: number | null; fits: boolean | null; pipeline_stages: Stage[]; fixes: Fix[]; verdict: string | null;
  assumptions?: {key: string; text: string}[]; ignored?: unknown[];
  sweep?: {tried: number; fit: {layout: string; need: {peak_bytes: number; low: number; high: number}}[]; nearest: {layout: string; short_by_bytes: number} | null};
}
export interface Knobs { incident: string; gpu: string; capacity: string; set: Record<string, string> }

const kGroups: [string, string[]][] = [
  ['Batch', ['seq_length', 'micro_batch', 'global_batch', 'world']],
  ['Layout', ['tensor_parallel', 'pipeline_parallel', 'virtual_pipeline', 'context_parallel', 'expert_parallel', 'sequence_parallel']],
  ['Memory', ['recompute', 'recompute_layers', 'distributed_optimizer', 'optimizer', 'fsdp', 'zero_stage', 'dtype', 'attention']],
  ['Model', ['framework', 'layers', 'hidden', 'ffn', 'heads', 'kv_heads', 'vocab', 'experts', 'experts_per_token', 'expert_ffn', 'gated_mlp', 'tied_embeddings']]];
const kBooleans = new Set(['sequence_parallel', 'distributed_optimizer', 'gated_mlp', 'tied_embeddings']);
const kCards = ['a100-40g', 'a100-80g', 'h100', 'h200', 'b200', 'gb200'];

/** Knobs that an address holds; names that can be none are left out. */
export function knobsOf(search: string): Knobs {
  const out: Knobs = {incident: '', gpu: '', capacity: '', set: {}};
  for (const [k, v] of new URLSearchParams(search)) {
    if (k === 'incident' || k === 'gpu' || k === 'capacity') out[k] = v;
    else if (/^[a-z][a-z0-9_]*$/.test(k)) out.set[k] = v;
  }
  return out;
}
export function planQuery(k: Knobs): string {
  const q = new URLSearchParams();
  for (const n of ['incident', 'gpu', 'capacity'] as const) if (k[n]) q.set(n, k[n]);
  for (const [n, v] of Object.entries(k.set)) if (v !== '') q.set(n, v);
  return q.toString();
}

/** The settings in which two configurations differ. */
export function differences(a: Plan['config'], b: Plan['config']): [string, string, string][] {
  const text = (c: Plan['config'], k: string) => { const v = c[k]?.value; return v === undefined || v === null ? '' : typeof v === 'object' ? JSON.stringify(v) : String(v); };
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].map((k): [string, string, string] => [k, text(a, k), text(b, k)]).filter(([, x, y]) => x !== y);
}

function Compared({before, after, query, drop}: {before: Plan; after: Plan; query: string; drop: () => void}) {
  const worst = (p: Plan) => p.pipeline_stages.reduce((w, s) => s.device_bytes > w.device_bytes ? s : w, p.pipeline_stages[0]);
  const a = worst(before), b = worst(after), terms = [...new Set([...a.terms, ...b.terms].map((t) => t.term))];
  const sum = (s: Stage, term: string) => s.terms.reduce((n, t) => t.term === term ? n + t.bytes : n, 0);
  const change = (n: number) => n === 0 ? 'the same' : (n > 0 ? '+' : '\u2212') + bytes(Math.abs(n));
  const row = (name: string, x: number, y: number) => <tr><th scope="row">{name}</th><td class="num">{bytes(x)}</td><td class="num">{bytes(y)}</td><td class="num">{change(y - x)}</td></tr>;
  const changed = differences(before.config, after.config);
  return <Section title="Against the plan kept" id="compared" extra={<><a href={'/plan' + (query ? '?' + query : '')}>the kept one</a> <button type="button" onClick={drop}>Drop it</button></>}>
    <p>{changed.length ? changed.slice(0, 12).map(([k, x, y]) => `${k}: ${visible(x) || 'not stated'} \u2192 ${visible(y) || 'not stated'}`).join('; ') : 'The same settings: change one on the left.'}</p>
    <div class="scroll" tabIndex={0}><table class="compare"><thead><tr><th>stage that needs most</th><th class="num" scope="col">kept</th><th class="num" scope="col">now</th><th class="num" scope="col">change</th></tr></thead><tbody>
      {row('on the device', a.device_bytes, b.device_bytes)}{row('peak allocated', a.peak_bytes, b.peak_bytes)}{row('static', a.static_bytes, b.static_bytes)}
      {terms.filter((t) => sum(a, t) || sum(b, t)).map((t) => row(t, sum(a, t), sum(b, t)))}
      <tr><th scope="row">fits</th>{[before, after].map((p) => <td>{p.fits === null ? 'unknown' : p.fits ? 'yes' : 'no'}</td>)}<td /></tr></tbody></table></div></Section>;
}

export function Planner() {
  const [knobs, setKnobs] = useState(() => knobsOf(location.search));
  const [args, setArgs] = useState('');
  const [sweep, setSweep] = useState(false);
  const [plan, setPlan] = useState<Plan | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [stage, setStage] = useState(-1);
  const [kept, setKept] = useState<{plan: Plan; query: string} | null>(null);
  const empty = !knobs.incident && !args.trim() && !Object.values(knobs.set).some(Boolean);
  useEffect(() => {
    const q = planQuery(knobs), stop = new AbortController();
    history.replaceState(null, '', '/plan' + (q ? '?' + q : ''));
    if (empty) { setPlan(null); setFault(null); return; }
    const timer = setTimeout(() => {
      const body: Record<string, unknown> = {set: Object.fromEntries(Object.entries(knobs.set).filter(([, v]) => v !== '')), sweep};
      if (knobs.incident) body.incident = knobs.incident;
      if (knobs.gpu) body.gpu = knobs.gpu;
      if (knobs.capacity) body.capacity = knobs.capacity;
      if (args.trim()) body.megatron_arguments = args;
      post<Plan>('/plan', body, stop.signal).then((p) => { setPlan(p); setFault(null); }, (e) => { if (!stop.signal.aborted) setFault(e); });
    }, 150);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [knobs, args, sweep]);
  const stated = (name: string) => { const v = plan?.config[name]?.value; return v === undefined || v === null ? '' : typeof v === 'object' ? JSON.stringify(v) : String(v); };
  const set = (name: string, value: string) => setKnobs({...knobs, set: {...knobs.set, [name]: value}});
  const stages = plan?.pipeline_stages ?? [];
  const worst = stages.reduce((w, s, i) => s.device_bytes > (stages[w]?.device_bytes ?? 0) ? i : w, 0);
  const shown = stages[stage >= 0 && stage < stages.length ? stage : worst];
  const capacity = plan?.capacity_bytes ?? 0;
  return <>
    <div class="title"><h1>Planner</h1><span class="grow" /><Copy name="Copy the link" text={() => location.href} /></div>
    <p class="dim">The memory of each rank before the run. {knobs.incident ? 'Prefilled from an incident: empty fields keep what its log states.' : 'Give a Megatron-LM command line, or settings.'}</p>
    <div class="planner">
      <form onSubmit={(e) => e.preventDefault()} aria-label="Settings">
        <fieldset><legend>Card</legend>
          <label>gpu<input list="cards" value={knobs.gpu} onInput={(e) => setKnobs({...knobs, gpu: e.currentTarget.value})} /></label>
          <datalist id="cards">{kCards.map((c) => <option value={c} />)}</datalist>
          <label>capacity<input placeholder={capacity ? bytes(capacity) : '80GiB'} value={knobs.capacity} onChange={(e) => setKnobs({...knobs, capacity: e.currentTarget.value})} /></label>
        </fieldset>
        {kGroups.map(([name, keys]) => <fieldset><legend>{name}</legend>{keys.map((k) =>
          <label>{k}{kBooleans.has(k)
            ? <select value={knobs.set[k] ?? ''} onChange={(e) => set(k, e.currentTarget.value)}><option value="">{stated(k) || 'not stated'}</option><option value="true">true</option><option value="false">false</option></select>
            : <input value={knobs.set[k] ?? ''} placeholder={stated(k)} onInput={(e) => set(k, e.currentTarget.value.trim())} />}</label>)}</fieldset>)}
        {!knobs.incident && <label>Megatron-LM command line<textarea rows={5} value={args} onInput={(e) => setArgs(e.currentTarget.value)} /></label>}
        <label class="check"><input type="checkbox" checked={sweep} onChange={(e) => setSweep(e.currentTarget.checked)} />list the layouts that fit</label>
      </form>
      <div aria-live="polite">
        {fault ? <Trouble of={fault} /> : null}
        {!plan && !fault && <p class="dim">{empty ? 'Nothing is set yet.' : 'Reckoning.'}</p>}
        {plan && shown && <>
          <p class="summary verdict-line">{plan.fits === null ? 'No capacity is known: name a card.' : plan.fits ? <b class="fit">Fits</b> : <b class="open">Does not fit</b>} Largest need: {bytes(stages[worst].device_bytes)}{capacity > 0 && ` of ${bytes(capacity)}`}, stage {stages[worst].pipeline_rank} in {stages[worst].peak_phase}.</p>
          <p><button type="button" onClick={() => setKept({plan, query: planQuery(knobs)})}>{kept ? 'Compare with this one instead' : 'Keep this plan to compare'}</button></p>
          {plan.verdict && <p><Foreign text={plan.verdict} /></p>}
          <Section title="Stages" id="stages"><div class="scroll" tabIndex={0}><table><thead><tr><th>stage</th><th>layers</th><th class="num">static</th><th class="num">peak allocated</th><th class="num">on the device</th><th>peak in</th></tr></thead><tbody>
            {stages.map((s, i) => <tr><td><button type="button" aria-pressed={s === shown} onClick={() => setStage(i)}>{s.pipeline_rank}</button></td><td>{s.layers}</td><td class="num">{bytes(s.static_bytes)}</td>
              <td class="num" title={`${bytes(s.peak_range.low)} to ${bytes(s.peak_range.high)}`}>{bytes(s.peak_bytes)}</td><td class={'num ' + (capacity && s.device_bytes > capacity ? 'open' : '')}>{bytes(s.device_bytes)}</td><td>{s.peak_phase}</td></tr>)}
          </tbody></table></div>{stages.length > 1 && <StageBars stages={stages} capacity={capacity} />}</Section>
          {kept && <Compared before={kept.plan} after={plan} query={kept.query} drop={() => setKept(null)} />}
          <Section title={`Ledger of stage ${shown.pipeline_rank}`} id="terms"><Stack whole={capacity} label="Ledger" parts={shown.terms.filter((t) => t.bytes > 0).map((t) => ({name: t.term, bytes: t.bytes, colour: 'c-' + termColour(t.term), text: bytes(t.bytes), note: t.note ?? undefined}))} /></Section>
          {plan.sweep && <Section title={`Layouts that fit, of ${plan.sweep.tried}`} id="layouts">
            {plan.sweep.fit.length ? <div class="scroll" tabIndex={0}><table><thead><tr><th>layout</th><th class="num">peak allocated</th><th>range</th></tr></thead><tbody>{plan.sweep.fit.slice(0, 100).map((l) => <tr><td><code>{visible(l.layout)}</code></td><td class="num">{bytes(l.need.peak_bytes)}</td><td class="dim">{bytes(l.need.low)} to {bytes(l.need.high)}</td></tr>)}</tbody></table></div>
              : <p>None fits.{plan.sweep.nearest && ` The nearest is ${visible(plan.sweep.nearest.layout)}, short by ${bytes(plan.sweep.nearest.short_by_bytes)}.`}</p>}</Section>}
          {plan.fixes.length > 0 && <Section title="What each change saves" id="changes"><div class="scroll" tabIndex={0}><table><thead><tr><th>change</th><th>saves</th><th>peak</th><th>set</th></tr></thead><tbody>
            {plan.fixes.slice(0, 20).map((f) => <tr><td><Foreign text={f.title} /></td><td class="num">{f.saving_bytes ? bytes(f.saving_bytes.mid) : ''}</td><td class="num">{bytes(f.predicted_peak_bytes)}</td><td><code><Foreign text={f.apply[0]?.set ?? ''} /></code></td></tr>)}</tbody></table></div></Section>}
          {(plan.assumptions?.length ?? 0) > 0 && <details><summary>Assumed ({plan.assumptions!.length})</summary><ul class="plain">{plan.assumptions!.map((x) => <li><Foreign text={x.text} /></li>)}</ul></details>}
        </>}
      </div>
    </div>
  </>;
}
