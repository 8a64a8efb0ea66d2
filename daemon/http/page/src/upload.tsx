// Upload by drag and drop or by the file dialog. A folder, or several files, goes as one archive: the ranks of one job are judged together.
import {useEffect, useRef, useState} from 'preact/hooks';
import {send, type Answer} from './api';
import {bytes, visible} from './format';
import {Trouble, go} from './shared';
import {tarOf} from './tar';

interface Item { path: string; file: File }
interface State { name: string; size: number; share: number; done?: {answer: {incidents: Answer[]; handled?: unknown[]; stats?: {lines: number}}}; fault?: unknown }

const kMostFiles = 20000;

/** Files of what was dropped, folders walked (without recursion on foreign depth). */
async function filesOf(data: DataTransfer): Promise<Item[]> {
  const entries = [...data.items].map((i) => i.webkitGetAsEntry?.()).filter((e): e is FileSystemEntry => !!e);
  if (!entries.length) return [...data.files].map((file) => ({path: file.name, file}));
  const out: Item[] = [];
  while (entries.length && out.length < kMostFiles) {
    const e = entries.shift()!;
    if (e.isFile) {
      out.push({path: e.fullPath.replace(/^\//, ''), file: await new Promise<File>((ok, no) => (e as FileSystemFileEntry).file(ok, no))});
    } else {
      const reader = (e as FileSystemDirectoryEntry).createReader();
      for (;;) {
        const some = await new Promise<FileSystemEntry[]>((ok, no) => reader.readEntries(ok, no));
        if (!some.length) break;
        entries.push(...some);
      }
    }
  }
  return out;
}

let choose = () => {};
export function chooseFiles() { choose(); }

export function Uploads() {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [state, setState] = useState<State | null>(null);
  choose = () => input.current?.click();
  const start = async (items: Item[]) => {
    if (!items.length) return;
    const one = items.length === 1;
    const name = one ? items[0].path.split('/').pop()! : (items[0].path.includes('/') ? items[0].path.split('/')[0] : 'files') + '.tar';
    const body = one ? items[0].file : tarOf(items);
    const now: State = {name, size: body.size, share: 0};
    setState(now);
    const progress = (share: number) => setState({...now, share});
    try {
      if (one && /\.(pickle|pkl)$/i.test(name)) import('./snapshot').catch(() => {});   // its view, while the file goes out
      if (one && /\.(pickle|pkl)$/i.test(name)) {
        const snapshot = await send<{id: string}>('/snapshots', {name}, body, progress).catch((e) => { if (e.code === 'no_snapshot') return null; throw e; });
        if (snapshot) {
          setState(null);
          go('/snapshots/' + snapshot.id);
          return;
        }
      }
      const answer = await send<{incidents: Answer[]}>('/uploads', {name}, body, progress);
      if (answer.incidents.length === 1) {
        setState(null);
        go('/incidents/' + answer.incidents[0].id);
      } else {
        setState({...now, share: 1, done: {answer}});
      }
    } catch (fault) { setState({...now, fault}); }
  };
  useEffect(() => {
    let depth = 0;
    const enter = (e: DragEvent) => { if (e.dataTransfer?.types.includes('Files')) { e.preventDefault(); ++depth; setOver(true); } };
    const leave = () => { if (--depth <= 0) { depth = 0; setOver(false); } };
    const move = (e: DragEvent) => e.preventDefault();
    const drop = (e: DragEvent) => {
      e.preventDefault();
      depth = 0;
      setOver(false);
      if (e.dataTransfer) filesOf(e.dataTransfer).then(start, (fault) => setState({name: 'what was dropped', size: 0, share: 0, fault}));
    };
    addEventListener('dragenter', enter); addEventListener('dragleave', leave); addEventListener('dragover', move); addEventListener('drop', drop);
    return () => { removeEventListener('dragenter', enter); removeEventListener('dragleave', leave); removeEventListener('dragover', move); removeEventListener('drop', drop); };
  }, []);
  return <>
    <input ref={input} type="file" multiple class="hide" tabIndex={-1} aria-label="Files to be read" id="files"
           onChange={(e) => { const list = [...(e.currentTarget.files ?? [])].map((file) => ({path: file.name, file})); e.currentTarget.value = ''; start(list); }} />
    {over && <div class="drop">Drop logs, dumps, an archive or a folder: they are judged together as one job</div>}
    {state && <div class="upload" role="status">
      <div class="head"><b>{visible(state.name)}</b> <span class="dim">{bytes(state.size)}</span><button type="button" onClick={() => setState(null)} aria-label="Close">Close</button></div>
      {state.fault ? <Trouble of={state.fault} /> : !state.done ? <>
        <progress value={state.share} aria-label="Upload">{Math.round(100 * state.share)} %</progress>
        <p>{state.share < 1 ? `sending, ${Math.round(100 * state.share)} %` : 'sent; the service reads it'}</p></>
        : state.done.answer.incidents.length === 0 ? <p>No failure in it{state.done.answer.handled?.length ? `; ${state.done.answer.handled.length} handled` : ''}.</p>
        : <ul>{state.done.answer.incidents.map((i) => <li><a href={'/incidents/' + i.id} onClick={(e) => { e.preventDefault(); setState(null); go('/incidents/' + i.id); }}>{i.kind}</a>: {visible(i.summary)}</li>)}</ul>}
    </div>}
  </>;
}
