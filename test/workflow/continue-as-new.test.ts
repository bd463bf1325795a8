import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { TaskPolicy } from '../../src/contracts/workflow.ts';
import type { Scheduler } from '../../src/scheduler/scheduler.ts';
import { startHarness, type Harness } from '../support/harness.ts';
import {
  countOf,
  handleOf,
  insist,
  mailbox,
  NEXT_YEAR,
  queued,
  refusal,
  running,
  runsOf,
  scheduled,
  target,
  typesOf,
  wholeTask,
} from './support.ts';

const SIGNALS_A_RUN = 20;

const POLICY = {
  // Delays that a test can wait out, and an end that it cannot reach by accident.
  publish: { initialSeconds: 0.2, factor: 1, maximumSeconds: 0.2, attempts: 500, timeoutSeconds: 5, totalSeconds: 600 },
  continueAsNewAfterSignals: SIGNALS_A_RUN,
} satisfies Partial<TaskPolicy>;

let holdfast: Harness;
let scheduler: Scheduler;
beforeAll(async () => {
  holdfast = await startHarness({ policy: POLICY });
  ({ scheduler } = holdfast);
});
afterEach(() => holdfast.inbox.answerWith(202));
afterAll(() => holdfast.close());

/** Sends so many messages one after the other, which takes a Task through a rollover for every 20 of them. */
async function sendMessages(taskId: string, count: number, prefix = 'm'): Promise<void> {
  for (let index = 1; index <= count; index += 1) {
    await insist(() => scheduler.sendMessage(target(taskId, `${prefix}${index}`), { body: `${prefix}${index}` }));
  }
}

/** Every run but the last ended by continuing as new, and no workflow task failed in any of them. */
async function expectRollovers(taskId: string, countMin: number): Promise<void> {
  const runs = await runsOf(holdfast, taskId);
  expect(runs.length - 1).toBeGreaterThanOrEqual(countMin);
  for (const run of runs) expect(countOf(run, 'WORKFLOW_TASK_FAILED')).toBe(0);
  for (const run of runs.slice(0, -1)) expect(typesOf(run).at(-1)).toBe('WORKFLOW_EXECUTION_CONTINUED_AS_NEW');
}

test('a Task that gets few signals stays in its first run', async () => {
  const { taskId } = await running(holdfast);
  await sendMessages(taskId, SIGNALS_A_RUN - 2);
  expect(await runsOf(holdfast, taskId)).toHaveLength(1);
  await scheduler.cancel(target(taskId, 'end'), {});
});

test('100 messages one after the other: all there, in order, none twice', async () => {
  const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
  await sendMessages(taskId, 100);
  const expected = Array.from({ length: 100 }, (_, index) => ({ seq: index + 1, body: `m${index + 1}` }));
  expect(await mailbox(scheduler, taskId)).toEqual(expected);
  // A repeat finds its number in a later run.
  const again = await scheduler.sendMessage(target(taskId, 'm7'), { body: 'm7' });
  expect(again).toMatchObject({ seq: 7, replayed: true });
  const otherBody = scheduler.sendMessage(target(taskId, 'm7'), { body: 'other' });
  expect(await refusal(otherBody)).toBe('idempotency-key-reused');
  expect(await mailbox(scheduler, taskId)).toEqual(expected);
  await scheduler.cancel(target(taskId, 'end'), {});
  await expectRollovers(taskId, 5);
  expect(await mailbox(scheduler, taskId)).toEqual(expected);
});

test('100 messages at once, from 20 senders: every acknowledged one is there once, in the order of its number', async () => {
  const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
  const acknowledged: { seq: number; body: string }[] = [];
  const sender = async (name: number): Promise<void> => {
    for (let index = 1; index <= 5; index += 1) {
      const body = `${name}/${index}`;
      const { seq } = await insist(() => scheduler.sendMessage(target(taskId, body), { body }));
      acknowledged.push({ seq, body });
    }
  };
  await Promise.all(Array.from({ length: 20 }, (_, name) => sender(name)));
  const kept = await mailbox(scheduler, taskId);
  expect(kept.map(({ seq }) => seq)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
  expect(kept).toEqual(acknowledged.toSorted((one, other) => one.seq - other.seq));
  await scheduler.cancel(target(taskId, 'end'), {});
  await expectRollovers(taskId, 1);
});

test('an accepted claim is carried over: a second is refused, and the winner’s key still has its claim', async () => {
  const { taskId, token, claimed } = await running(holdfast);
  expect(await refusal(scheduler.claim(target(taskId, 'loser'), { deliveryEventId: token }))).toBe('token-consumed');
  await sendMessages(taskId, 45);
  expect(await refusal(scheduler.claim(target(taskId, 'second'), { deliveryEventId: token }))).toBe('token-consumed');
  expect(await refusal(scheduler.claim(target(taskId, 'loser'), { deliveryEventId: token }))).toBe('token-consumed');
  const again = await scheduler.claim(target(taskId, 'winner'), { deliveryEventId: token });
  expect(again).toMatchObject({ status: 'running', claim: claimed.claim, timeoutAt: claimed.timeoutAt });
  const wrong = scheduler.recordResult(target(taskId, 'r1'), { success: true, claimId: 'second' });
  expect(await refusal(wrong)).toBe('claim-mismatch');
  const ended = await scheduler.recordResult(target(taskId, 'r2'), { success: true, claimId: 'winner' });
  expect(ended.transitions.map(({ to }) => to)).toEqual(['scheduled', 'queued', 'running', 'succeeded']);
  expect(holdfast.inbox.of(taskId)).toHaveLength(1);
  await expectRollovers(taskId, 2);
});

test('a message that is read stays read, and its key is still known', async () => {
  const { taskId } = await running(holdfast);
  await sendMessages(taskId, 5, 'old');
  await handleOf(holdfast, taskId).signal('mark-read', { key: 'read', fingerprint: 'f', upTo: 3 });
  await sendMessages(taskId, 30, 'new');
  const kept = await mailbox(scheduler, taskId);
  expect(kept.slice(0, 3).map(({ body }) => body)).toEqual(['old4', 'old5', 'new1']);
  expect(kept).toHaveLength(32);
  const again = await scheduler.sendMessage(target(taskId, 'old2'), { body: 'old2' });
  expect(again).toMatchObject({ seq: 2, replayed: true });
  expect((await wholeTask(scheduler, taskId)).mailbox).toEqual({ lastSeq: 35, readSeq: 3, unread: 32 });
  await scheduler.cancel(target(taskId, 'end'), {});
  await expectRollovers(taskId, 1);
});

test('a publish that is still retrying goes on in the next run, with the same token', async () => {
  const { inbox } = holdfast;
  inbox.answerWith(500);
  const taskId = await scheduled(holdfast);
  const { id: token } = await inbox.next(taskId);
  await sendMessages(taskId, 45);
  await expectRollovers(taskId, 2);
  // It retries in the new run too, before the receiver recovers.
  await inbox.next(taskId, inbox.of(taskId).length + 1);
  const before = await wholeTask(scheduler, taskId);
  expect(before).toMatchObject({ status: 'scheduled', delivery: { state: 'pending', eventId: token } });
  inbox.answerWith(202);
  const task = await holdfast.until(taskId, ({ status }) => status === 'queued');
  expect(task.delivery).toMatchObject({ state: 'published', eventId: token });
  expect(new Set(inbox.of(taskId).map(({ id }) => id))).toEqual(new Set([token]));
  const claimed = await scheduler.claim(target(taskId, 'c'), { deliveryEventId: token });
  expect(claimed.status).toBe('running');
  await scheduler.cancel(target(taskId, 'end'), {});
});

// The activity that is cancelled takes its count with it: `delivery.attempts` is 2 of 5, and the policy's bound on
// attempts begins anew with each run.
test.fails('attempts that an earlier run made are counted', async () => {
  const { inbox } = holdfast;
  inbox.answerWith(500);
  const taskId = await scheduled(holdfast);
  await inbox.next(taskId, 3);
  await sendMessages(taskId, 25);
  await expectRollovers(taskId, 1);
  inbox.answerWith(202);
  const task = await holdfast.until(taskId, ({ status }) => status === 'queued');
  await scheduler.cancel(target(taskId, 'end'), {});
  expect(task.delivery.attempts).toBe(inbox.of(taskId).length);
});

test('the run timer and the scheduled release go on, at their old moments', async () => {
  const run = async (): Promise<void> => {
    const { taskId, claimed } = await running(holdfast, { runTimeoutSeconds: 4 });
    await sendMessages(taskId, 25);
    await expectRollovers(taskId, 1);
    const ended = await holdfast.until(taskId, ({ status }) => status === 'timed_out');
    expect(ended.timeoutAt).toBe(claimed.timeoutAt);
    expect((ended.completedAt ?? '') >= (claimed.timeoutAt ?? 'z')).toBe(true);
  };
  const release = async (): Promise<void> => {
    const taskId = await scheduled(holdfast, { delaySeconds: 4 });
    await sendMessages(taskId, 25);
    await expectRollovers(taskId, 1);
    const task = await holdfast.until(taskId, ({ status }) => status === 'queued');
    expect((task.queuedAt ?? '') >= task.releaseAt).toBe(true);
    expect(holdfast.inbox.of(taskId)).toHaveLength(1);
    await scheduler.cancel(target(taskId, 'end'), {});
  };
  await Promise.all([run(), release()]);
});

test('the search attributes and the priority go on', async () => {
  const { taskId } = await queued(holdfast, { priority: 2, source: { kind: 'incident', ref: 'INC-7' } });
  const before = await handleOf(holdfast, taskId).describe();
  await sendMessages(taskId, 25);
  const after = await handleOf(holdfast, taskId).describe();
  expect(after.runId).not.toBe(before.runId);
  expect(after.searchAttributes).toEqual(before.searchAttributes);
  expect(after.memo).toEqual(before.memo);
  expect(after.priority).toEqual(before.priority);
  expect(after.priority).toMatchObject({ priorityKey: 2, fairnessKey: 'local' });
  await scheduler.cancel(target(taskId, 'end'), {});
});

// Temporal does not carry it, and the SDK has no option for it.
test.fails('the static summary goes on', async () => {
  const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
  const summary = await (await handleOf(holdfast, taskId).describe()).staticSummary();
  await sendMessages(taskId, 25);
  const after = await handleOf(holdfast, taskId).describe();
  await scheduler.cancel(target(taskId, 'end'), {});
  expect(await after.staticSummary()).toBe(summary);
});
