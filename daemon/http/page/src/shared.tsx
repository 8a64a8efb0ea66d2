// What all views share: the path, events of the stream, small pieces.
import {useEffect, useState} from 'preact/hooks';
import type {ComponentChildren, ComponentType} from 'preact';
import {Problem, type StreamEvent} from './api';
import {localTime, shortPath, utcTime, visible} from './format';

export function go(to: string) {
  history.pushState(null, '', to);
  dispatchEvent(new PopStateEvent('popstate'));
  scrollTo(0, 0);
  document.getElementById('main')?.focus({preventScroll: true});
}
export function usePath(): string {
  const [path, set] = useState(location.pathname);
  useEffect(() => {
    const f = () => set(location.pathname);
    addEventListener('popstate', f);
    return () => removeEventListener('popstate', f);
  }, []);
  return path;
}

const listeners = new Set<(e: StreamEvent) => void>();
export function tellEvent(e: StreamEvent) { for (const f of listeners) f(e); }
export function onEvent(f: (e: StreamEvent) => void): () => void { listeners.add(f); return () => { listeners.delete(f); }; }

/** A view that is loaded when it is first shown. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): (props: P) => preact.JSX.Element {
  return function Later(props: P) {
    const [View, set] = useState<{view: ComponentType<P>} | null>(null);
    useEffect(() => { load().then((view) => set({view})); }, []);
    return View ? <View.view {...props} /> : <p class="dim">Loading.</p>;
  };
}

export const Time = ({at}: {at: string | null | undefined}) => at ? <time dateTime={at} title={utcTime(at)}>{localTime(at)}</time> : <span class="dim">unknown</span>;

/** Text that somebody else wrote. `title`: the whole of it where only a part is shown. */
export const Foreign = ({text, title}: {text: string; title?: string}) => <bdi title={title === undefined || title === text ? undefined : visible(title)}>{visible(text)}</bdi>;
export const Path = ({text}: {text: string}) => <Foreign text={shortPath(text)} title={text} />;

export function Trouble({of}: {of: unknown}) {
  const p = of as Problem;
  return <p class="warn" role="alert">{p.message}{p.help ? ` (${p.help})` : ''}</p>;
}

export function Copy({text, name}: {text: string | (() => string); name: string}) {
  const [said, say] = useState('');
  return <button type="button" onClick={async () => {
    const value = typeof text === 'string' ? text : text();
    let ok = true;
    try { await navigator.clipboard.writeText(value); } catch {
      const area = document.createElement('textarea');   // without TLS browsers give no clipboard
      area.value = value;
      document.body.append(area);
      area.select();
      ok = document.execCommand('copy');
      area.remove();
    }
    say(ok ? 'copied' : 'not copied');
    setTimeout(() => say(''), 1500);
  }}><span aria-live="polite">{said || name}</span></button>;
}

export const Section = ({title, id, children, extra}: {title: string; id: string; children: ComponentChildren; extra?: ComponentChildren}) =>
  <section aria-labelledby={id}><div class="head"><h2 id={id}>{title}</h2>{extra}</div>{children}</section>;

/** Colour of a term of the memory model. */
export const termColour = (term: string) => ['weights', 'gradients', 'optimizer', 'activations', 'logits', 'buffers'].find((c) => term.startsWith(c)) ?? 'unattributed';

/** Parts of a whole as one bar with a legend; `colours` are class names. */
export interface Part { name: string; bytes: number; colour: string; text: string; note?: string }
export function Stack({parts, whole, label}: {parts: Part[]; whole: number; label: string}) {
  const most = Math.max(whole, parts.reduce((s, p) => s + p.bytes, 0), 1);
  return <div class="stack">
    <div class="bar" role="img" aria-label={label + ': ' + parts.map((p) => `${p.name} ${p.text}`).join(', ')}>
      {parts.map((p) => <i class={p.colour} style={{width: 100 * Math.max(0, p.bytes) / most + '%'}} title={`${p.name} ${p.text}`} />)}
    </div>
    <ul class="legend">{parts.map((p) => <li title={p.note}><i class={p.colour} />{p.name} <b>{p.text}</b></li>)}</ul>
  </div>;
}
