import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { addSeconds, instantOf } from '../../src/contracts/instant.ts';
import type { TaskPolicy } from '../../src/contracts/workflow.ts';
import { CUSTOMER, ensureRuntime, startHarness, type Harness } from '../support/harness.ts';
import { startTimeSkipping } from '../support/time-skipping.ts';
import {
  countOf,
  eventually,
  handleOf,
  historyOf,
  mailbox,
  queued,
  refusal,
  running,
  runsOf,
  scheduled,
  target,
  wholeTask,
} from './support.ts';

const MINUTE = 60;
const DAY = 24 * 3600;
const YEAR = 365 * DAY;

const POLICY = {
  publish: { initialSeconds: 10, factor: 2, maximumSeconds: 60, attempts: 4, timeoutSeconds: 15, totalSeconds: DAY },
  redelivery: { afterSeconds: 5 * MINUTE, maximumSeconds: 3600, rounds: 3 },
  continueAsNewAfterSignals: 12,
} satisfies Partial<TaskPolicy>;

let env: TestWorkflowEnvironment;
let holdfast: Harness;
/** How far the server's clock is ahead of this machine's. */
let aheadMs = 0;

beforeAll(async () => {
  ensureRuntime();
  env = await startTimeSkipping();
  holdfast = await startHarness({
    policy: POLICY,
    server: {
      address: env.address ?? '',
      connection: env.nativeConnection,
      client: env.connection,
      now: () => Date.now() + aheadMs,
    },
  });
});
afterEach(() => holdfast.inbox.answerWith(202));
afterAll(async () => {
  await holdfast.close();
  await env.teardown();
});

/** Lets the server's clock go on, and everything that is due by then happen. */
async function skip(seconds: number): Promise<void> {
  await env.sleep(seconds * 1000);
  aheadMs = (await env.currentTimeMs()) - Date.now();
}

/** By signals alone: this server forgets a query that meets a workflow which continues as new. */
async function sendMessages(taskId: string, count: number): Promise<void> {
  for (let index = 1; index <= count; index += 1) {
    const command = { key: `m${index}`, fingerprint: 'f', messageId: `msg-${index}`, body: index };
    await handleOf(holdfast, taskId).signal('message', command);
    await eventually(
      async () => (await runsOf(holdfast, taskId)).flat().filter((event) => event.workflowTaskCompletedEventAttributes),
      (completed) => completed.length >= index,
    );
  }
}

function now(): string {
  return instantOf(Date.now() + aheadMs);
}

describe('scheduled release', () => {
  test.each([
    { days: 25, why: 'beyond the 2^31 ms of a timer of JavaScript' },
    { days: 50, why: 'beyond 2^32 ms' },
    { days: 364, why: 'nearly a year' },
    { days: 365, why: 'a year' },
  ])('$days days ahead: nothing the day before, released once at its time', async ({ days }) => {
    const releaseAt = addSeconds(now(), days * DAY);
    const taskId = await scheduled(holdfast, { releaseAt });
    expect(await holdfast.until(taskId, () => true)).toMatchObject({ status: 'scheduled', nextAlarmAt: releaseAt });
    await skip((days - 1) * DAY);
    expect(await wholeTask(holdfast.scheduler, taskId)).toMatchObject({
      status: 'scheduled',
      revision: 1,
      delivery: { state: 'none', eventId: null, attempts: 0 },
    });
    expect(holdfast.inbox.of(taskId)).toHaveLength(0);

    await skip(DAY + 1);
    const event = await holdfast.inbox.next(taskId);
    const task = await holdfast.until(taskId, ({ status }) => status === 'queued');
    expect(task.delivery).toMatchObject({ state: 'published', eventId: event.id, attempts: 1 });
    expect((task.queuedAt ?? '') >= releaseAt).toBe(true);
    expect(holdfast.inbox.of(taskId)).toHaveLength(1);
    const events = await historyOf(holdfast, taskId);
    // One timer for the release however far it is, and the one of the redelivery.
    expect(countOf(events, 'TIMER_STARTED')).toBe(2);
    expect(countOf(events, 'TIMER_FIRED')).toBe(1);
    await holdfast.scheduler.cancel(target(taskId, 'cancel'), {});
  });

  test.each(['1970-01-01T00:00:00.000Z', '0001-01-01T00:00:00.000Z'])(
    'in the past (%s): released at once, exactly once, without a timer',
    async (releaseAt) => {
      const { taskId, token } = await queued(holdfast, { releaseAt });
      await skip(MINUTE);
      expect(holdfast.inbox.of(taskId).map(({ id }) => id)).toEqual([token]);
      const events = await historyOf(holdfast, taskId);
      expect(countOf(events, 'TIMER_STARTED')).toBe(1); // that of the redelivery
      expect(countOf(events, 'TIMER_FIRED')).toBe(0);
      await holdfast.scheduler.cancel(target(taskId, 'cancel'), {});
    },
  );

  test('a Task that is canceled before its release is never released', async () => {
    const taskId = await scheduled(holdfast, { delaySeconds: DAY });
    const canceled = await holdfast.scheduler.cancel(target(taskId, 'cancel'), {});
    await skip(2 * DAY);
    expect(holdfast.inbox.of(taskId)).toHaveLength(0);
    expect(await wholeTask(holdfast.scheduler, taskId)).toEqual(canceled);
  });

  test('survives rollovers that messages bring, none of which releases early', async () => {
    const releaseAt = addSeconds(now(), 30 * DAY);
    const taskId = await scheduled(holdfast, { releaseAt });
    await sendMessages(taskId, 30);
    await skip(29 * DAY);
    const before = await wholeTask(holdfast.scheduler, taskId);
    expect(before).toMatchObject({ status: 'scheduled', nextAlarmAt: releaseAt, delivery: { state: 'none' } });
    expect(holdfast.inbox.of(taskId)).toHaveLength(0);
    await skip(DAY + 1);
    await holdfast.until(taskId, ({ status }) => status === 'queued');
    expect(holdfast.inbox.of(taskId)).toHaveLength(1);
    const bodies = (await mailbox(holdfast.scheduler, taskId)).map(({ body }) => body);
    expect(bodies).toEqual(Array.from({ length: 30 }, (_, index) => index + 1));
    await holdfast.scheduler.cancel(target(taskId, 'cancel'), {});
    expect((await runsOf(holdfast, taskId)).length).toBeGreaterThanOrEqual(3);
  });
});

describe('run time-out', () => {
  test.each([
    { seconds: 2_147_483, why: 'the last whole second below 2^31 ms' },
    { seconds: 2_147_484, why: 'the first above' },
    { seconds: 4_294_968, why: 'above 2^32 ms' },
    { seconds: YEAR, why: 'a year' },
  ])('of $seconds s ($why): running the day before, then timed out for good', async ({ seconds }) => {
    const { scheduler } = holdfast;
    const { taskId, token, claimed } = await running(holdfast, { runTimeoutSeconds: seconds });
    expect(claimed.timeoutAt).toBe(addSeconds(claimed.startedAt ?? '', seconds));
    await skip(seconds - DAY);
    expect(await wholeTask(scheduler, taskId)).toEqual(claimed);
    await skip(DAY + 1);
    const ended = await holdfast.until(taskId, ({ status }) => status === 'timed_out');
    expect((ended.completedAt ?? '') >= (claimed.timeoutAt ?? 'z')).toBe(true);
    expect(ended.transitions.at(-1)).toMatchObject({ from: 'running', cause: 'run-window-exceeded' });
    const late = scheduler.recordResult(target(taskId, 'late'), { success: true, claimId: 'winner' });
    expect(await refusal(late)).toBe('task-terminal');
    expect(await refusal(scheduler.claim(target(taskId, 'again'), { deliveryEventId: token }))).toBe('task-terminal');
    expect(await wholeTask(scheduler, taskId)).toEqual(ended);
    // Silent while it ran: no second announcement.
    expect(holdfast.inbox.of(taskId)).toHaveLength(1);
  });

  test('never ends a Task that is done before', async () => {
    const { scheduler } = holdfast;
    const { taskId } = await running(holdfast, { runTimeoutSeconds: YEAR });
    await skip(1);
    const ended = await scheduler.recordResult(target(taskId, 'r'), { success: true });
    await skip(YEAR + DAY);
    expect(await wholeTask(scheduler, taskId)).toEqual(ended);
    expect(ended.status).toBe('succeeded');
    expect(holdfast.inbox.of(taskId)).toHaveLength(1);
  });

  test('survives rollovers, at its old moment', async () => {
    const { scheduler } = holdfast;
    const { taskId, token, claimed } = await running(holdfast, { runTimeoutSeconds: 30 * DAY });
    await sendMessages(taskId, 30);
    await skip(29 * DAY);
    const before = await wholeTask(scheduler, taskId);
    expect(before).toMatchObject({ status: 'running', timeoutAt: claimed.timeoutAt, nextAlarmAt: claimed.timeoutAt });
    expect(await refusal(scheduler.claim(target(taskId, 'second'), { deliveryEventId: token }))).toBe('token-consumed');
    await skip(DAY + 1);
    const ended = await holdfast.until(taskId, ({ status }) => status === 'timed_out');
    expect(ended.timeoutAt).toBe(claimed.timeoutAt);
    expect((await runsOf(holdfast, taskId)).length).toBeGreaterThanOrEqual(3);
  });
});

describe('redelivery of what nobody claims', () => {
  test('the same token again, each time twice as late, and given up after the last round', async () => {
    const { scheduler, inbox } = holdfast;
    const { taskId, token } = await queued(holdfast);
    const redelivered = async (round: number): Promise<void> => {
      const task = await holdfast.until(taskId, ({ delivery }) => delivery.attempts === round);
      expect(task).toMatchObject({ status: 'queued', delivery: { state: 'published', eventId: token } });
      expect(task.queuedAt).not.toBeNull();
      expect(inbox.of(taskId).map(({ id }) => id)).toEqual(Array.from({ length: round }, () => token));
    };
    await redelivered(1);
    await skip(4 * MINUTE);
    await redelivered(1);
    await skip(MINUTE + 5);
    await redelivered(2);
    await skip(9 * MINUTE);
    await redelivered(2);
    await skip(MINUTE + 5);
    await redelivered(3);
    await skip(19 * MINUTE);
    await redelivered(3);
    await skip(MINUTE + 5);
    const exhausted = await holdfast.until(taskId, ({ delivery }) => delivery.state === 'exhausted');
    expect(exhausted).toMatchObject({ status: 'queued', nextAlarmAt: null, delivery: { lastError: 'unclaimed' } });
    await skip(YEAR);
    expect(inbox.of(taskId)).toHaveLength(POLICY.redelivery.rounds);
    // Given up is not ended: it can still be claimed.
    const claimed = await scheduler.claim(target(taskId, 'c'), { deliveryEventId: token });
    expect(claimed.status).toBe('running');
    await scheduler.cancel(target(taskId, 'cancel'), {});
  });

  test('ends with the claim', async () => {
    const { scheduler, inbox } = holdfast;
    const { taskId } = await running(holdfast, { runTimeoutSeconds: DAY });
    await skip(DAY - MINUTE);
    expect(inbox.of(taskId)).toHaveLength(1);
    expect((await wholeTask(scheduler, taskId)).status).toBe('running');
    await scheduler.cancel(target(taskId, 'cancel'), {});
  });
});

describe('a receiver that fails', () => {
  test('attempts are bounded, giving up is visible, and a message repairs it with the same token', async () => {
    const { scheduler, inbox } = holdfast;
    inbox.answerWith(500);
    const taskId = await scheduled(holdfast);
    const { id: token } = await inbox.next(taskId);
    await skip(10 * MINUTE);
    const exhausted = await holdfast.until(taskId, ({ delivery }) => delivery.state === 'exhausted');
    expect(exhausted).toMatchObject({
      status: 'scheduled',
      queuedAt: null,
      nextAlarmAt: null,
      delivery: { eventId: token, attempts: POLICY.publish.attempts, publishedAt: null },
    });
    expect(exhausted.delivery.lastError).toContain('500');
    await skip(DAY);
    expect(inbox.of(taskId).map(({ id }) => id)).toEqual(Array.from({ length: POLICY.publish.attempts }, () => token));

    inbox.answerWith(202);
    expect(await scheduler.sendMessage(target(taskId, 'm1'), { body: 'hello' })).toMatchObject({ seq: 1 });
    const repaired = await holdfast.until(taskId, ({ status }) => status === 'queued');
    expect(repaired.delivery).toMatchObject({ state: 'published', eventId: token, attempts: 1, lastError: null });
    expect(inbox.of(taskId)).toHaveLength(POLICY.publish.attempts + 1);
    expect(new Set(inbox.of(taskId).map(({ id }) => id))).toEqual(new Set([token]));
    expect((await scheduler.claim(target(taskId, 'c'), { deliveryEventId: token })).status).toBe('running');
    await scheduler.cancel(target(taskId, 'cancel'), {});
  });

  test('one that recovers in time is published once more, not given up', async () => {
    const { scheduler, inbox } = holdfast;
    inbox.answerWith(503);
    const taskId = await scheduled(holdfast);
    await inbox.next(taskId);
    inbox.answerWith(202);
    await skip(MINUTE);
    const task = await holdfast.until(taskId, ({ status }) => status === 'queued');
    expect(task.delivery).toMatchObject({ state: 'published', attempts: 2, lastError: null });
    expect(inbox.of(taskId)).toHaveLength(2);
    await scheduler.cancel(target(taskId, 'cancel'), {});
  });

  test('a Task that was given up is still there to be canceled, and costs nothing meanwhile', async () => {
    const { scheduler, inbox } = holdfast;
    inbox.answerWith(404);
    const taskId = await scheduled(holdfast);
    await inbox.next(taskId);
    await skip(10 * MINUTE);
    await holdfast.until(taskId, ({ delivery }) => delivery.state === 'exhausted');
    const before = (await historyOf(holdfast, taskId)).length;
    await skip(YEAR);
    expect(await historyOf(holdfast, taskId)).toHaveLength(before);
    const canceled = await scheduler.cancel(target(taskId, 'cancel'), {});
    expect(canceled.status).toBe('canceled');
    expect(await scheduler.stopCheck(CUSTOMER, taskId)).toMatchObject({ shouldStop: true });
  });

  test('a message to a Task that is still being published does not publish it twice', async () => {
    const { scheduler, inbox } = holdfast;
    inbox.answerWith(500);
    const taskId = await scheduled(holdfast);
    await inbox.next(taskId);
    await scheduler.sendMessage(target(taskId, 'm1'), { body: 1 });
    await scheduler.sendMessage(target(taskId, 'm2'), { body: 2 });
    await eventually(
      async () => countOf(await historyOf(holdfast, taskId), 'WORKFLOW_EXECUTION_SIGNALED'),
      (signals) => signals === 2,
    );
    expect(countOf(await historyOf(holdfast, taskId), 'ACTIVITY_TASK_SCHEDULED')).toBe(1);
    expect((await handleOf(holdfast, taskId).describe()).raw.pendingActivities).toHaveLength(1);
    await scheduler.cancel(target(taskId, 'cancel'), {});
  });
});
