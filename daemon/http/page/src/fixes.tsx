// The fixes in order, each with what it does to the peak; two of them side by side.
import {useState} from 'preact/hooks';
import type {Answer, Feedback, Fix} from './api';
import {bytes, visible} from './format';
import {Verdict} from './say';
import {Copy, Foreign, Section} from './shared';

/** The peak before a change: the predicted one plus the saving, or else what the ledger says was needed. */
export function peakBefore(fix: Fix, a: Answer): number | null {
  if (fix.predicted_peak_bytes !== null && fix.saving_bytes) return fix.predicted_peak_bytes + fix.saving_bytes.mid;
  const l = a.ledger;
  return l && l.tried_bytes !== null && l.in_use_bytes !== null ? l.in_use_bytes + l.tried_bytes : null;
}

export function costText(fix: Fix): string {
  const {low, high} = fix.cost.step_time_percent;
  const out: string[] = [];
  if (low !== null || high !== null) out.push(low === high || low === null || high === null ? `step time ${high ?? low} %` : `step time ${low} to ${high} %`);
  if (fix.cost.note) out.push(fix.cost.note);
  return out.join('; ');
}

function Bars({fix, a, limit}: {fix: Fix; a: Answer; limit: number | null}) {
  const before = peakBefore(fix, a), after = fix.predicted_peak_bytes;
  if (before === null || after === null) return null;
  const most = Math.max(before, after, limit ?? 0) * 1.02;
  const bar = (name: string, size: number) => <div class="row2"><span>{name}</span><div class="track">
    <i class={limit !== null && size > limit ? 'over' : 'ok'} style={{width: 100 * size / most + '%'}} />
    {limit !== null && <b class="limit" style={{left: 100 * limit / most + '%'}} />}</div><span class="num">{bytes(size)}</span></div>;
  return <div class="bars" role="img" aria-label={`peak before ${bytes(before)}, after ${bytes(after)}, limit ${bytes(limit)}`}>{bar('before', before)}{bar('after', after)}</div>;
}

/** " (a to b)" where the bounds differ as shown. */
function spread(f: Fix): string {
  const low = bytes(f.saving_bytes?.low), high = bytes(f.saving_bytes?.high);
  return f.saving_bytes && low !== high ? ` (${low} to ${high})` : '';
}

/** What to set for the programs that the run names; where it names none, for the likeliest one. The rest is for a fold. */
export function settingsOf(fix: Fix, frameworks: string[]): {shown: Fix['apply']; rest: Fix['apply']} {
  const fits = (name: string) => name === 'any' || frameworks.includes(name);
  let shown = fix.apply.filter((s) => fits(s.framework));
  if (!shown.length || !frameworks.length) {   // nothing is named: what is for all programs, and the likeliest one
    const first = fix.apply.find((s) => s.framework !== 'any');
    if (first && !shown.includes(first)) shown = [...shown, first];
  }
  return {shown, rest: fix.apply.filter((s) => !shown.includes(s))};
}

const kPrograms: Record<string, string> = {pytorch: 'plain PyTorch', huggingface: 'Hugging Face', 'megatron-lm': 'Megatron-LM', 'megatron-bridge': 'Megatron Bridge', nemo: 'NeMo', 'nemo-rl': 'NeMo RL', torchtitan: 'torchtitan',
  deepspeed: 'DeepSpeed', jax: 'JAX', maxtext: 'MaxText', lightning: 'Lightning', accelerate: 'Accelerate', slurm: 'Slurm', kubernetes: 'Kubernetes', ray: 'Ray', vllm: 'vLLM', sglang: 'SGLang'};
const program = (name: string) => kPrograms[name] ?? name;

function Settings({fix, frameworks}: {fix: Fix; frameworks: string[]}) {
  const {shown, rest} = settingsOf(fix, frameworks);
  const one = (s: Fix['apply'][number], named: boolean) => <div class="apply"><code class="flag" dir="ltr">{named && <small>{program(s.framework)}: </small>}{visible(s.set)}</code><Copy name="copy" text={s.set} /></div>;
  return <>{shown.map((s) => one(s, shown.length > 1 && s.framework !== 'any'))}
    {rest.length > 0 && <details class="others"><summary>{frameworks.length ? '' : `The log does not name the training program${shown[0] && shown[0].framework !== 'any' ? `; this is for ${program(shown[0].framework)}` : ''}. `}Also for {rest.map((s) => program(s.framework)).join(', ')}</summary>{rest.map((s) => one(s, true))}</details>}</>;
}

const kFirst = 3;   // fixes that stand open; the others are a click away

export function Fixes({a, counts, limit, incident, said, reload}: {a: Answer; counts: {fix: string | null; helped: number; tried: number}[]; limit: number | null; incident: string; said: Feedback[]; reload: () => void}) {
  const [picked, setPicked] = useState<string[]>([]);
  const two = picked.map((id) => a.fixes.find((f) => f.id === id)).filter((f): f is Fix => !!f);
  const pick = (id: string) => setPicked(picked.includes(id) ? picked.filter((x) => x !== id) : [...picked, id].slice(-2));
  const barred = a.fixes.some((f) => f.predicted_peak_bytes !== null && peakBefore(f, a) !== null);
  const one = (f: Fix, i: number) => {
    const record = counts.find((c) => c.fix === f.id);
    return <li key={f.id}>
        <div class="head"><h3>{i + 1}. <Foreign text={f.title} /></h3>
          {f.fits !== null && <span class={'tag ' + (f.fits ? 'good' : 'bad')}>{f.fits ? 'fits' : 'not enough alone'}</span>}
          <span class="tag" title="MEASURED in this run, MODELLED from its configuration, RULE of thumb">{f.basis}</span></div>
        <Settings fix={f} frameworks={a.framework} />
        <Bars fix={f} a={a} limit={limit} />
        <p class="cost">{f.saving_bytes && <>saves <b>{bytes(f.saving_bytes.mid)}</b>{spread(f)}. </>}{costText(f) && <>Cost: <Foreign text={costText(f)} />. </>}
          {record && record.tried > 0 && <b>Helped {record.helped} of {record.tried} times here.</b>}</p>
        <details><summary>Why, and what it rests on</summary>
          {f.why && <p><Foreign text={f.why} /></p>}
          {f.assumes.length > 0 && <ul class="plain">{f.assumes.map((x) => <li>assumes <Foreign text={x} /></li>)}</ul>}
          {f.sources.length > 0 && <p class="dim">{f.sources.map((s) => <><Foreign text={s} /> </>)}</p>}
          {a.fixes.length > 1 && <label class="check"><input type="checkbox" checked={picked.includes(f.id)} onChange={() => pick(f.id)} />{picked.length === 1 && !picked.includes(f.id) ? 'compare with the one picked' : 'compare with another'}</label>}
          <Verdict incident={incident} fix={f.id} said={said} done={reload} />
        </details>
    </li>;
  };
  return <Section title="Fixes" id="fixes" extra={a.fixes.length > 0 ? <span class="dim">best first{barred && limit !== null && <>; bars: PyTorch’s peak, the line: {bytes(limit)}</>}</span> : null}>
    {a.plan && <p><Foreign text={a.plan} /></p>}
    {!a.fixes.length && <p class="dim">{a.first_action ? 'No setting mends this; see “First” under Why.' : 'No fix is known for this cause.'}</p>}
    {two.length === 2 && <div class="scroll" tabIndex={0}><table class="compare"><caption>Side by side</caption>
      <thead><tr><td />{two.map((f) => <th scope="col">{visible(f.title)}</th>)}</tr></thead><tbody>
      <tr><th scope="row">peak</th>{two.map((f) => <td>{bytes(f.predicted_peak_bytes)}</td>)}</tr>
      <tr><th scope="row">saves</th>{two.map((f) => <td>{f.saving_bytes ? bytes(f.saving_bytes.mid) + spread(f) : 'unknown'}</td>)}</tr>
      <tr><th scope="row">fits</th>{two.map((f) => <td>{f.fits === null ? 'unknown' : f.fits ? 'yes' : 'no'}</td>)}</tr>
      <tr><th scope="row">cost</th>{two.map((f) => <td>{visible(costText(f)) || 'none known'}</td>)}</tr>
      <tr><th scope="row">basis</th>{two.map((f) => <td>{f.basis}</td>)}</tr></tbody></table></div>}
    <ol class="fixes">{a.fixes.slice(0, kFirst).map(one)}</ol>
    {a.fixes.length > kFirst && <details class="more-fixes"><summary>{a.fixes.length - kFirst} more: {visible(a.fixes.slice(kFirst).map((f) => f.title).join('; '))}</summary>
      <ol class="fixes">{a.fixes.slice(kFirst).map((f, i) => one(f, i + kFirst))}</ol></details>}
    {Object.keys(a.config).length > 6 && <p><a href={'/plan?incident=' + encodeURIComponent(incident)}>Try other settings in the planner</a></p>}
  </Section>;
}
