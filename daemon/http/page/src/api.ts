// The service's API, /api/v1: requests, problems, and the event stream. The token lives in this tab's memory of the session only.

export interface Row {
  id: string; fingerprint: string; kind: string; severity: string | null; phase: string | null; summary: string; job: string | null; attempt: number;
  node: string | null; rank: number | null; step: number | null; source: string; line: number; confidence: number; open: boolean; revision: number;
  opened_at: string; changed_at: string; occurred_at: string | null; seen: number;
}
export interface Frame { file: string; line: number | null; function: string | null }
export interface Evidence {
  source: string; line: number | null; offset: number; text: string; rank: number | null; local_rank: number | null; node: string | null;
  device: number | null; pid: number | null; time: string | null; step: number | null; frames: Frame[];
}
export interface Echo { kind: string; count: number; ranks: number[]; source: string | null; first_line: number }
export interface Ledger {
  capacity_bytes: number | null; free_bytes: number | null; tried_bytes: number | null; in_use_bytes: number | null; allocated_bytes: number | null;
  reserved_unallocated_bytes: number | null; outside_pytorch_bytes: number | null; limit_bytes: number | null;
  other_processes: {pid: number; bytes: number}[]; note?: string | null;
}
export interface Fix {
  id: string; rank: number; title: string; apply: {framework: string; set: string}[]; saving_bytes: {low: number; mid: number; high: number} | null;
  predicted_peak_bytes: number | null; fits: boolean | null; cost: {step_time_percent: {low: number | null; high: number | null}; note: string | null};
  basis: string; why: string | null; assumes: string[]; sources: string[]; parts?: string[];
}
export interface Collective {
  operation: string | null; sequence: number | null; process_group: string | null; culprit_ranks: number[]; waiting_ranks: number[]; silent_ranks: number[];
  one_of?: number[][]; note?: string | null;
}
export interface Found { rule: string; role: string; kind: string | null; source: string | null; line: number; count?: number; rank: number | null; captures: Record<string, unknown> }
export interface Answer {
  id: string; fingerprint: string; kind: string; backend: string | null; phase: string | null; confidence: number; reasons: string[]; summary: string;
  job: string | null; attempt: number; framework: string[]; root: Evidence; also?: Evidence[]; echoes: Echo[]; ledger: Ledger | null;
  collective: Collective | null; composition: {term: string; bytes: number; basis: string; in_doubt?: boolean}[];
  config: Record<string, {value: unknown; origin: string; source: string | null; line: number | null}>; first_action?: string | null; fixes: Fix[];
  plan?: string | null; missing: {what: string; set: string | null}[]; findings: Found[];
}
export interface Feedback { fix: string | null; helped: boolean; note: string; said_at: string }
export interface Detail { incident: Row; answer: Answer | null; feedback: Feedback[]; fix_counts: {fix: string | null; helped: number; tried: number}[] }
export interface Line { number: number | null; offset: number; text: string; cut: boolean }
export interface Context { source: string; size: number; from_spool: boolean; lines: Line[] }
export interface NodeRow { node: string; device: number | null; incidents: number; jobs: number; kinds: {kind: string; count: number}[]; first_at: string; last_at: string; last_incident: string }
export interface Counts { since: string; until: string; step_s: number; buckets: {start: string; key: string | null; count: number}[] }

export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, detail: string, readonly help: string) { super(detail); }
}

let token = globalThis.sessionStorage?.getItem('token') ?? '';
export function useToken(value: string) {
  token = value;
  if (value) sessionStorage.setItem('token', value); else sessionStorage.removeItem('token');
}
export function headers(more: Record<string, string> = {}): Record<string, string> {
  return token ? {...more, Authorization: 'Bearer ' + token} : more;
}

/** The problem that an answer tells. */
export function problemOf(status: number, text: string): Problem {
  try {
    const p = JSON.parse(text) as Record<string, unknown>;
    const detail = [p.detail ?? p.title, p.reason].filter((x) => typeof x === 'string' && x).join(': ');
    return new Problem(status, String(p.code ?? ''), detail || 'the service answered ' + status, typeof p.help === 'string' ? p.help : '');
  } catch {
    return new Problem(status, '', status ? 'the service answered ' + status : 'the service does not answer', '');
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;
export function url(path: string, query: Query = {}): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) if (v !== undefined && v !== null && v !== '') q.set(k, String(v));
  const text = q.toString();
  return '/api/v1' + path + (text ? '?' + text : '');
}

async function call<T>(method: string, path: string, query: Query, body?: unknown, signal?: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(url(path, query), {method, signal, headers: headers(body === undefined ? {} : {'Content-Type': 'application/json'}),
                                            body: body === undefined ? undefined : JSON.stringify(body)});
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new Problem(0, 'no_answer', 'the service does not answer', 'triage status, on its host, says how it is');
  }
  if (!answer.ok) throw problemOf(answer.status, await answer.text());
  return (answer.status === 204 ? null : await answer.json()) as T;
}
export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal) => call<T>('GET', path, query, undefined, signal);
export const post = <T>(path: string, body: unknown, signal?: AbortSignal) => call<T>('POST', path, {}, body, signal);

const graphs = new Map<string, Promise<unknown>>();
/** Graph of a snapshot. May be asked for before its view is there: the request of the last seconds is shared. */
export function graphOf<T>(id: string): Promise<T> {
  let asked = graphs.get(id);
  if (!asked) {
    graphs.set(id, asked = get(`/snapshots/${encodeURIComponent(id)}/graph`));
    const forget = () => { setTimeout(() => graphs.delete(id), 5000); };
    asked.then(forget, forget);
  }
  return asked as Promise<T>;
}
export const remove = (path: string) => call<null>('DELETE', path, {});

/** Sends a file as it is; `progress` from 0 to 1. */
export function send<T>(path: string, query: Query, file: Blob, progress: (share: number) => void): Promise<T> {
  return new Promise((done, failed) => {
    const x = new XMLHttpRequest();
    x.open('POST', url(path, query));
    for (const [k, v] of Object.entries(headers({'Content-Type': 'application/octet-stream'}))) x.setRequestHeader(k, v);
    x.upload.onprogress = (e) => { if (e.lengthComputable) progress(e.loaded / Math.max(1, e.total)); };
    x.onload = () => { if (x.status >= 200 && x.status < 300) done(JSON.parse(x.responseText) as T); else failed(problemOf(x.status, x.responseText)); };
    x.onerror = () => failed(problemOf(0, ''));
    x.send(file);
  });
}

export interface StreamEvent { id: string; type: string; data: string }

/** Cuts server-sent events out of chunks; what is unfinished waits for the next chunk. */
export function eventCutter(): (chunk: string) => StreamEvent[] {
  let rest = '', last = '';
  return (chunk) => {
    rest += chunk;
    const out: StreamEvent[] = [];
    for (let end; (end = rest.search(/\r?\n\r?\n/)) >= 0;) {
      const block = rest.slice(0, end);
      rest = rest.slice(end).replace(/^\r?\n\r?\n/, '');
      let type = 'message';
      const data: string[] = [];
      for (const line of block.split(/\r?\n/)) {
        const colon = line.indexOf(':');
        if (colon === 0) continue;
        const name = colon < 0 ? line : line.slice(0, colon), value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (name === 'event') type = value;
        else if (name === 'data') data.push(value);
        else if (name === 'id') last = value;
      }
      if (data.length || type !== 'message') out.push({id: last, type, data: data.join('\n')});
    }
    return out;
  };
}

/** Follows the event stream (with the token, which EventSource cannot send) and connects again by itself. Returns the way to end it. */
export function follow(onEvent: (e: StreamEvent) => void, onState: (live: boolean) => void): () => void {
  const stop = new AbortController();
  let last = '', wait = 1000;
  (async () => {
    while (!stop.signal.aborted) {
      try {
        const answer = await fetch('/api/v1/stream', {headers: headers(last ? {'Last-Event-ID': last} : {}), signal: stop.signal});
        if (!answer.ok || !answer.body) throw problemOf(answer.status, '');
        onState(true);
        wait = 1000;
        const cut = eventCutter(), decoder = new TextDecoder(), reader = answer.body.getReader();
        for (;;) {
          const {done, value} = await reader.read();
          if (done) break;
          for (const e of cut(decoder.decode(value, {stream: true}))) { if (e.id) last = e.id; onEvent(e); }
        }
      } catch { /* told by the state */ }
      onState(false);
      if (stop.signal.aborted) break;
      await new Promise((r) => setTimeout(r, wait));
      wait = Math.min(wait * 2, 15000);
    }
  })();
  return () => stop.abort();
}
