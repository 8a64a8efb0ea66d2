// One incident: what, where, why and the fixes on one screen; then the evidence in its context.
import {useEffect, useMemo, useState} from 'preact/hooks';
import {get, type Answer, type Detail, type Ledger} from './api';
import {bytes, family, namedRanks, percent, telling, visible} from './format';
import {Fixes} from './fixes';
import {LogView, type Place} from './logview';
import {markdown} from './markdown';
import {Ranks, oneOf, rankStates} from './ranks';
import {Silence, Verdict} from './say';
import {Copy, Foreign, Path, Section, Stack, Time, Trouble, go, later, onEvent, termColour, type Part} from './shared';

/** The ledger's parts: they sum up to the capacity where all are known. */
export function ledgerParts(l: Ledger): Part[] {
  const out: Part[] = [];
  const add = (name: string, count: number | null, colour: string, note?: string) => { if (count) out.push({name, bytes: count, colour, text: bytes(count), note}); };
  add('allocated by PyTorch', l.allocated_bytes, 'c-activations');
  add('reserved, unallocated', l.reserved_unallocated_bytes, 'c-gradients', 'in the cache, but in pieces that do not fit');
  add('outside PyTorch', l.outside_pytorch_bytes, 'c-optimizer', 'CUDA context, NCCL, libraries');
  if (l.allocated_bytes === null) add('this process', l.in_use_bytes, 'c-activations');
  add('other processes', l.other_processes.reduce((s, p) => s + p.bytes, 0), 'c-logits', l.other_processes.map((p) => `pid ${p.pid}: ${bytes(p.bytes)}`).join(', '));
  add('free', l.free_bytes, 'c-free');
  return out;
}

/** Places of what followed: of each kind the first line of each rank that printed one, in the order of the lines' sources; each line once. */
export function echoPlaces(a: Answer): Place[] {
  const out: Place[] = [], seen = new Set<string>();
  const add = (source: string, line: number, kind: string, rank: number | null) => {
    const key = `${kind} ${rank ?? ''}`, place = `${source}:${line}`;
    if (!line || seen.has(key) || seen.has(place) || source === a.root.source && line === a.root.line) return;
    seen.add(key).add(place);
    out.push({source, line, name: kind + (rank !== null ? `, rank ${rank}` : ''), what: 'echo'});
  };
  const echoes = new Map(a.echoes.map((e) => [e.kind, e]));
  for (const e of a.echoes) {
    const ranked = a.findings.filter((f) => f.role !== 'root' && f.kind === e.kind && f.source && f.rank !== null && e.ranks.includes(f.rank));
    for (const f of ranked) add(f.source!, f.line, e.kind, f.rank);
    if (!ranked.length && echoes.get(e.kind) === e) add(e.source ?? a.root.source, e.first_line, e.kind, e.ranks.length === 1 ? e.ranks[0] : null);   // of several ranks it is not known whose line the first one is
  }
  return out;
}

const kCauses: [string, string][] = [
  ['gpu.oom.capacity', 'The GPU memory is full'], ['gpu.oom.fragmentation', 'The GPU memory is in pieces'], ['gpu.oom.other_process', 'Another process fills the GPU'],
  ['gpu.oom.limit', 'A memory limit was reached'], ['gpu.oom', 'Out of GPU memory'], ['host.oom', 'Out of host memory'], ['host.', 'Host memory'],
  ['nccl.timeout', 'A collective timed out'], ['nccl.', 'Collective communication failed'], ['dist.', 'The ranks lost one another'], ['cuda.', 'The GPU program failed'],
  ['gpu.xid', 'The driver reports a GPU fault'], ['gpu.', 'The GPU failed'], ['sched.', 'The scheduler ended it'], ['proc.', 'A process ended'], ['io.', 'Storage failed'],
  ['ckpt.', 'The checkpoint'], ['num.', 'The numbers went wrong'], ['data.', 'The data'], ['config.', 'The configuration'], ['env.', 'The environment'], ['user.', 'The training program raised'],
  ['jax.oom', 'Out of device memory'], ['triton.', 'Out of shared memory']];
const causeOf = (kind: string) => kCauses.find(([k]) => kind.startsWith(k))?.[1] ?? 'Failure';

const Stages = later(() => import('./stages').then((m) => m.IncidentStages));

export function IncidentPage({id}: {id: string}) {
  const [detail, setDetail] = useState<Detail | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const load = () => get<Detail>('/incidents/' + encodeURIComponent(id)).then((d) => { setDetail(d); setFault(null); document.title = `${d.incident.kind} - triaged`; }, setFault);
  useEffect(() => {
    load();
    const stop = onEvent((e) => { if ((e.type.startsWith('incident.') || e.type === 'feedback') && e.data.includes(id) || e.type === 'reset') load(); });
    return () => { stop(); document.title = 'triaged'; };
  }, [id]);
  if (fault && !detail) return <><Trouble of={fault} /><p><a href="/" onClick={(e) => { e.preventDefault(); go('/'); }}>All incidents</a></p></>;
  if (!detail) return <p class="dim">Loading.</p>;
  const a = detail.answer;
  return a ? <Whole detail={detail} a={a} load={load} /> : <p>The answer of this incident is not kept any more. <Foreign text={detail.incident.summary} /></p>;
}

function Whole({detail, a, load}: {detail: Detail; a: Answer; load: () => void}) {
  const row = detail.incident, root = a.root;
  const [silence, setSilence] = useState(false);
  const places = useMemo<Place[]>(() => {
    const out: Place[] = [{source: root.source, line: root.line, name: 'root' + (root.rank !== null ? `, rank ${root.rank}` : ''), what: 'root'}];
    for (const e of a.also ?? []) out.push({source: e.source, line: e.line, name: 'also' + (e.rank !== null ? `, rank ${e.rank}` : ''), what: 'also'});
    return [...out, ...echoPlaces(a)];
  }, [row.id, row.revision]);
  const fact = (name: string, value: unknown) => value === null || value === undefined || value === '' ? null : <div><dt>{name}</dt><dd><Foreign text={String(value)} /></dd></div>;
  const told = telling(root.text);
  const limit = a.ledger?.limit_bytes ?? a.ledger?.capacity_bytes ?? null;
  const composed = a.composition.reduce((s, c) => s + c.bytes, 0);
  const echoed = a.echoes.reduce((s, e) => s + e.count, 0);
  return <>
    <p class="crumb"><a href="/" onClick={(e) => { e.preventDefault(); if (history.length > 1) history.back(); else go('/'); }}>Incidents</a> / {row.id}</p>
    <div class="title">
      <h1><span class={'kind f-' + family(a.kind)}>{visible(a.kind)}</span> {causeOf(a.kind)}</h1>
      <span class="grow" />
      {row.open ? <b class="open" title="The job still runs or its logs still grow: this may change">open</b> : <span class="dim" title="Nothing more came from this attempt: the answer is final">closed</span>}
      <Copy name="Copy as Markdown" text={() => markdown(a, location.href)} />
      <button type="button" aria-expanded={silence} onClick={() => setSilence(!silence)}>Silence</button>
    </div>
    <p class="summary"><Foreign text={a.summary} /></p>
    {a.fixes.length > 0 && <p class="lead">Fix: <a href="#fixes">{visible(a.fixes[0].title)}</a>{a.fixes.length > 1 && `, and ${a.fixes.length - 1} more`}</p>}
    {silence && <Silence a={a} close={() => setSilence(false)} />}
    <div class="answer">
      <div>
        <Section title="What" id="what">
          <pre class="root" tabIndex={0}><code dir="ltr">{visible(told.text)}</code></pre>
          {told.cut && <p class="dim">Part of a long line; more of it stands under Evidence.</p>}
        </Section>
        <Section title="Where" id="where"><dl class="facts">
          {a.job && a.job !== root.source && <div><dt>job</dt><dd><Path text={a.job} /></dd></div>}{a.attempt > 1 && fact('attempt', a.attempt)}{root.node && <div><dt>node</dt><dd><Path text={root.node} /></dd></div>}{fact('rank', root.rank)}{fact('GPU', root.device)}{fact('step', root.step)}{fact('phase', a.phase)}
          {fact('pid', root.pid)}{fact('framework', a.framework.join(', '))}
          {root.time || row.occurred_at ? <div><dt>time</dt><dd><Time at={root.time ?? row.occurred_at} /></dd></div> : <div><dt title="The log tells no time">read at</dt><dd><Time at={row.opened_at} /></dd></div>}
          <div class="long"><dt>line</dt><dd><Foreign text={`${root.source}:${root.line ?? '?'}`} /></dd></div>
        </dl>
        {root.frames.length > 0 && <details><summary>Traceback, {root.frames.length} {root.frames.length === 1 ? 'frame' : 'frames'}; innermost: <Foreign text={`${root.frames[root.frames.length - 1].function ?? '?'}`} /></summary>
          <ol class="frames" reversed>{[...root.frames].reverse().map((f) => <li><b><Foreign text={f.function ?? '?'} /></b> <span class="dim"><Foreign text={`${f.file}:${f.line ?? '?'}`} /></span></li>)}</ol></details>}
        </Section>
        <Section title="Why" id="why" extra={<span class="dim" title="How sure the diagnosis is">confidence {percent(a.confidence)}</span>}>
          <ul class="plain">{a.reasons.map((r) => <li><Foreign text={r} /></li>)}</ul>
          {a.first_action && <p class="first"><b>First:</b> <Foreign text={a.first_action} /></p>}
          {echoed > 0 && <p class="dim">{echoed} other {echoed === 1 ? 'line follows' : 'lines follow'} from it and {echoed === 1 ? 'is' : 'are'} no cause: {a.echoes.map((e) => `${e.kind} \u00d7${e.count}${e.ranks.length ? ' (' + namedRanks(e.ranks) + ')' : ''}`).join(', ')}.</p>}
          {a.collective && <p>{visible([a.collective.operation, a.collective.sequence !== null ? 'number ' + a.collective.sequence : '', a.collective.process_group ? 'group ' + a.collective.process_group : ''].filter(Boolean).join(', '))}
            {a.collective.culprit_ranks.length > 0 && <>; waited for <b>{namedRanks(a.collective.culprit_ranks)}</b></>}
            {oneOf(a).map((set) => <>; stands still: one of <b>rank {set}</b></>)}{a.collective.note && <>; <Foreign text={a.collective.note} /></>}</p>}
        </Section>
        {a.ledger && <Section title="Where the memory went" id="ledger" extra={limit ? <span class="dim">of {bytes(limit)}</span> : null}>
          <Stack parts={ledgerParts(a.ledger)} whole={a.ledger.capacity_bytes ?? 0} label="Memory of the device" />
          {a.ledger.tried_bytes !== null && <p>The request was for <b>{bytes(a.ledger.tried_bytes)}</b>.</p>}
          {a.ledger.note && <p class="dim"><Foreign text={a.ledger.note} /></p>}
        </Section>}
        {composed > 0 && <Section title="What fills it" id="composition" extra={<span class="tag">{[...new Set(a.composition.map((c) => c.basis + (c.in_doubt ? ', in doubt' : '')))].join(', ')}</span>}>
          <Stack parts={a.composition.map((c) => ({name: c.term, bytes: c.bytes, colour: 'c-' + termColour(c.term), text: bytes(c.bytes)}))} whole={limit ?? 0} label="Composition" />
          {limit !== null && composed > limit && <p>Together <b>{bytes(composed)}</b>, more than the device has: the run never got that far.</p>}
        </Section>}
        {Number(a.config.pipeline_parallel?.value) > 1 && /\.oom/.test(a.kind) && <Section title="By pipeline stage" id="stages"><Stages incident={row.id} /></Section>}
      </div>
      <div><Fixes a={a} counts={detail.fix_counts} limit={limit} incident={row.id} said={detail.feedback} reload={load} /></div>
    </div>
    <Section title="Evidence" id="evidence"><LogView incident={row.id} places={places} /></Section>
    {rankStates(a).length > 1 && <Section title="Ranks" id="ranks"><Ranks answer={a} /></Section>}
    {a.missing.length > 0 && <Section title="To be surer next time" id="missing"><ul class="plain">{a.missing.map((m) => <li><Foreign text={m.what} />{m.set && <> <code class="flag">{visible(m.set)}</code> <Copy name="copy" text={m.set} /></>}</li>)}</ul></Section>}
    <Section title="Was this right?" id="verdict"><Verdict incident={row.id} fix={null} said={detail.feedback} done={load} /></Section>
    {Object.keys(a.config).length > 0 && <details class="more"><summary>Configuration that the log states ({Object.keys(a.config).length})</summary>
      <div class="scroll" tabIndex={0}><table><thead><tr><th>setting</th><th>value</th><th>from</th></tr></thead><tbody>
        {Object.entries(a.config).map(([k, v]) => <tr><td>{k}</td><td><Foreign text={typeof v.value === 'string' ? v.value : JSON.stringify(v.value)} /></td><td class="dim"><Foreign text={v.origin + (v.line ? `, line ${v.line}` : '')} /></td></tr>)}
      </tbody></table></div></details>}
    <details class="more"><summary>Findings ({a.findings.length})</summary>
      <div class="scroll" tabIndex={0}><table><thead><tr><th>rule</th><th>role</th><th>rank</th><th>line</th></tr></thead><tbody>
        {a.findings.slice(0, 500).map((f) => <tr><td>{f.rule}</td><td>{f.role}</td><td>{f.rank ?? ''}</td><td><Foreign text={`${f.source ? f.source.split('/').pop() : ''}:${f.line}`} /></td></tr>)}
      </tbody></table></div></details>
    <p class="dim">Opened <Time at={row.opened_at} />, changed <Time at={row.changed_at} />, cause <a href={'/?text=' + encodeURIComponent(row.kind)}>{row.fingerprint}</a>{row.seen > 1 && `, seen ${row.seen} times`}</p>
  </>;
}
