import { RawValue } from '@temporalio/common';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { TaskStatus } from '../../src/contracts/task.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { ServerClock } from '../../src/scheduler/server-clock.ts';
import { CUSTOMER, startHarness, type Harness } from '../support/harness.ts';
import {
  countOf,
  eventually,
  handleOf,
  historyOf,
  insist,
  mailbox,
  NEXT_YEAR,
  queued,
  refusal,
  running,
  scheduled,
  target,
  typesOf,
  wholeTask,
} from './support.ts';

const log = pino({ level: 'silent' });

let holdfast: Harness;
let scheduler: Scheduler;
beforeAll(async () => {
  holdfast = await startHarness();
  ({ scheduler } = holdfast);
});
afterEach(() => holdfast.inbox.answerWith(202));
afterAll(() => holdfast.close());

/** Another facade of the same Tasks; its clock may be behind. */
function anotherScheduler(options: { behindMs?: number } = {}): Scheduler {
  const { behindMs = 0 } = options;
  const { gateway, policy } = holdfast;
  return new Scheduler({
    gateway,
    policy,
    clock: new ServerClock(() => Date.now() - behindMs, log),
    log,
    runTimeoutSeconds: 3600,
    runTimeoutSecondsMax: LIMITS.runTimeoutSecondsMax,
  });
}

/** A Task that is due and whose publish is still retrying. */
async function unpublished(): Promise<{ taskId: string; token: string }> {
  holdfast.inbox.answerWith(500);
  const taskId = await scheduled(holdfast);
  const { id: token } = await holdfast.inbox.next(taskId);
  return { taskId, token };
}

/** A Task in each status that is not final, and in both of `scheduled`'s: before its release and after. */
const IN_EACH_OPEN_STATUS: Record<string, () => Promise<string>> = {
  'scheduled, not released': () => scheduled(holdfast, { releaseAt: NEXT_YEAR }),
  'scheduled, its publish retrying': async () => (await unpublished()).taskId,
  queued: async () => (await queued(holdfast)).taskId,
  running: async () => (await running(holdfast)).taskId,
};

/** How a Task comes to each status that is final. */
const ENDINGS: Record<'succeeded' | 'failed' | 'canceled' | 'timed_out', () => Promise<string>> = {
  succeeded: async () => {
    const { taskId } = await running(holdfast);
    await scheduler.recordResult(target(taskId, 'end'), { success: true, output: 1 });
    return taskId;
  },
  failed: async () => {
    const { taskId } = await running(holdfast);
    await scheduler.recordResult(target(taskId, 'end'), { success: false, error: 'no' });
    return taskId;
  },
  canceled: async () => {
    const { taskId } = await queued(holdfast);
    await scheduler.cancel(target(taskId, 'end'), {});
    return taskId;
  },
  timed_out: async () => {
    const { taskId } = await running(holdfast, { runTimeoutSeconds: 1 });
    await holdfast.until(taskId, ({ status }) => status === 'timed_out');
    return taskId;
  },
};

describe('claim', () => {
  test('only the Task’s own token is accepted', async () => {
    const { taskId, token } = await queued(holdfast);
    const other = await queued(holdfast);
    for (const wrong of [other.token, 'evt_00000000-0000-4000-8000-000000000000', `${token}x`]) {
      expect(
        await refusal(
          scheduler.claim(target(taskId, `wrong ${wrong}`.replaceAll(' ', '-')), { deliveryEventId: wrong }),
        ),
      ).toBe('token-mismatch');
    }
    const before = await wholeTask(scheduler, taskId);
    expect(before.status).toBe('queued');
    const claimed = await scheduler.claim(target(taskId, 'right'), { deliveryEventId: token, executorId: 'x-1' });
    expect(claimed).toMatchObject({ status: 'running', claim: { deliveryEventId: token, executorId: 'x-1' } });
    expect(claimed.timeoutAt).not.toBeNull();
  });

  test('a token is consumed by the first accepted claim, and the winner’s repeat gets its claim again', async () => {
    const { taskId, token, claimed } = await running(holdfast);
    expect(await refusal(scheduler.claim(target(taskId, 'second'), { deliveryEventId: token }))).toBe('token-consumed');
    expect(await scheduler.claim(target(taskId, 'winner'), { deliveryEventId: token })).toEqual(claimed);
    expect(await refusal(scheduler.claim(target(taskId, 'second'), { deliveryEventId: token }))).toBe('token-consumed');
  });

  test('one key with another body is told so, and does not claim', async () => {
    const { taskId, token, claimed } = await running(holdfast);
    const otherBody = { deliveryEventId: token, executorId: 'another' };
    expect(await refusal(scheduler.claim(target(taskId, 'winner'), otherBody))).toBe('idempotency-key-reused');
    expect(await wholeTask(scheduler, taskId)).toEqual(claimed);
  });

  test('nothing can be claimed before the release', async () => {
    const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    const deliveryEventId = 'evt_00000000-0000-4000-8000-000000000000';
    expect(await refusal(scheduler.claim(target(taskId, 'c'), { deliveryEventId }))).toBe('not-released');
    expect(await wholeTask(scheduler, taskId)).toMatchObject({ status: 'scheduled', delivery: { eventId: null } });
  });

  test('nothing can be claimed after the end, or where there is no Task', async () => {
    const { taskId, token } = await queued(holdfast);
    await scheduler.cancel(target(taskId, 'cancel'), {});
    expect(await refusal(scheduler.claim(target(taskId, 'c'), { deliveryEventId: token }))).toBe('task-terminal');
    const missing = target(holdfast.freshId(), 'c');
    expect(await refusal(scheduler.claim(missing, { deliveryEventId: token }))).toBe('task-not-found');
  });

  test('a claim that is read too late is refused, and its key is decided afresh', async () => {
    const { taskId, token } = await queued(holdfast);
    const late = anotherScheduler({ behindMs: 60_000 });
    expect(await refusal(late.claim(target(taskId, 'c'), { deliveryEventId: token }))).toBe('claim-expired');
    expect((await wholeTask(scheduler, taskId)).status).toBe('queued');
    const claimed = await scheduler.claim(target(taskId, 'c'), { deliveryEventId: token });
    expect(claimed.status).toBe('running');
    // From here on the key has a verdict that stands, whatever clock repeats it.
    expect(await late.claim(target(taskId, 'c'), { deliveryEventId: token })).toEqual(claimed);
  });

  test('one announcement that reaches 50 claimants at once starts one of them', async () => {
    const { taskId, token } = await queued(holdfast);
    const facades = [anotherScheduler(), anotherScheduler()];
    const attempt = async (index: number): Promise<string> => {
      const facade = facades[index % 2] ?? scheduler;
      const one = target(taskId, `claimant-${index}`);
      try {
        await insist(() => facade.claim(one, { deliveryEventId: token, executorId: `x-${index}` }));
        return 'accepted';
      } catch (error) {
        return refusal(Promise.reject(error));
      }
    };
    const all = Array.from({ length: 50 }, (_, index) => index);
    const first = await Promise.all(all.map(attempt));
    expect(first.filter((each) => each === 'accepted')).toHaveLength(1);
    expect(first.filter((each) => each === 'token-consumed')).toHaveLength(49);
    const winner = `x-${first.indexOf('accepted')}`;
    const task = await wholeTask(scheduler, taskId);
    expect(task).toMatchObject({ status: 'running', claim: { executorId: winner } });
    // Asked again, nobody gets another answer and nothing changes.
    expect(await Promise.all(all.map(attempt))).toEqual(first);
    expect(await wholeTask(scheduler, taskId)).toEqual(task);
  });

  test('a claim inside the webhook call goes from scheduled to running, and the publish answer changes nothing', async () => {
    const taskId = holdfast.freshId();
    holdfast.inbox.answerWith(async (event) => {
      if (event.subject === taskId) await scheduler.claim(target(taskId, 'c'), { deliveryEventId: event.id });
      return 202;
    });
    await scheduled(holdfast, { taskId });
    const claimed = await holdfast.until(taskId, ({ status }) => status === 'running');
    expect(claimed.transitions.map(({ to }) => to)).toEqual(['scheduled', 'running']);
    expect(claimed.queuedAt).toBeNull();
    // The receiver's 202 comes after the claim: once Temporal has it, the Task must stand as before.
    await eventually(
      async () => typesOf(await historyOf(holdfast, taskId)),
      (types) => types.includes('ACTIVITY_TASK_COMPLETED') || types.includes('ACTIVITY_TASK_CANCELED'),
    );
    expect(await wholeTask(scheduler, taskId)).toEqual(claimed);
    expect(claimed.delivery.state).toBe('consumed');
    expect(holdfast.inbox.of(taskId)).toHaveLength(1);
  });

  test('a Task whose publish is still retrying can be claimed, and is not published any more', async () => {
    const { taskId, token } = await unpublished();
    const claimed = await scheduler.claim(target(taskId, 'c'), { deliveryEventId: token });
    expect(claimed.transitions.map(({ to }) => to)).toEqual(['scheduled', 'running']);
    await eventually(
      async () => typesOf(await historyOf(holdfast, taskId)),
      (types) => types.includes('ACTIVITY_TASK_CANCEL_REQUESTED'),
    );
    expect((await handleOf(holdfast, taskId).describe()).raw.pendingActivities ?? []).toHaveLength(0);
  });
});

describe('cancel', () => {
  test.each(Object.keys(IN_EACH_OPEN_STATUS))('ends a Task that is %s, once and for good', async (status) => {
    const taskId = (await IN_EACH_OPEN_STATUS[status]?.()) ?? '';
    const before = await wholeTask(scheduler, taskId);
    const canceled = await scheduler.cancel(target(taskId, 'cancel'), { reason: 'not needed' });
    expect(canceled).toMatchObject({
      status: 'canceled',
      cancellation: { reason: 'not needed', by: 'command' },
      nextAlarmAt: null,
      result: null,
    });
    expect(canceled.transitions.at(-1)).toMatchObject({
      from: before.status,
      to: 'canceled',
      cause: 'cancel-accepted',
    });
    // Again, by the same key and by another: success, and not a word has changed.
    expect(await scheduler.cancel(target(taskId, 'cancel'), { reason: 'not needed' })).toEqual(canceled);
    expect(await scheduler.cancel(target(taskId, 'cancel-2'), { reason: 'another' })).toEqual(canceled);
    const otherBody = scheduler.cancel(target(taskId, 'cancel'), { reason: 'another' });
    expect(await refusal(otherBody)).toBe('idempotency-key-reused');
    expect(await refusal(scheduler.recordResult(target(taskId, 'r'), { success: true }))).toBe('task-terminal');
    expect(await wholeTask(scheduler, taskId)).toEqual(canceled);
    expect((await handleOf(holdfast, taskId).describe()).status.name).toBe('COMPLETED');
  });

  test.each(['succeeded', 'failed', 'timed_out'] as const)('does not touch a Task that has %s', async (status) => {
    const taskId = await ENDINGS[status]();
    const before = await wholeTask(scheduler, taskId);
    expect(await refusal(scheduler.cancel(target(taskId, 'late'), {}))).toBe('task-terminal');
    expect(await wholeTask(scheduler, taskId)).toEqual(before);
  });

  test('Temporal’s own cancel means cancel, and the workflow completes', async () => {
    const { taskId } = await running(holdfast);
    await handleOf(holdfast, taskId).cancel();
    const canceled = await holdfast.until(taskId, ({ status }) => status === 'canceled');
    expect(canceled).toMatchObject({ cancellation: { reason: null, by: 'temporal' } });
    expect(canceled.transitions.at(-1)?.cause).toBe('canceled-in-temporal');
    expect((await handleOf(holdfast, taskId).describe()).status.name).toBe('COMPLETED');
    expect(await scheduler.cancel(target(taskId, 'after'), {})).toEqual(canceled);
    expect(await refusal(scheduler.recordResult(target(taskId, 'r'), { success: true }))).toBe('task-terminal');
  });

  test('Temporal’s own cancel of a Task that waits for its release', async () => {
    const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    await handleOf(holdfast, taskId).cancel();
    const canceled = await holdfast.until(taskId, ({ status }) => status === 'canceled');
    expect(canceled.cancellation?.by).toBe('temporal');
    expect(holdfast.inbox.of(taskId)).toHaveLength(0);
  });

  test('a workflow that an operator terminated reads as canceled', async () => {
    const { taskId, token } = await queued(holdfast);
    await handleOf(holdfast, taskId).terminate('out of patience');
    const canceled = await wholeTask(scheduler, taskId);
    expect(canceled).toMatchObject({
      status: 'canceled',
      cancellation: { reason: 'terminated by operator: out of patience', by: 'temporal' },
    });
    expect(canceled.transitions.at(-1)?.cause).toBe('terminated-by-operator');
    expect(await refusal(scheduler.claim(target(taskId, 'c'), { deliveryEventId: token }))).toBe('task-terminal');
    expect(await scheduler.cancel(target(taskId, 'after'), {})).toEqual(canceled);
    expect(await scheduler.stopCheck(CUSTOMER, taskId)).toMatchObject({ shouldStop: true, status: 'canceled' });
  });
});

describe('result', () => {
  test.each([
    { success: true, status: 'succeeded' },
    { success: false, status: 'failed' },
  ])('before any claim is accepted: $status', async ({ success, status }) => {
    const { taskId, token } = await queued(holdfast);
    const ended = await scheduler.recordResult(target(taskId, 'r'), { success, summary: 'done' });
    expect(ended).toMatchObject({ status, claim: null, startedAt: null, result: { success, summary: 'done' } });
    expect(await scheduler.recordResult(target(taskId, 'r'), { success, summary: 'done' })).toEqual(ended);
    expect(await refusal(scheduler.recordResult(target(taskId, 'r2'), { success, summary: 'done' }))).toBe(
      'task-terminal',
    );
    expect(await refusal(scheduler.claim(target(taskId, 'c'), { deliveryEventId: token }))).toBe('task-terminal');
  });

  test('the record of what stands comes with the refusal of a late one', async () => {
    const taskId = await ENDINGS.canceled();
    await expect(scheduler.recordResult(target(taskId, 'late'), { success: true })).rejects.toMatchObject({
      code: 'task-terminal',
      extra: { task: { taskId, status: 'canceled' } },
    });
  });

  test('is fenced by the claim id', async () => {
    const { taskId } = await running(holdfast);
    const wrong = scheduler.recordResult(target(taskId, 'r'), { success: true, claimId: 'loser' });
    expect(await refusal(wrong)).toBe('claim-mismatch');
    expect((await wholeTask(scheduler, taskId)).status).toBe('running');
    // The refusal stands for its key; the executor that holds the claim goes on.
    expect(await refusal(scheduler.recordResult(target(taskId, 'r'), { success: true, claimId: 'loser' }))).toBe(
      'claim-mismatch',
    );
    const ended = await scheduler.recordResult(target(taskId, 'r2'), { success: true, claimId: 'winner' });
    expect(ended.status).toBe('succeeded');
  });

  test('a claim id fences a Task that nobody has claimed, too', async () => {
    const { taskId } = await queued(holdfast);
    const attempt = scheduler.recordResult(target(taskId, 'r'), { success: true, claimId: 'winner' });
    expect(await refusal(attempt)).toBe('claim-mismatch');
    expect((await wholeTask(scheduler, taskId)).status).toBe('queued');
  });

  test('is refused when a message came that the executor has not seen', async () => {
    const { taskId } = await running(holdfast);
    await scheduler.sendMessage(target(taskId, 'm1'), { body: 'wait' });
    const unseen = scheduler.recordResult(target(taskId, 'r1'), { success: true, ifMailboxSeq: 0 });
    expect(await refusal(unseen)).toBe('unread-messages');
    expect((await wholeTask(scheduler, taskId)).status).toBe('running');
    const seen = await scheduler.recordResult(target(taskId, 'r2'), { success: true, ifMailboxSeq: 1 });
    expect(seen.status).toBe('succeeded');
  });
});

describe('mailbox', () => {
  test('numbers messages in order, and a repeated key keeps its number', async () => {
    const { taskId } = await running(holdfast);
    const first = await scheduler.sendMessage(target(taskId, 'm1'), { body: { text: 'one' } });
    const second = await scheduler.sendMessage(target(taskId, 'm2'), { body: null });
    const third = await scheduler.sendMessage(target(taskId, 'm3'), { body: 3 });
    expect([first, second, third].map(({ seq }) => seq)).toEqual([1, 2, 3]);
    const again = await scheduler.sendMessage(target(taskId, 'm2'), { body: null });
    expect(again).toEqual({ ...second, replayed: true });
    const otherBody = scheduler.sendMessage(target(taskId, 'm2'), { body: 'else' });
    expect(await refusal(otherBody)).toBe('idempotency-key-reused');
    expect(await mailbox(scheduler, taskId)).toEqual([
      { seq: 1, body: { text: 'one' } },
      { seq: 2, body: null },
      { seq: 3, body: 3 },
    ]);
    const page = await scheduler.messages(CUSTOMER, taskId, { after: 1, limit: 1 });
    expect(page).toMatchObject({ messages: [{ seq: 2, messageId: second.messageId }], lastSeq: 3, readSeq: 0 });
    const none = await scheduler.messages(CUSTOMER, taskId, { after: 3, limit: 10 });
    expect(none.messages).toEqual([]);
  });

  test.each(Object.keys(IN_EACH_OPEN_STATUS))('takes a message for a Task that is %s', async (status) => {
    const taskId = (await IN_EACH_OPEN_STATUS[status]?.()) ?? '';
    const before = await wholeTask(scheduler, taskId);
    expect(await scheduler.sendMessage(target(taskId, 'm'), { body: 1 })).toMatchObject({ seq: 1, replayed: false });
    expect(await wholeTask(scheduler, taskId)).toMatchObject({
      status: before.status,
      mailbox: { lastSeq: 1, unread: 1 },
      delivery: { eventId: before.delivery.eventId },
    });
  });

  test.each(Object.keys(ENDINGS) as (keyof typeof ENDINGS)[])('takes none for a Task that has %s', async (status) => {
    const taskId = await ENDINGS[status]();
    expect(await refusal(scheduler.sendMessage(target(taskId, 'm'), { body: 1 }))).toBe('task-terminal');
    expect(await mailbox(scheduler, taskId)).toEqual([]);
  });

  test('stays readable after the end, and an old key still has its number', async () => {
    const { taskId } = await running(holdfast);
    const sent = await scheduler.sendMessage(target(taskId, 'm1'), { body: 'one' });
    await scheduler.cancel(target(taskId, 'cancel'), {});
    expect(await scheduler.sendMessage(target(taskId, 'm1'), { body: 'one' })).toEqual({ ...sent, replayed: true });
    expect(await refusal(scheduler.sendMessage(target(taskId, 'm2'), { body: 'two' }))).toBe('task-terminal');
    expect(await mailbox(scheduler, taskId)).toEqual([{ seq: 1, body: 'one' }]);
  });
});

describe('signals made by hand', () => {
  const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const payload = (encoding: string, text: string): RawValue =>
    RawValue.fromPayload({ metadata: { encoding: Buffer.from(encoding) }, data: Buffer.from(text) });
  const command = { key: 'k', fingerprint: 'f' };
  const deepMessage = `{"key":"k","fingerprint":"f","messageId":"m","body":${nested(50_000)}}`;

  /** Each as [signal, arguments]. */
  const BY_HAND: Record<string, [name: string, args: unknown[]]> = {
    'no argument at all': ['claim', []],
    null: ['claim', [null]],
    'a text': ['cancel', ['x']],
    'an empty object': ['result', [{}]],
    'an array': ['message', [[]]],
    'a number': ['redeliver', [17]],
    'more arguments than one': ['cancel', [null, { ...command, reason: null }]],
    'fields of wrong types': ['claim', [{ ...command, deliveryEventId: 1, executorId: {}, expiresAt: [] }]],
    'a mark of NaN': ['mark-read', [{ ...command, upTo: 'NaN' }]],
    'a result without its fields': ['result', [{ ...command, success: 'yes' }]],
    'a message that is too large': ['message', [{ ...command, messageId: 'm', body: 'x'.repeat(1_000_000) }]],
    'a reason that is too large': ['cancel', [{ ...command, reason: 'x'.repeat(500_000) }]],
    'a huge text': ['cancel', ['x'.repeat(1_000_000)]],
    'an unknown name': ['pause', [{ ...command }]],
    'a name of Object’s': ['constructor', [{ ...command }]],
    'another name of Object’s': ['__proto__', [{ ...command }]],
    'a name with markup': ['<b>`x`\n</b>', []],
    'a very long name': ['x'.repeat(900), []],
  };

  /** A message by the scheduler is decided behind what was signalled before: all of it has been handled. */
  async function expectUnharmed(taskId: string, signal: () => Promise<unknown>): Promise<void> {
    const before = await wholeTask(scheduler, taskId);
    await signal();
    const decided = await eventually(
      () => historyOf(holdfast, taskId),
      (events) => /SIGNALED.*WORKFLOW_TASK_(COMPLETED|FAILED)/.test(typesOf(events).join(' ')),
    );
    const failed = decided.find(({ workflowTaskFailedEventAttributes }) => workflowTaskFailedEventAttributes);
    // A Task whose workflow task fails once fails for ever: it must not go on failing behind the other tests.
    if (failed !== undefined) await handleOf(holdfast, taskId).terminate();
    expect(failed?.workflowTaskFailedEventAttributes?.failure?.message).toBeUndefined();
    await scheduler.sendMessage(target(taskId, 'fence'), { body: 'fence' });
    const after = await wholeTask(scheduler, taskId);
    expect(after).toEqual({
      ...before,
      revision: before.revision + 1,
      mailbox: { ...before.mailbox, lastSeq: 1, unread: 1 },
    });
    await scheduler.cancel(target(taskId, 'end'), {});
    const events = await historyOf(holdfast, taskId);
    expect(countOf(events, 'WORKFLOW_EXECUTION_SIGNALED')).toBe(3);
    expect(countOf(events, 'WORKFLOW_TASK_FAILED')).toBe(0);
    expect(typesOf(events).at(-1)).toBe('WORKFLOW_EXECUTION_COMPLETED');
  }

  test.each(Object.keys(BY_HAND))('%s: refused, and nothing changes', async (what) => {
    const [name, args] = BY_HAND[what] ?? ['', []];
    const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    await expectUnharmed(taskId, () => handleOf(holdfast, taskId).signal(name, ...args));
  });

  test.each([
    ['nested too deep to be written again', 'message', payload('json/plain', deepMessage)],
    ['the name of a reserved query', '__stack_trace', payload('json/plain', '{}')],
    ['bytes', 'cancel', payload('binary/plain', 'x')],
  ])('%s: refused, and nothing changes', async (_, name, argument) => {
    const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    await expectUnharmed(taskId, () => handleOf(holdfast, taskId).signal(name, argument));
  });

  test.each([
    ['a reserved name', '__temporal_x', payload('json/plain', '{}')],
    ['not JSON', 'cancel', payload('json/plain', 'x')],
    ['an encoding that the worker does not know', 'cancel', payload('json/protobuf', '{}')],
  ])('%s: refused, and nothing changes', async (_, name, argument) => {
    const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    await expectUnharmed(taskId, () => handleOf(holdfast, taskId).signal(name, argument));
  });

  test('a well-formed one is a command like any other', async () => {
    const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    await handleOf(holdfast, taskId).signal('cancel', { key: 'by-hand', fingerprint: 'f', reason: 'by hand' });
    const canceled = await holdfast.until(taskId, ({ status }) => status === 'canceled');
    expect(canceled.cancellation).toEqual({ reason: 'by hand', by: 'command' });
  });
});

describe('stop check', () => {
  test('goes on while the Task and its ancestors are active', async () => {
    const parent = await running(holdfast);
    const child = await running(holdfast, { parentTaskId: parent.taskId });
    expect(await scheduler.stopCheck(CUSTOMER, child.taskId)).toEqual({ shouldStop: false, reason: 'active' });
    expect(await scheduler.stopCheck(CUSTOMER, parent.taskId)).toEqual({ shouldStop: false, reason: 'active' });
  });

  test('a canceled root stops its grandchild and names itself, and leaves a stranger alone', async () => {
    const root = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    const parent = await scheduled(holdfast, { releaseAt: NEXT_YEAR, parentTaskId: root });
    const leaf = await running(holdfast, { parentTaskId: parent });
    const stranger = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    expect(await scheduler.stopCheck(CUSTOMER, leaf.taskId)).toEqual({ shouldStop: false, reason: 'active' });
    await scheduler.cancel(target(root, 'cancel'), {});
    const stop = { shouldStop: true, reason: 'ancestor_terminal', taskId: root, status: 'canceled' };
    expect(await scheduler.stopCheck(CUSTOMER, leaf.taskId)).toEqual(stop);
    expect(await scheduler.stopCheck(CUSTOMER, parent)).toEqual(stop);
    // From another process, which has learned nothing yet.
    expect(await anotherScheduler().stopCheck(CUSTOMER, leaf.taskId)).toEqual(stop);
    expect(await scheduler.stopCheck(CUSTOMER, stranger)).toEqual({ shouldStop: false, reason: 'active' });
    // It is the check that stops it: the Task itself is as it was.
    expect((await wholeTask(scheduler, leaf.taskId)).status).toBe('running');
  });

  test('the success of a parent stops its children too', async () => {
    const parent = await queued(holdfast);
    const child = await running(holdfast, { parentTaskId: parent.taskId });
    await scheduler.recordResult(target(parent.taskId, 'r'), { success: true });
    expect(await scheduler.stopCheck(CUSTOMER, child.taskId)).toEqual({
      shouldStop: true,
      reason: 'ancestor_terminal',
      taskId: parent.taskId,
      status: 'succeeded',
    });
  });

  test.each(Object.keys(ENDINGS) as (keyof typeof ENDINGS)[])('a Task that has %s stops itself', async (status) => {
    const taskId = await ENDINGS[status]();
    const stop = { shouldStop: true, reason: 'task_terminal', taskId, status };
    expect(await scheduler.stopCheck(CUSTOMER, taskId)).toEqual(stop);
  });

  test('a missing Task stops, and goes on once it is there', async () => {
    const taskId = holdfast.freshId();
    const stop = { shouldStop: true, reason: 'task_missing', taskId, status: null };
    expect(await scheduler.stopCheck(CUSTOMER, taskId)).toEqual(stop);
    await scheduled(holdfast, { taskId, releaseAt: NEXT_YEAR });
    expect(await scheduler.stopCheck(CUSTOMER, taskId)).toEqual({ shouldStop: false, reason: 'active' });
  });
});

describe('lineage', () => {
  const child = (parentTaskId: string, taskId = holdfast.freshId()) =>
    scheduler.schedule(CUSTOMER, { type: 'test', releaseAt: NEXT_YEAR, taskId, parentTaskId }, `schedule-${taskId}`);

  test('a Task is no parent of its own, and an unknown one is none', async () => {
    const taskId = holdfast.freshId();
    expect(await refusal(child(taskId, taskId))).toBe('parent-not-found');
    expect(await refusal(child(holdfast.freshId(), taskId))).toBe('parent-not-found');
    expect(await refusal(scheduler.get(CUSTOMER, taskId))).toBe('task-not-found');
  });

  test('a Task that exists cannot be put below itself or its child', async () => {
    const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    const { task } = await child(taskId);
    expect(await refusal(child(taskId, taskId))).toBe('idempotency-key-reused');
    expect(await refusal(child(task.taskId, taskId))).toBe('idempotency-key-reused');
    expect((await wholeTask(scheduler, taskId)).lineage.ancestors).toEqual([]);
  });

  test.each(Object.keys(ENDINGS) as (keyof typeof ENDINGS)[])('a parent that has %s takes no child', async (status) => {
    const taskId = await ENDINGS[status]();
    expect(await refusal(child(taskId))).toBe('parent-terminal');
  });

  test('a child that was accepted is answered again after its parent’s end', async () => {
    const parent = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    const taskId = holdfast.freshId();
    const first = await child(parent, taskId);
    await scheduler.cancel(target(parent, 'cancel'), {});
    const again = await child(parent, taskId);
    expect(again).toMatchObject({ replayed: true, task: { taskId, createdAt: first.task.createdAt } });
  });

  test('32 ancestors are permitted and 33 are not; the leaf stops with its root', async () => {
    let taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    const chain = [taskId];
    for (let depth = 1; depth <= LIMITS.lineageDepthMax; depth += 1) {
      ({ taskId } = (await child(taskId)).task);
      chain.unshift(taskId);
    }
    const leaf = await wholeTask(scheduler, taskId);
    expect(leaf.lineage).toEqual({ rootTaskId: chain.at(-1), parentTaskId: chain[1], ancestors: chain.slice(1) });
    const tooDeep = holdfast.freshId();
    expect(await refusal(child(taskId, tooDeep))).toBe('lineage-too-deep');
    expect(await refusal(scheduler.get(CUSTOMER, tooDeep))).toBe('task-not-found');
    expect(await scheduler.stopCheck(CUSTOMER, taskId)).toEqual({ shouldStop: false, reason: 'active' });
    await scheduler.cancel(target(chain.at(-1) ?? '', 'cancel'), {});
    expect(await scheduler.stopCheck(CUSTOMER, taskId)).toMatchObject({ shouldStop: true, taskId: chain.at(-1) });
  });
});

describe('scheduling again', () => {
  test('with one key: the same Task; with another body: told so', async () => {
    const key = holdfast.freshId('key');
    const request = { type: 'test', input: { a: 1, b: 2 } };
    const first = await scheduler.schedule(CUSTOMER, request, key);
    const again = await scheduler.schedule(CUSTOMER, { input: { b: 2, a: 1 }, type: 'test' }, key);
    expect(first.replayed).toBe(false);
    expect(again.replayed).toBe(true);
    expect(again.task).toMatchObject({ taskId: first.task.taskId, createdAt: first.task.createdAt });
    const other = scheduler.schedule(CUSTOMER, { ...request, input: { a: 1, b: 3 } }, key);
    expect(await refusal(other)).toBe('idempotency-key-reused');
    const another = await scheduler.schedule(CUSTOMER, request, `${key}-2`);
    expect(another.task.taskId).not.toBe(first.task.taskId);
  });

  test('with one Task id under two keys: the same Task', async () => {
    const request = { type: 'test', taskId: holdfast.freshId() };
    const first = await scheduler.schedule(CUSTOMER, request, 'k1');
    const again = await scheduler.schedule(CUSTOMER, request, 'k2');
    expect(again).toMatchObject({ replayed: true, task: { taskId: request.taskId, createdAt: first.task.createdAt } });
  });

  test('100 times at once with one key: one Task, and all answers name it', async () => {
    const key = holdfast.freshId('key');
    const facades = [scheduler, anotherScheduler()];
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, index) =>
        (facades[index % 2] ?? scheduler).schedule(CUSTOMER, { type: 'test', input: 'same' }, key),
      ),
    );
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
    const names = new Set(answers.map(({ task }) => `${task.taskId} ${task.createdAt}`));
    expect(names.size).toBe(1);
    const taskId = answers[0]?.task.taskId ?? '';
    await holdfast.until(taskId, ({ status }) => status === 'queued');
    await scheduler.cancel(target(taskId, 'cancel'), {});
    expect(holdfast.inbox.of(taskId)).toHaveLength(1);
    const query = `WorkflowId = "${holdfast.workflowId(taskId)}"`;
    const { count } = await eventually(
      () => holdfast.client.workflow.count(query),
      (counted) => counted.count > 0,
    );
    expect(count).toBe(1);
  });

  test.each(Object.keys(ENDINGS) as (keyof typeof ENDINGS)[])('after a Task has %s: as it ended', async (status) => {
    const taskId = await ENDINGS[status]();
    const ended = await wholeTask(scheduler, taskId);
    const { type, runTimeoutSeconds } = ended;
    const request = status === 'timed_out' ? { type, taskId, runTimeoutSeconds } : { type, taskId };
    for (const key of [`schedule-${taskId}`, 'another-key']) {
      expect(await scheduler.schedule(CUSTOMER, request, key)).toEqual({ task: ended, replayed: true });
    }
    expect(ended.status).toBe(status satisfies TaskStatus);
    const other = scheduler.schedule(CUSTOMER, { ...request, input: 'other' }, `schedule-${taskId}`);
    expect(await refusal(other)).toBe('idempotency-key-reused');
  });
});
