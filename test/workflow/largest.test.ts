/**
 * I8 on a real server: the largest Task that the API takes, everything at its cap at once, goes through continue-as-new
 * and its close, and nothing of it is lost. Bodies go through the API's own schemas, which is what makes them legal.
 */
import { randomUUID } from 'node:crypto';
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { claimBody, messageBody, resultBody, scheduleBody } from '../../src/contracts/api.ts';
import { jsonBytes, type Json } from '../../src/contracts/json.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { TaskRecord } from '../../src/contracts/task.ts';
import type { TaskWorkflowInput } from '../../src/contracts/workflow.ts';
import type { Listening } from '../../src/facade/listen.ts';
import { workflowIdOf } from '../../src/scheduler/identity.ts';
import type { CommandTarget, Scheduler } from '../../src/scheduler/scheduler.ts';
import { expectProblem, isStarted, serve } from '../facade/support.ts';
import { startHarness, type Harness } from '../support/harness.ts';
import { countOf, eventually, handleOf, NEXT_YEAR, refusal, runsOf, typesOf, type HistoryEvent } from './support.ts';

const SIGNALS_A_RUN = 100;
/** Temporal's own limit of a payload is 2 MiB; what is counted here stays under the round number. */
const PAYLOAD_BYTES_MAX = 2_000_000;
const BOUND_MS = 120_000;

const LARGEST_CUSTOMER = 'c'.repeat(LIMITS.customerIdLengthMax);

let holdfast: Harness;
let scheduler: Scheduler;
let server: Listening;
/** Of the customer with the longest id. */
let theirs: Harness;
beforeAll(async () => {
  holdfast = await startHarness({ policy: { continueAsNewAfterSignals: SIGNALS_A_RUN } });
  ({ scheduler } = holdfast);
  theirs = { ...holdfast, workflowId: (taskId) => workflowIdOf(LARGEST_CUSTOMER, taskId) };
  server = await serve(holdfast.app);
});
afterAll(async () => {
  await server.close();
  await holdfast.close();
});

/** A text of exactly so many bytes of JSON: control characters of six bytes each, then letters. */
function textOfBytes(bytes: number): string {
  return '\u0001'.repeat(Math.floor((bytes - 2) / 6)) + 'x'.repeat((bytes - 2) % 6);
}

/** A name of 128 characters that no other test uses. */
function longName(prefix: string): string {
  return `${prefix}-${randomUUID()}`.padEnd(LIMITS.taskIdLengthMax, 'n');
}

function longKey(name: string): string {
  return name.padStart(LIMITS.idempotencyKeyLengthMax, 'k');
}

/** A line of Tasks, each the parent of the next, youngest first. */
async function lineOf(length: number): Promise<string[]> {
  const line: string[] = [];
  for (let depth = 0; depth < length; depth += 1) {
    const [taskId, parentTaskId] = [longName('ancestor'), line[0]];
    const body = {
      taskId,
      type: 'test',
      releaseAt: NEXT_YEAR,
      ...(parentTaskId === undefined ? {} : { parentTaskId }),
    };
    await scheduler.schedule(LARGEST_CUSTOMER, body, `schedule-${taskId}`);
    line.unshift(taskId);
  }
  return line;
}

type Payloads = { payloads?: { data?: Uint8Array | null }[] | null } | null | undefined;

/** The one payload of an event, and its bytes as Temporal counts them. */
function payloadOf(payloads: Payloads): { value: unknown; bytes: number } {
  const [payload, ...more] = payloads?.payloads ?? [];
  expect(more).toEqual([]);
  const data = Buffer.from(payload?.data ?? []);
  return { value: JSON.parse(data.toString()) as unknown, bytes: data.byteLength };
}

/** The record that a run handed to the next. */
function carriedBy(run: HistoryEvent[]): { record: TaskRecord; bytes: number } {
  const { value, bytes } = payloadOf(run.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.input);
  return { record: (value as TaskWorkflowInput).record, bytes };
}

/** The record that the last run ended with. */
function closedBy(run: HistoryEvent[]): { record: TaskRecord; bytes: number } {
  const { value, bytes } = payloadOf(run.at(-1)?.workflowExecutionCompletedEventAttributes?.result);
  return { record: value as TaskRecord, bytes };
}

describe('the largest Task', () => {
  test(
    'goes through continue-as-new and its close with nothing lost',
    async () => {
      const taskId = longName('largest');
      const target = (name: string): CommandTarget => ({
        customerId: LARGEST_CUSTOMER,
        taskId,
        key: longKey(name),
        keyIsFresh: false,
      });
      const handle = handleOf(theirs, taskId);
      const runId = async (): Promise<string> => (await handle.describe()).runId;
      /** Signals that are due to be the last of their run: waits for the next one. */
      const endRun = async (send: () => Promise<unknown>): Promise<void> => {
        const before = await runId();
        await send();
        await eventually(runId, (after) => after !== before);
      };

      /** Messages straight to the workflow, with the longest words that it takes. */
      const signAtOnce = async (count: number, name: string, content: Json): Promise<unknown> =>
        Promise.all(
          Array.from({ length: count }, (_, index) =>
            handle.signal('message', {
              key: longKey(`${name}-${index}`),
              fingerprint: 'f'.repeat(43),
              messageId: `msg_${randomUUID()}`.padEnd(48, '0'),
              body: content,
            }),
          ),
        );

      // Everything of a request at its cap.
      const ancestors = await lineOf(LIMITS.lineageDepthMax);
      const url = `https://x.example/${'p'.repeat(2030)}`;
      const kind = '\u0001'.repeat(64);
      const refBytes = LIMITS.sourceBytesMax - jsonBytes({ kind, ref: '', url }) + 2;
      const labels = Object.fromEntries(
        Array.from({ length: LIMITS.labelsMax }, (_, index) => {
          const label = `label-${index + 10}`;
          return [label, textOfBytes(LIMITS.labelBytesMax - jsonBytes(label))];
        }),
      );
      const body = {
        taskId,
        type: 'T'.repeat(LIMITS.typeLengthMax),
        queue: 'q'.repeat(LIMITS.queueLengthMax),
        parentTaskId: String(ancestors[0]),
        continuesTaskId: longName('earlier'),
        input: textOfBytes(LIMITS.inputBytesMax),
        source: { kind, ref: textOfBytes(refBytes), url },
        labels,
        priority: 5,
        runTimeoutSeconds: LIMITS.runTimeoutSecondsMax,
      };
      expect(jsonBytes(body.input)).toBe(LIMITS.inputBytesMax);
      expect(jsonBytes(body.source)).toBe(LIMITS.sourceBytesMax);
      await scheduler.schedule(LARGEST_CUSTOMER, scheduleBody.parse(body), 'schedule');
      const { parentTaskId, ...asSent } = body;
      const lineage = { rootTaskId: ancestors.at(-1), parentTaskId, ancestors };
      const { id: token } = await holdfast.inbox.next(taskId);
      const isQueued = (task: object): boolean => 'status' in task && task.status === 'queued';
      await eventually(() => scheduler.get(LARGEST_CUSTOMER, taskId), isQueued);

      // The verdicts of messages are the largest: a thousand that are read fill the table.
      for (let sent = 0; sent < LIMITS.verdictsMax; sent += SIGNALS_A_RUN) {
        await endRun(() => signAtOnce(SIGNALS_A_RUN, `small-${sent}`, null));
      }
      let signals = 1;
      const marked = await scheduler.markRead(target('read'), { upTo: LIMITS.verdictsMax });
      expect(marked).toEqual({ lastSeq: LIMITS.verdictsMax, readSeq: LIMITS.verdictsMax, unread: 0 });

      // The mailbox, to its last byte.
      const kept: { seq: number; body: Json }[] = [];
      const send = async (text: string): Promise<string> => {
        signals += 1;
        const attempt = scheduler.sendMessage(target(`large-${signals}`), messageBody.parse({ body: text }));
        const [settled] = await Promise.allSettled([attempt]);
        if (settled.status === 'rejected') return refusal(attempt);
        kept.push({ seq: settled.value.seq, body: text });
        return 'accepted';
      };
      const largeBody = (index: number): string =>
        `${textOfBytes(LIMITS.messageBytesMax - 6)}${String(index).padStart(6, '0')}`;
      while ((await send(largeBody(kept.length))) === 'accepted') {
        expect(kept.length).toBeLessThan(LIMITS.unreadBytesMax / LIMITS.messageBytesMax);
      }
      expect(jsonBytes(kept[0]?.body)).toBe(LIMITS.messageBytesMax);
      const { mailbox: limits } = await holdfast.gateway.readStart(theirs.workflowId(taskId), 10_000);
      const { revision } = (await scheduler.get(LARGEST_CUSTOMER, taskId)) as { revision: number };
      const overhead = jsonBytes({
        seq: LIMITS.verdictsMax + 1,
        messageId: `msg_${randomUUID()}`,
        at: new Date(0).toISOString(),
        body: '',
        revision,
        command: { key: longKey(''), fingerprint: 'f'.repeat(22) },
      });
      const largeBytes = overhead - 2 + LIMITS.messageBytesMax;
      const room = limits.unreadBytesMax - kept.length * largeBytes - (overhead - 2);
      expect(await send(textOfBytes(room + 1))).toBe('mailbox-full');
      expect(await send(textOfBytes(room))).toBe('accepted');
      expect(await send('')).toBe('mailbox-full');
      expect(kept.map(({ seq }) => seq)).toEqual(kept.map((_, index) => LIMITS.verdictsMax + 1 + index));

      // The full record goes over to the next run, and from there is all readable.
      await endRun(() => signAtOnce(SIGNALS_A_RUN - signals, 'refused', ''));
      const readAll = async (): Promise<typeof kept> => {
        const all: typeof kept = [];
        for (;;) {
          const range = { after: all.at(-1)?.seq ?? 0, limit: 5 };
          const { messages } = await scheduler.messages(LARGEST_CUSTOMER, taskId, range);
          if (messages.length === 0) return all;
          all.push(...messages.map((message) => ({ seq: message.seq, body: message.body })));
        }
      };
      expect(await readAll()).toEqual(kept);

      // The claim and the result.
      const executorId = '\u0001'.repeat(LIMITS.executorIdLengthMax);
      const claim = claimBody.parse({ deliveryEventId: token, executorId });
      const claimed = await scheduler.claim(target('claim'), claim);
      expect(claimed).toMatchObject({ ...asSent, lineage, status: 'running', claim: { executorId } });
      const report = { success: true, output: '', claimId: longKey('claim'), ifMailboxSeq: Number(kept.at(-1)?.seq) };
      const resultBytes = LIMITS.resultBytesMax - 128;
      report.output = textOfBytes(resultBytes - jsonBytes(report) + 2);
      expect(jsonBytes(report)).toBe(resultBytes);
      const ended = await scheduler.recordResult(target('result'), resultBody.parse(report));
      const result = { success: true, summary: null, output: report.output, effects: [], error: null };
      expect(ended).toMatchObject({ ...asSent, lineage, status: 'succeeded', result });

      // What the histories say, and the record in the close event.
      const runs = await runsOf(theirs, taskId);
      for (const run of runs) expect(countOf(run, 'WORKFLOW_TASK_FAILED')).toBe(0);
      const rollovers = runs.slice(0, -1).map(carriedBy);
      expect(runs).toHaveLength(LIMITS.verdictsMax / SIGNALS_A_RUN + 2);
      const carried = rollovers.at(-1);
      expect(carried?.record.mailbox.messages.map(({ seq, body: text }) => ({ seq, body: text }))).toEqual(kept);
      // All but the mark and the accepted messages of that run were refused.
      const full = carried?.record.verdicts.filter(({ code }) => code === 'mailbox-full');
      expect(full).toHaveLength(SIGNALS_A_RUN - 1 - kept.length);
      expect(carried?.record.mailbox.unreadBytes).toBe(limits.unreadBytesMax);
      for (const { bytes } of rollovers) expect(bytes).toBeLessThan(PAYLOAD_BYTES_MAX);

      const close = runs.at(-1) ?? [];
      expect(typesOf(close).at(-1)).toBe('WORKFLOW_EXECUTION_COMPLETED');
      const { record, bytes } = closedBy(close);
      expect(bytes).toBeLessThan(PAYLOAD_BYTES_MAX);
      expect(bytes).toBeLessThanOrEqual(LIMITS.recordBytesMax);
      // The twin: a record that is far from its cap would prove nothing.
      expect(bytes).toBeGreaterThan(LIMITS.recordBytesMax * 0.8);
      expect(record.spec).toMatchObject({ ...asSent, customerId: LARGEST_CUSTOMER, lineage });
      expect(record.phase).toMatchObject({ status: 'succeeded', result });
      expect(record.verdicts).toHaveLength(LIMITS.verdictsMax);
      expect(record.transitions.map(({ to }) => to)).toEqual(['scheduled', 'queued', 'running', 'succeeded']);
      expect(await scheduler.get(LARGEST_CUSTOMER, taskId)).toEqual(ended);
      expect(await readAll()).toEqual(kept);
      const repeated = await scheduler.recordResult(target('result'), resultBody.parse(report));
      expect(repeated).toEqual(ended);
    },
    BOUND_MS,
  );
});

/** Input, source, labels, messages, results and the depth of a line have theirs elsewhere. */
describe('one more', () => {
  test.each(['parentTaskId', 'continuesTaskId'])('character of %s: 400, and nothing is started', async (field) => {
    const taskId = holdfast.freshId();
    const answer = await request(server.url)
      .post('/v1/tasks')
      .send({ taskId, type: 'test', releaseAt: NEXT_YEAR, [field]: 'n'.repeat(LIMITS.taskIdLengthMax + 1) });
    expectProblem(answer, 'invalid-request', field);
    expect(await isStarted(holdfast, taskId)).toBe(false);
  });
});
