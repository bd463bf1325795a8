/** One customer's or one queue's backlog beside everybody else's readiness, on the real server. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startHarness, type Harness } from '../support/harness.ts';

let holdfast: Harness;
beforeAll(async () => {
  holdfast = await startHarness();
});
afterAll(() => holdfast.close());

test('a queue whose receiver hangs, and a customer with a backlog, do not hold up the others', async () => {
  const { scheduler, inbox } = holdfast;
  let release!: () => void;
  const hanging = new Promise<number>((resolve) => {
    release = () => resolve(202);
  });
  // Whoever is of the queue `hangs` gets no answer until the end of the test.
  inbox.answerWith(async ({ data }) => (data.queue === 'hangs' ? hanging : 202));
  const schedule = async (customerId: string, queue: string): Promise<string> => {
    const taskId = holdfast.freshId(queue);
    await scheduler.schedule(customerId, { taskId, type: 'test', queue }, holdfast.freshId());
    return taskId;
  };
  try {
    const stuck = await Promise.all(Array.from({ length: 150 }, () => schedule('local', 'hangs')));
    await inbox.next(stuck[0] as string);
    const others = await Promise.all([schedule('local', 'works'), schedule('stranger', 'works')]);
    // They come although 150 that were due before them cannot end: `next` rejects after its bound.
    for (const taskId of others) await inbox.next(taskId);
    expect(stuck.filter((taskId) => inbox.of(taskId).length > 0).length).toBeLessThan(stuck.length);
  } finally {
    release();
    inbox.answerWith(202);
  }
});
