/**
 * Rewrites the generated parts of `docs/lifecycle.md`: the diagram, the table of transitions and the table of alarms,
 * each found by running the real transition function on every situation with every event. A test fails while the page
 * differs from what this writes.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { TASK_STATUSES, isTerminalStatus, type TaskRecord, type TaskStatus } from '../src/contracts/task.ts';
import { nextAlarm, transition, type EventContext, type TaskEvent } from '../workflows/task/lifecycle.ts';
import { FORGED_TOKEN, aCommand, anEvent, situations, type Situation } from '../test/support/builders.ts';

const PAGE = fileURLToPath(new URL('../docs/lifecycle.md', import.meta.url));

/** The rows of the table, each kind of event once or in its variants: complete by construction. */
const EVENTS: Record<TaskEvent['kind'], Record<string, TaskEvent>> = {
  released: { released: anEvent('released') },
  published: { published: anEvent('published') },
  'publish-exhausted': { 'publish-exhausted': anEvent('publish-exhausted') },
  'redelivery-due': { 'redelivery-due': anEvent('redelivery-due') },
  'run-timer': { 'run-timer': anEvent('run-timer') },
  'canceled-in-temporal': { 'canceled-in-temporal': anEvent('canceled-in-temporal') },
  claim: {
    'claim, true token': aCommand('claim'),
    'claim, another token': aCommand('claim', { deliveryEventId: FORGED_TOKEN }),
  },
  message: { message: aCommand('message') },
  'mark-read': { 'mark-read': aCommand('mark-read') },
  cancel: { cancel: aCommand('cancel') },
  result: {
    'result, success': aCommand('result'),
    'result, failure': aCommand('result', { success: false }),
  },
  redeliver: { redeliver: aCommand('redeliver') },
};

const ROWS: [label: string, event: TaskEvent][] = Object.values(EVENTS).flatMap((variants) => Object.entries(variants));

interface Case {
  /** What tells it from others of the same status: the state of the delivery. Empty where there is but one. */
  detail: string;
  status: TaskStatus;
  record: TaskRecord;
  context: EventContext;
}

const CASES: Case[] = (
  Object.entries(situations()) as [Situation, { record: TaskRecord; context: EventContext }][]
).map(([situation, built]) => ({
  detail: situation.split(', ')[1] ?? '',
  status: built.record.phase.status,
  ...built,
}));

/** The columns: a status each, but the four that are never left share theirs as long as they behave alike. */
const COLUMNS: [title: string, cases: Case[]][] = [
  ...TASK_STATUSES.filter((status) => !isTerminalStatus(status)).map((status): [string, Case[]] => [
    status,
    CASES.filter((one) => one.status === status),
  ]),
  ['terminal', CASES.filter((one) => isTerminalStatus(one.status)).map((one) => ({ ...one, detail: one.status }))],
];

/** What an event does to a record, in a few words. */
function outcomeOf(event: TaskEvent, { record, context }: Case): string {
  const outcome = transition(record, event, context);
  if (!outcome.ok) return `\`${outcome.code}\``;
  const { record: next, effects } = outcome;
  if (next === record) return 'nothing';
  const words: string[] = [];
  if (next.phase.status !== record.phase.status) words.push(`**${next.phase.status}**`);
  // That a claim consumes the token and an end clears what was owed goes without saying.
  const waits = next.phase.status === 'scheduled' || next.phase.status === 'queued';
  if (waits && next.delivery.state !== record.delivery.state) words.push(`delivery ${next.delivery.state}`);
  if (next.mailbox.lastSeq > record.mailbox.lastSeq) words.push('appended');
  if (next.mailbox.readSeq > record.mailbox.readSeq) words.push('room freed');
  if (effects.some((effect) => effect.type === 'publish')) words.push('publish');
  return words.join(', ');
}

/** One cell: a single outcome, or one for each state of the delivery that behaves otherwise. */
function cellOf(event: TaskEvent, cases: Case[]): string {
  const details = new Map<string, string[]>();
  for (const one of cases) {
    const outcome = outcomeOf(event, one);
    details.set(outcome, [...(details.get(outcome) ?? []), one.detail]);
  }
  if (details.size === 1) return [...details.keys()].join('');
  return [...details].map(([outcome, names]) => `${names.join(', ')}: ${outcome}`).join('<br>');
}

function table(rows: string[][]): string {
  const lines = rows.map((row) => `| ${row.join(' | ')} |`);
  const rule = `|${' --- |'.repeat(rows[0]?.length ?? 0)}`;
  return [...lines.slice(0, 1), rule, ...lines.slice(1)].join('\n');
}

function transitionTable(): string {
  return table([
    ['event', ...COLUMNS.map(([title]) => title)],
    ...ROWS.map(([label, event]) => [label, ...COLUMNS.map(([, cases]) => cellOf(event, cases))]),
  ]);
}

function alarmTable(): string {
  const alarms = CASES.map(({ status, detail, record }): [string, string] => [
    detail === '' ? status : `${status}, ${detail}`,
    nextAlarm(record)?.event ?? 'none',
  ]);
  const open = alarms.filter(([, event]) => event !== 'none').map(([name, event]) => [name, `\`${event}\``]);
  const none = alarms.filter(([, event]) => event === 'none').map(([name]) => name);
  return table([['situation', 'next alarm'], ...open, [none.join('; '), 'none']]);
}

function diagram(): string {
  const labels = new Map<string, Set<string>>();
  for (const one of CASES) {
    for (const [label, event] of ROWS) {
      const outcome = transition(one.record, event, one.context);
      if (!outcome.ok || outcome.record.phase.status === one.status) continue;
      const arrow = `${one.status} --> ${outcome.record.phase.status}`;
      labels.set(
        arrow,
        (labels.get(arrow) ?? new Set()).add(label.replace(', ', ' of ').replace('claim of ', 'claim with ')),
      );
    }
  }
  const arrows = [...labels].map(([arrow, names]) => `  ${arrow}: ${[...names].join(' / ')}`);
  const ends = TASK_STATUSES.filter(isTerminalStatus).map((status) => `  ${status} --> [*]`);
  const [fence, first] = ['```', `  [*] --> ${TASK_STATUSES[0]}: created`];
  return [`${fence}mermaid`, 'stateDiagram-v2', first, ...arrows, ...ends, fence].join('\n');
}

const PARTS: Record<string, () => string> = { diagram, transitions: transitionTable, alarms: alarmTable };

/** The page with its generated parts made anew, in the repository's format. */
async function lifecyclePage(page: string): Promise<string> {
  let text = page;
  for (const [name, generate] of Object.entries(PARTS)) {
    const [start, end] = [`<!-- generated: ${name} -->`, `<!-- end: ${name} -->`];
    const [from, to] = [text.indexOf(start), text.indexOf(end)];
    if (from < 0 || to < from) throw new Error(`the page has no markers for its ${name}`);
    text = `${text.slice(0, from + start.length)}\n\n${generate()}\n\n${text.slice(to)}`;
  }
  return format(text, { ...(await resolveConfig(PAGE)), filepath: PAGE });
}

/** The page as it is, and as it should be. */
export async function lifecyclePages(): Promise<{ written: string; generated: string }> {
  const written = await readFile(PAGE, 'utf8');
  return { written, generated: await lifecyclePage(written) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { written, generated } = await lifecyclePages();
  if (written !== generated) await writeFile(PAGE, generated);
  process.stdout.write(written === generated ? 'docs/lifecycle.md is up to date\n' : 'docs/lifecycle.md rewritten\n');
}
