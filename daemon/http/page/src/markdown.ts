// An incident as Markdown for a ticket or a chat. Pure.
import type {Answer} from './api';
import {bytes, percent, visible} from './format';

/** Foreign text inside Markdown: its signs lose their meaning, and a zero-width space keeps it from naming people, teams and tickets. */
export function escapeText(text: string): string {
  return visible(text).replace(/\s+/g, ' ').replace(/^[-+=]|[\\`*_{}\[\]<>#|!~&]/g, '\\$&').replace(/[@#]/g, '$&\u200b');
}

/** Foreign text as a code block whose fence it cannot close. */
export function codeBlock(text: string): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((x) => x.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${visible(text)}\n${fence}`;
}

export function markdown(a: Answer, link: string): string {
  const out = [`## ${a.kind}: ${escapeText(a.summary)}`, ''];
  const where: string[] = [];
  if (a.job) where.push(`job ${escapeText(a.job)}, attempt ${a.attempt}`);
  if (a.root.node) where.push(`node ${escapeText(a.root.node)}`);
  if (a.root.rank !== null) where.push(`rank ${a.root.rank}`);
  if (a.root.device !== null) where.push(`GPU ${a.root.device}`);
  if (a.root.step !== null) where.push(`step ${a.root.step}`);
  if (a.phase) where.push(a.phase);
  if (where.length) out.push(`**Where:** ${where.join(', ')}`);
  out.push(`**Line:** ${escapeText(a.root.source)}:${a.root.line ?? '?'}`, `**Confidence:** ${percent(a.confidence)}`, '');
  for (const reason of a.reasons) out.push(`- ${escapeText(reason)}`);
  const text = a.root.text.length > 1500 ? '... ' + a.root.text.slice(-1500) : a.root.text;
  out.push('', codeBlock(text), '');
  if (a.fixes.length) out.push('### Fixes', '');
  for (const fix of a.fixes) {
    const facts = [fix.basis];
    if (fix.saving_bytes) facts.unshift(`saves ${bytes(fix.saving_bytes.mid)}`);
    if (fix.predicted_peak_bytes !== null) facts.unshift(`peak ${bytes(fix.predicted_peak_bytes)}`);
    out.push(`${fix.rank}. ${escapeText(fix.title)} (${facts.join(', ')})`);
    for (const item of fix.apply) out.push('', codeBlock(item.set).replace(/^/gm, '   '));
  }
  if (a.missing.length) {
    out.push('', '### To be surer', '');
    for (const item of a.missing) out.push(`- ${escapeText(item.what)}${item.set ? ': ' + escapeText(item.set) : ''}`);
  }
  if (link) out.push('', link);
  return out.join('\n') + '\n';
}
