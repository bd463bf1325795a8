import { afterAll, beforeAll, expect, test } from 'vitest';
import { CUSTOMER, startHarness, type Harness } from '../support/harness.ts';

let holdfast: Harness;
beforeAll(async () => {
  holdfast = await startHarness();
});
afterAll(() => holdfast.close());

test('a Task goes its whole way: announced, claimed once, ended by its result', async () => {
  const { scheduler, inbox } = holdfast;
  const taskId = holdfast.freshId();
  await scheduler.schedule(CUSTOMER, { taskId, type: 'test', input: { a: 1 } }, 'k1');
  const event = await inbox.next(taskId);
  const target = { customerId: CUSTOMER, taskId, keyIsFresh: true };
  const claimed = await scheduler.claim({ ...target, key: 'c1' }, { deliveryEventId: event.id });
  expect(claimed.status).toBe('running');
  const ended = await scheduler.recordResult({ ...target, key: 'r1' }, { success: true, claimId: 'c1', output: 42 });
  expect(ended.status).toBe('succeeded');
  expect(await scheduler.get(CUSTOMER, taskId)).toEqual(ended);
  expect(ended.transitions.map(({ to }) => to)).toEqual(
    ended.queuedAt === null ? ['scheduled', 'running', 'succeeded'] : ['scheduled', 'queued', 'running', 'succeeded'],
  );
});
