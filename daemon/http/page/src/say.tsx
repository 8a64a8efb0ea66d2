// What a person says of an incident: did it help, was it right; and silences.
import {useState} from 'preact/hooks';
import {post, type Answer, type Feedback} from './api';
import {visible} from './format';
import {Foreign, Time, Trouble} from './shared';

export function Verdict({incident, fix, said, done}: {incident: string; fix: string | null; said: Feedback[]; done: () => void}) {
  const [note, setNote] = useState('');
  const [fault, setFault] = useState<unknown>(null);
  const mine = said.filter((f) => f.fix === fix);
  const tell = async (helped: boolean) => {
    try {
      await post(`/incidents/${encodeURIComponent(incident)}/feedback`, {fix, helped, note});
      setFault(null);
      setNote('');
      done();
    } catch (e) { setFault(e); }
  };
  return <div class="verdict">
    {mine.map((f) => <p>{fix ? (f.helped ? 'It helped' : 'It did not help') : f.helped ? 'Said to be right' : 'Said to be wrong'}, <Time at={f.said_at} />{f.note && <>: <Foreign text={f.note} /></>}</p>)}
    <label class="note">Note<input value={note} maxLength={4000} onInput={(e) => setNote(e.currentTarget.value)} /></label>
    <button type="button" onClick={() => tell(true)}>{fix ? 'It helped' : 'Right'}</button>
    <button type="button" onClick={() => tell(false)}>{fix ? 'It did not help' : 'Wrong'}</button>
    {fault ? <Trouble of={fault} /> : null}
  </div>;
}

export function Silence({a, close}: {a: Answer; close: () => void}) {
  const [fault, setFault] = useState<unknown>(null);
  const [made, setMade] = useState('');
  const choices: [string, string, Record<string, string>][] = [['fingerprint', 'this cause, wherever it comes', {fingerprint: a.fingerprint}], ['kind', `every ${visible(a.kind)}`, {kind: a.kind}]];
  if (a.job) choices.push(['job', `everything of job ${visible(a.job)}`, {job: a.job}]);
  if (a.root.node) choices.push(['node', `everything of node ${visible(a.root.node)}`, {node: a.root.node}]);
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const match = choices.find((c) => c[0] === form.get('match'))![2];
    try {
      const s = await post<{ends_at: string}>('/silences', {match, reason: String(form.get('reason')), author: String(form.get('author') ?? ''), duration: String(form.get('duration'))});
      setMade(s.ends_at);
      setFault(null);
    } catch (x) { setFault(x); }
  };
  if (made) return <p class="box" role="status">No alerts for it until <Time at={made} />. <button type="button" onClick={close}>Close</button></p>;
  return <form class="box silence" onSubmit={submit} aria-label="Silence">
    <p>Incidents are still kept and shown; only their alerts stay away.</p>
    <label>What<select name="match">{choices.map(([v, n]) => <option value={v}>{n}</option>)}</select></label>
    <label>For how long<select name="duration"><option value="1h">1 hour</option><option value="4h" selected>4 hours</option><option value="1d">1 day</option><option value="7d">7 days</option></select></label>
    <label>Reason<input name="reason" required maxLength={2000} /></label>
    <label>Your name<input name="author" maxLength={200} autocomplete="name" /></label>
    <button>Silence</button> <button type="button" onClick={close}>Cancel</button>
    {fault ? <Trouble of={fault} /> : null}
  </form>;
}
