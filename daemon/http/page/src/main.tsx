// The page: header, routes, upload by drag and drop. Views that are rarely opened are loaded when they are.
import './style.css';
import {render} from 'preact';
import {useEffect, useState} from 'preact/hooks';
import {follow, get, graphOf, useToken, type StreamEvent} from './api';
import {go, later, onEvent, tellEvent, usePath} from './shared';
import {IncidentList} from './list';
import {IncidentPage} from './incident';
import {Uploads, chooseFiles} from './upload';

interface Health { ready: boolean; version: string; parts?: {part: string; ok: boolean; why: string | null}[] }

const Planner = later(() => import('./planner').then((m) => m.Planner));
const SnapshotPage = later(() => import('./snapshot').then((m) => m.SnapshotPage));

function App() {
  const path = usePath();
  const [live, setLive] = useState<boolean | null>(null);
  const [health, setHealth] = useState<Health | null>(null);
  const [theme, setTheme] = useState(localStorage.getItem('theme') ?? 'auto');
  const [askToken, setAsk] = useState(false);
  useEffect(() => {
    if (theme === 'auto') delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
    localStorage.setItem('theme', theme);
  }, [theme]);
  useEffect(() => { if (path.startsWith('/snapshots/')) graphOf(path.slice(11)).catch(() => {}); }, [path]);   // while its view is being loaded
  useEffect(() => follow((e: StreamEvent) => tellEvent(e), setLive), []);
  useEffect(() => onEvent((e) => { if (e.type === 'token') setAsk(true); }), []);
  useEffect(() => {
    const ask = () => get<Health>('/health').then(setHealth, (e) => { if (e.status === 401) setAsk(true); });
    ask();
    const timer = setInterval(ask, 30000);
    return () => clearInterval(timer);
  }, []);
  const ill = (health?.parts ?? []).filter((p) => !p.ok);
  const id = path.startsWith('/incidents/') ? decodeURIComponent(path.slice(11)) : '';
  const link = (to: string, name: string, here: boolean) =>
    <a href={to} aria-current={here ? 'page' : undefined} onClick={(e) => { e.preventDefault(); go(to); }}>{name}</a>;
  return <>
    <a class="skip" href="#main">To the content</a>
    <header class="top">
      <strong class="brand">triaged</strong>
      <nav aria-label="Pages">
        {link('/', 'Incidents', path === '/' || !!id)}
        {link('/plan', 'Planner', path === '/plan')}
      </nav>
      <span class="grow" />
      <span role="status" class={'live ' + (live ? 'on' : 'off')} title={live ? 'New incidents appear by themselves' : 'Not connected to the event stream; trying again'}>
        {live === null ? 'connecting' : live ? 'live' : 'not live'}</span>
      <button type="button" onClick={chooseFiles} title="Or drag a log, snapshot or folder onto the page">Upload</button>
      <label class="theme"><span class="hide">Theme</span>
        <select value={theme} onChange={(e) => setTheme(e.currentTarget.value)}><option value="auto">auto</option><option value="light">light</option><option value="dark">dark</option></select>
      </label>
    </header>
    {ill.length > 0 && <p class="warn" role="alert">The service is not well: {ill.map((p) => `${p.part}${p.why ? ' (' + p.why + ')' : ''}`).join('; ')}</p>}
    {askToken && <form class="warn" onSubmit={(e) => { e.preventDefault(); useToken(new FormData(e.currentTarget).get('token') as string); location.reload(); }}>
      <label>This service wants a token <input name="token" type="password" autocomplete="off" required /></label> <button>Use it in this tab</button></form>}
    <main id="main" tabIndex={-1}>
      {path === '/' ? <IncidentList /> : id ? <IncidentPage key={id} id={id} />
        : path === '/plan' ? <Planner />
        : path.startsWith('/snapshots/') ? <SnapshotPage key={path} id={path.slice(11)} />
        : <p>There is nothing here. {link('/', 'All incidents', false)}</p>}
    </main>
    <Uploads />
    {health && <footer class="dim">triaged {health.version}</footer>}
  </>;
}

const root = document.getElementById('root')!;
root.replaceChildren();
render(<App />, root);
