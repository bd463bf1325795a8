import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Scheduler } from '../../src/scheduler/scheduler.ts';
import { CUSTOMER, startHarness, type Harness } from '../support/harness.ts';
import { handleOf, insist, NEXT_YEAR, queued, refusal, running, scheduled, target, wholeTask } from './support.ts';

let holdfast: Harness;
let scheduler: Scheduler;
beforeAll(async () => {
  holdfast = await startHarness();
  ({ scheduler } = holdfast);
});
beforeEach(() => holdfast.startWorkers());
afterAll(() => holdfast.close());

test('reads answer from what Temporal knows, whole where the Task has ended; all of it comes back', async () => {
  const live = await running(holdfast, { queue: 'default', type: 'investigation' });
  const child = await scheduled(holdfast, { releaseAt: NEXT_YEAR, parentTaskId: live.taskId });
  const ended = await running(holdfast);
  const record = await scheduler.recordResult(target(ended.taskId, 'r'), { success: true, output: { answer: 42 } });
  const message = await scheduler.sendMessage(target(live.taskId, 'm'), { body: 'hello' });
  const stopped = await queued(holdfast, { parentTaskId: live.taskId });
  const canceled = await scheduler.cancel(target(stopped.taskId, 'c'), {});
  await holdfast.stopWorkers();

  const [described, ofChild, whole, missing] = await Promise.all([
    scheduler.get(CUSTOMER, live.taskId),
    scheduler.get(CUSTOMER, child),
    scheduler.get(CUSTOMER, ended.taskId),
    refusal(scheduler.get(CUSTOMER, holdfast.freshId())),
  ]);
  expect(described).toMatchObject({
    asOf: 'described',
    taskId: live.taskId,
    customerId: CUSTOMER,
    type: 'investigation',
    queue: 'default',
    status: 'running',
    lineage: { rootTaskId: live.taskId, parentTaskId: null },
    createdAt: live.claimed.createdAt,
    releaseAt: live.claimed.releaseAt,
    delivery: { state: 'consumed' },
  });
  expect(ofChild).toMatchObject({
    asOf: 'described',
    status: 'scheduled',
    releaseAt: NEXT_YEAR,
    lineage: { rootTaskId: live.taskId, parentTaskId: live.taskId },
    delivery: { state: 'none' },
  });
  expect(whole).toEqual(record);
  expect(missing).toBe('task-not-found');
  expect(await scheduler.get(CUSTOMER, stopped.taskId)).toEqual(canceled);
  // The verdicts of a closed Task need no worker either.
  expect(await scheduler.recordResult(target(ended.taskId, 'r'), { success: true, output: { answer: 42 } })).toEqual(
    record,
  );
  expect(await refusal(scheduler.recordResult(target(ended.taskId, 'r2'), { success: true }))).toBe('task-terminal');

  await holdfast.startWorkers();
  expect((await wholeTask(scheduler, live.taskId)).mailbox.unread).toBe(1);
  expect(await scheduler.sendMessage(target(live.taskId, 'm'), { body: 'hello' })).toMatchObject({ seq: message.seq });
});

test('a stop check fails open, but what Temporal itself knows to have ended still stops', async () => {
  const parent = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
  const child = await running(holdfast, { parentTaskId: parent });
  const orphan = await running(holdfast, { parentTaskId: parent });
  // What this process has learned of a lineage it keeps.
  expect(await scheduler.stopCheck(CUSTOMER, orphan.taskId)).toEqual({ shouldStop: false, reason: 'active' });
  const ended = await queued(holdfast);
  await scheduler.recordResult(target(ended.taskId, 'r'), { success: true });
  await holdfast.stopWorkers();

  const missing = holdfast.freshId();
  const checks = [child.taskId, ended.taskId, missing].map((taskId) => scheduler.stopCheck(CUSTOMER, taskId));
  expect(await Promise.all(checks)).toEqual([
    { shouldStop: false, reason: 'check_failed' },
    { shouldStop: true, reason: 'task_terminal', taskId: ended.taskId, status: 'succeeded' },
    { shouldStop: true, reason: 'task_missing', taskId: missing, status: null },
  ]);
  await handleOf(holdfast, parent).terminate();
  const stop = { shouldStop: true, reason: 'ancestor_terminal', taskId: parent, status: 'canceled' };
  expect(await scheduler.stopCheck(CUSTOMER, orphan.taskId)).toEqual(stop);

  await holdfast.startWorkers();
  expect(await scheduler.stopCheck(CUSTOMER, child.taskId)).toEqual(stop);
});

test('commands are durable, their verdicts are not to be had, and the same keys get them later', async () => {
  const claimable = await queued(holdfast);
  const consumed = await running(holdfast);
  const reporting = await running(holdfast);
  const unwanted = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
  const told = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
  // A first workflow task that is handed to a worker which stops just then is lost until its time-out, of 60 s.
  for (const taskId of [unwanted, told]) await wholeTask(scheduler, taskId);
  await holdfast.stopWorkers();

  const claim = () => scheduler.claim(target(claimable.taskId, 'c'), { deliveryEventId: claimable.token });
  const late = () => scheduler.claim(target(consumed.taskId, 'second'), { deliveryEventId: consumed.token });
  const result = () => scheduler.recordResult(target(reporting.taskId, 'r'), { success: true, claimId: 'winner' });
  const cancel = () => scheduler.cancel(target(unwanted, 'x'), {});
  const message = () => scheduler.sendMessage(target(told, 'm'), { body: 'hello' });
  const codes = await Promise.all([claim, late, result, cancel, message].map((send) => refusal(send())));
  expect(codes).toEqual(codes.map(() => 'verdict-unavailable'));
  // What is refused for lack of a Task is refused all the same.
  const missing = target(holdfast.freshId(), 'c');
  expect(await refusal(scheduler.claim(missing, { deliveryEventId: claimable.token }))).toBe('task-not-found');

  await holdfast.startWorkers();
  // Accepted without being sent again: the result was durable all along.
  const reported = await holdfast.until(reporting.taskId, ({ status }) => status === 'succeeded');
  expect(await result()).toEqual(reported);
  expect((await holdfast.until(unwanted, ({ status }) => status === 'canceled')).cancellation?.by).toBe('command');
  expect(await insist(message)).toMatchObject({ seq: 1 });
  expect(await refusal(late())).toBe('token-consumed');
  // The claim was in time or expired, as long as the outage took; expired, its key is decided afresh.
  const claimed = await claim().catch(async () => claim());
  expect(claimed).toMatchObject({ status: 'running', claim: { deliveryEventId: claimable.token } });
  expect(await claim()).toEqual(claimed);
  for (const taskId of [claimable.taskId, consumed.taskId, told]) await scheduler.cancel(target(taskId, 'end'), {});
});

test('a Task can be scheduled, and is announced once workers are there', async () => {
  await holdfast.stopWorkers();
  const taskId = holdfast.freshId();
  const request = { type: 'test', taskId };
  const first = await scheduler.schedule(CUSTOMER, request, 'k');
  expect(first).toMatchObject({ replayed: false, task: { taskId, status: 'scheduled' } });
  const again = await scheduler.schedule(CUSTOMER, request, 'k');
  expect(again).toMatchObject({ replayed: true, task: { taskId, asOf: 'described', status: 'scheduled' } });
  expect(await refusal(scheduler.schedule(CUSTOMER, { ...request, input: 1 }, 'k'))).toBe('idempotency-key-reused');
  // A parent that has not run yet is active all the same.
  const child = await scheduler.schedule(CUSTOMER, { type: 'test', parentTaskId: taskId }, holdfast.freshId('key'));
  expect(child.task.lineage).toMatchObject({ parentTaskId: taskId, rootTaskId: taskId });
  expect(holdfast.inbox.of(taskId)).toHaveLength(0);

  await holdfast.startWorkers();
  const task = await holdfast.until(taskId, ({ status }) => status === 'queued');
  expect(holdfast.inbox.of(taskId).map(({ id }) => id)).toEqual([task.delivery.eventId]);
  await holdfast.inbox.next(child.task.taskId);
  for (const id of [taskId, child.task.taskId]) await scheduler.cancel(target(id, 'end'), {});
});
