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
    // A healthy Task has no other answer: nobody is told that the worker is too old, or that a verdict is missing.
    expect(new Set(codes)).toEqual(new Set(['accepted', 'too-many-undecided']));
    const accepted = codes.filter((code) => code === 'accepted').length;
    const task = await holdfast.until(taskId, ({ mailbox }) => mailbox.lastSeq >= accepted);
    expect(task.mailbox.lastSeq).toBe(accepted);

    const { events } = await holdfast.client.workflow.getHandle(holdfast.workflowId(taskId)).fetchHistory();
    expect((events ?? []).filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
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
