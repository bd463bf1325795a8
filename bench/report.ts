/** The results as Markdown, for people. */
import type { Counts } from './call-counter.ts';
import { METRICS, type Compared } from './compare.ts';
import { groupedBy, type Spread } from './stats.ts';

export function markdownOf(compared: readonly Compared[]): string {
  const parts: string[] = [];
  for (const [concurrency, forms] of groupedBy(compared, (each) => each.concurrency)) {
    parts.push(`## ${concurrency} at a time`, ratioTable(forms), countTable(forms));
  }
  return `${parts.join('\n\n')}\n`;
}

/** Bare as it was here, the others as multiples of it. */
function ratioTable(forms: readonly Compared[]): string {
  const bare = forms.find(({ form }) => form === 'bare');
  const others = forms.filter(({ form }) => form !== 'bare');
  return table([
    ['median (lowest to highest round)', 'bare', ...others.map(({ form }) => `${form} : bare`)],
    ...METRICS.map(({ name, unit }) => [
      name,
      `${bare === undefined ? '' : spreadText(bare.absolute[name], 1)} ${unit}`,
      ...others.map(({ ratios }) => spreadText(ratios[name], 2)),
    ]),
  ]);
}

function countTable(forms: readonly Compared[]): string {
  const methods = [...new Set(forms.flatMap(({ calls }) => Object.keys(calls)))].toSorted();
  return table([
    ['a Task', ...forms.map(({ form }) => form)],
    ['history events: mean (least to most)', ...forms.map(({ events }) => meanText(events))],
    ['workflow tasks: mean (least to most)', ...forms.map(({ workflowTasks }) => meanText(workflowTasks))],
    ['client calls', ...forms.map(({ calls }) => numberText(totalOf(calls), 3))],
    ...methods.map((method) => [`· ${method}`, ...forms.map(({ calls }) => numberText(calls[method] ?? 0, 3))]),
    ['calls repeated by the client', ...forms.map(({ repeats }) => numberText(totalOf(repeats), 3))],
  ]);
}

function totalOf(counts: Counts): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function meanText({ mean, min, max }: Omit<Spread, 'median'>): string {
  return `${numberText(mean, 2)} (${min} to ${max})`;
}

function spreadText(spread: Spread | undefined, digits: number): string {
  if (spread === undefined) return 'not told';
  const [median, min, max] = [spread.median, spread.min, spread.max].map((value) => numberText(value, digits));
  return Number.isNaN(spread.median) ? 'not told' : `${median} (${min} to ${max})`;
}

function numberText(value: number, digits: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(digits);
}

function table(rows: string[][]): string {
  const lines = rows.map((row) => `| ${row.join(' | ')} |`);
  const rule = `|${' --- |'.repeat(rows[0]?.length ?? 0)}`;
  return [...lines.slice(0, 1), rule, ...lines.slice(1)].join('\n');
}
