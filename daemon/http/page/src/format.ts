// Numbers, times and foreign text as people read them. Pure.

const kGiB = 1024 ** 3;

/** Bytes in GiB; below 0.1 GiB in MiB, below 0.1 MiB in KiB, so that small things do not read as zero. Null: "unknown". */
export function bytes(count: number | null | undefined): string {
  if (count === null || count === undefined || !Number.isFinite(count)) return 'unknown';
  const size = Math.abs(count);
  if (size >= 0.1 * kGiB) return (count / kGiB).toFixed(2) + ' GiB';
  if (size >= 0.1 * 1024 ** 2) return (count / 1024 ** 2).toFixed(1) + ' MiB';
  if (size >= 1024) return (count / 1024).toFixed(1) + ' KiB';
  return count + ' B';
}

export function percent(share: number): string {
  return (100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0) + ' %';
}

const pad = (n: number) => String(n).padStart(2, '0');

/** Time in the viewer's zone, to the second: "2026-12-01 14:19:02". */
export function localTime(text: string | null | undefined): string {
  if (!text) return 'unknown';
  const t = new Date(text);
  if (Number.isNaN(t.getTime())) return text;
  return `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())} ${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`;
}

/** The same moment in UTC, for the hover text. */
export function utcTime(text: string | null | undefined): string {
  if (!text) return '';
  const t = new Date(text);
  return Number.isNaN(t.getTime()) ? text : t.toISOString().replace('T', ' ').replace(/\.\d+Z$/, '') + ' UTC';
}

/** "just now", "4 min ago", "3 h ago", "12 d ago". */
export function ago(text: string | null | undefined, now: number): string {
  if (!text) return '';
  const s = (now - new Date(text).getTime()) / 1000;
  if (!Number.isFinite(s)) return '';
  if (s < 45) return 'just now';
  if (s < 5400) return Math.max(1, Math.round(s / 60)) + ' min ago';
  if (s < 129600) return Math.round(s / 3600) + ' h ago';
  return Math.round(s / 86400) + ' d ago';
}

/** Ranks as ranges: "0-3, 7, 9-12". */
export function ranges(numbers: number[]): string {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length;) {
    let k = i;
    while (k + 1 < sorted.length && sorted[k + 1] === sorted[k] + 1) k++;
    parts.push(k > i ? `${sorted[i]}-${sorted[k]}` : String(sorted[i]));
    i = k + 1;
  }
  return parts.join(', ');
}

/** "rank 2" or "ranks 0-1, 3"; of a long list the first ranges, each whole, and how many ranks follow. */
export function namedRanks(numbers: number[], most = 60): string {
  const all = ranges(numbers), name = all.includes(',') || all.includes('-') ? 'ranks ' : 'rank ';
  if (all.length <= most) return name + all;
  const cut = all.lastIndexOf(',', most), shown = all.slice(0, cut < 0 ? all.indexOf(',') : cut);
  const count = shown.split(', ').reduce((n, part) => { const [a, b = a] = part.split('-').map(Number); return n + b - a + 1; }, 0);
  return `${name}${shown} and ${new Set(numbers).size - count} more`;
}

/** Text of a log as it may be shown: control characters and marks that turn the direction of reading become visible signs. Line ends stay. */
export function visible(text: string): string {
  let out = '';
  for (const c of text) {
    const code = c.codePointAt(0)!;
    if (code === 9 || code === 10) out += c;
    else if (code < 32) out += String.fromCharCode(0x2400 + code);
    else if (code === 127) out += '\u2421';
    else if ((code >= 0x80 && code < 0xa0) || code === 0x61c || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
             (code >= 0x2060 && code <= 0x206f) || code === 0xfeff || (code >= 0xe0000 && code <= 0xe007f))
      out += '<U+' + code.toString(16).toUpperCase().padStart(4, '0') + '>';
    else out += c;
  }
  return out;
}

const kName = 60;   // characters of a name that are shown where others stand beside it

/** A path's last two parts, for places where the whole one hides what matters; of a very long name both ends. */
export function shortPath(text: string): string {
  const parts = text.startsWith('/') ? text.split('/').filter(Boolean) : [];
  const name = [...(parts.length > 2 ? '\u2026/' + parts.slice(-2).join('/') : text)];
  return name.length > kName ? name.slice(0, kName / 2).join('') + '\u2026' + name.slice(-kName / 2).join('') : name.join('');
}

/** The part of a long line that says what went wrong: from the last named error or the first word of trouble on, else both ends. `cut`: something was left out. */
export function telling(text: string, most = 1200): {text: string; cut: boolean} {
  if (text.length <= most) return {text, cut: false};
  let at = Math.max(text.lastIndexOf('Error: '), text.lastIndexOf('Exception: '));
  if (at < 0) at = text.search(/out of memory|fatal|fail|Xid|error|assert|killed|timed? ?out/i);
  for (let i = 0; at > 0 && i < 100 && /[\w.]/.test(text[at - 1]); ++i) --at;   // the whole name
  if (at < 0) return {text: text.slice(0, most / 2) + ' \u2026 ' + text.slice(-most / 2), cut: true};
  return {text: (at > 0 ? '\u2026 ' : '') + text.slice(at, at + most) + (at + most < text.length ? ' \u2026' : ''), cut: true};
}

/** Family of a kind, for its colour: gpu, host, comm, fault, io, other. */
export function family(kind: string): string {
  if (/^(gpu\.oom|jax\.oom|tf\.oom|triton)/.test(kind)) return 'gpu';
  if (/^host\./.test(kind)) return 'host';
  if (/^(nccl|dist)\./.test(kind)) return 'comm';
  if (/^(cuda|gpu)\./.test(kind)) return 'fault';
  if (/^(io|ckpt|data)\./.test(kind)) return 'io';
  return 'other';
}
