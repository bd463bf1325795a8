/** The recorded histories that every checkout has, and how to read one. Shared by the recorder and the tests. */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import type { temporal } from '@temporalio/proto';
import type { TaskRecord, TerminalStatus } from '../../src/contracts/task.ts';
import type { TaskWorkflowInput } from '../../src/contracts/workflow.ts';

/** How the recorded run ends: the Task's final status, or a next run. */
type RunEnd = TerminalStatus | 'continued-as-new';

/** Each fixture by its file's name, with its end. */
export const FIXTURES = {
  succeeded: 'succeeded',
  failed: 'failed',
  'canceled-scheduled': 'canceled',
  'canceled-running': 'canceled',
  'canceled-in-temporal': 'canceled',
  'timed-out': 'timed_out',
  'scheduled-release': 'succeeded',
  'claimed-before-published': 'succeeded',
  'publish-failed': 'succeeded',
  redelivered: 'succeeded',
  'given-up-unclaimed': 'succeeded',
  messages: 'succeeded',
  'commands-before-start': 'failed',
  'continued-as-new-1': 'continued-as-new',
  'continued-as-new-2': 'succeeded',
} as const satisfies Record<string, RunEnd>;

export type FixtureName = keyof typeof FIXTURES;

export const HISTORIES_DIR = fileURLToPath(new URL('histories', import.meta.url));

export function pathOf(name: string): string {
  return path.join(HISTORIES_DIR, `${name}.json`);
}

export type History = temporal.api.history.v1.IHistory;
type Payload = temporal.api.common.v1.IPayload;

/** Names of all recorded histories, those in folders of released versions (`v0.1.0/succeeded`) among them. */
export async function listFixtures(): Promise<string[]> {
  const files = await readdir(HISTORIES_DIR, { recursive: true });
  return files
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -'.json'.length).replaceAll(path.sep, '/'))
    .toSorted();
}

/** The file's JSON as it is. */
export async function readFixture(name: string): Promise<unknown> {
  return JSON.parse(await readFile(pathOf(name), 'utf8'));
}

/** What the workflow decided and Temporal kept of it, in order: inputs of its activities, and the run's end. */
export interface Decisions {
  end: RunEnd;
  /** The final record, or the one that was handed to the next run. */
  record: TaskRecord;
  payloads: string[];
}

/** Reads a recorded history's end. Throws where the run is still open or did not end as a Task's run does. */
export function decisionsOf(history: History): Decisions {
  const payloads: string[] = [];
  for (const event of history.events ?? []) {
    const activity = event.activityTaskScheduledEventAttributes;
    if (activity) payloads.push(...textsOf(activity.input?.payloads));
    const completed = event.workflowExecutionCompletedEventAttributes;
    if (completed) {
      const texts = textsOf(completed.result?.payloads);
      const record = JSON.parse(texts[0] ?? '') as TaskRecord;
      return { end: record.phase.status as TerminalStatus, record, payloads: [...payloads, ...texts] };
    }
    const continued = event.workflowExecutionContinuedAsNewEventAttributes;
    if (continued) {
      const texts = textsOf(continued.input?.payloads);
      const { record } = JSON.parse(texts[0] ?? '') as TaskWorkflowInput;
      return { end: 'continued-as-new', record, payloads: [...payloads, ...texts] };
    }
  }
  throw new Error('the history does not end as a run of a Task does');
}

export function historyOf(json: unknown): History {
  return historyFromJSON(json);
}

export function textOf(payload: Payload): string {
  return Buffer.from(payload.data ?? new Uint8Array()).toString('utf8');
}

function textsOf(payloads: Payload[] | null | undefined): string[] {
  return (payloads ?? []).map(textOf);
}
