/** Many commands at once for one Task, through one facade's desk, on the real server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { HoldfastError } from '../../src/contracts/errors.ts';
import { CUSTOMER, startHarness, type Harness } from '../support/harness.ts';

let holdfast: Harness;
beforeAll(async () => {
  holdfast = await startHarness();
});
afterAll(() => holdfast.close());

async function waiting(): Promise<string> {
  const taskId = holdfast.freshId();
  await holdfast.scheduler.schedule(CUSTOMER, { taskId, type: 'test', delaySeconds: 3600 }, holdfast.freshId());
  return taskId;
}

const codeOf = (outcome: PromiseSettledResult<unknown>): string =>
  outcome.status === 'fulfilled' ? 'accepted' : (outcome.reason as HoldfastError).code;

describe('a flood of messages', () => {
  test('what is acknowledged is kept, what is refused for want of room was not sent', async () => {
    const taskId = await waiting();
    const target = { customerId: CUSTOMER, taskId, keyIsFresh: true };
    const outcomes = await Promise.allSettled(
      Array.from({ length: 600 }, (_, index) =>
        holdfast.scheduler.sendMessage({ ...target, key: `m${index}` }, { body: index }),
      ),
    );
    const codes = outcomes.map(codeOf);
    const count = (code: string): number => codes.filter((each) => each === code).length;
    // On a machine that is overloaded itself, a signal or a verdict may run into its bound, and the answer says so. What
    // may never be is that nobody knows the command, or that what was refused for want of room was sent all the same.
    const unknown = count('verdict-unavailable') + count('temporal-unavailable');
    expect(count('accepted') + count('too-many-undecided') + unknown).toBe(codes.length);
    expect(count('too-many-undecided')).toBeGreaterThan(0);
    const { mailbox } = await holdfast.until(taskId, (task) => task.mailbox.lastSeq >= count('accepted'));
    expect(mailbox.lastSeq).toBeLessThanOrEqual(count('accepted') + unknown);

    const { events } = await holdfast.client.workflow.getHandle(holdfast.workflowId(taskId)).fetchHistory();
    expect((events ?? []).filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
  });
});

describe('commands to a Task that is not there', () => {
  test('leave nothing behind: forty are told so, and the Task takes commands once it is there', async () => {
    const taskId = holdfast.freshId();
    const target = { customerId: CUSTOMER, taskId, keyIsFresh: true };
    for (let round = 0; round < 40; round += 1) {
      const missing = holdfast.scheduler.cancel({ ...target, key: `c${round}` }, {});
      await expect(missing).rejects.toMatchObject({ code: 'task-not-found' });
    }
    await holdfast.scheduler.schedule(CUSTOMER, { taskId, type: 'test', delaySeconds: 3600 }, 'k');
    expect(await holdfast.scheduler.cancel({ ...target, key: 'c' }, {})).toMatchObject({ status: 'canceled' });
  });
});

describe('equal commands at once', () => {
  test('are one signal and one verdict', async () => {
    for (let round = 0; round < 20; round += 1) {
      const taskId = await waiting();
      const target = { customerId: CUSTOMER, taskId, key: 'same', keyIsFresh: false };
      const sent = await Promise.all([1, 2, 3].map(() => holdfast.scheduler.sendMessage(target, { body: 'once' })));
      expect(new Set(sent.map(({ messageId, seq }) => `${messageId} ${seq}`)).size).toBe(1);
      const { events } = await holdfast.client.workflow.getHandle(holdfast.workflowId(taskId)).fetchHistory();
      expect((events ?? []).filter((event) => event.workflowExecutionSignaledEventAttributes)).toHaveLength(1);
    }
  });

  test('with another body each is told so, whichever came first', async () => {
    const taskId = await waiting();
    const target = { customerId: CUSTOMER, taskId, key: 'same', keyIsFresh: false };
    const outcomes = await Promise.allSettled(
      ['a', 'b'].map((body) => holdfast.scheduler.sendMessage(target, { body })),
    );
    expect(outcomes.map(codeOf).toSorted()).toEqual(['accepted', 'idempotency-key-reused']);
  });
});

describe('reads that meet a closing workflow', () => {
  test('cost no command its answer', async () => {
    const { scheduler } = holdfast;
    const cancelOne = async (): Promise<string> => {
      const taskId = await waiting();
      const target = { customerId: CUSTOMER, taskId, key: 'cancel', keyIsFresh: false };
      const reads = [scheduler.stopCheck(CUSTOMER, taskId), scheduler.get(CUSTOMER, taskId)];
      const { status } = await scheduler.cancel(target, {});
      await Promise.all(reads);
      return status;
    };
    for (let round = 0; round < 15; round += 1) {
      expect(new Set(await Promise.all(Array.from({ length: 10 }, cancelOne)))).toEqual(new Set(['canceled']));
    }
  });
});
