/** Drives Tasks through their life, a fixed number at a time, and times each step as its caller sees it. */
import { randomUUID } from 'node:crypto';
import type { Form } from './forms/form.ts';
import type { Receiver } from './receiver.ts';

/** ready: from asking for the Task until its event is there · the others: from asking until the answer. */
export const STEPS = ['schedule', 'ready', 'claim', 'result'] as const;
export type Step = (typeof STEPS)[number];

export interface Driven {
  taskIds: string[];
  wallMs: number;
  /** In ms, one for each Task. */
  latencies: Record<Step, number[]>;
}

export async function drive(
  form: Form,
  receiver: Receiver,
  { tasks, concurrency }: { tasks: number; concurrency: number },
): Promise<Driven> {
  const taskIds = Array.from({ length: tasks }, () => randomUUID());
  const latencies: Driven['latencies'] = { schedule: [], ready: [], claim: [], result: [] };
  const timed = async (step: Step, work: () => Promise<void>): Promise<void> => {
    const from = performance.now();
    await work();
    latencies[step].push(performance.now() - from);
  };

  async function live(taskId: string): Promise<void> {
    const ready = receiver.expect(taskId);
    const from = performance.now();
    // Side by side: the event may be there before the answer.
    const [{ token, receivedAtMs }] = await Promise.all([ready, timed('schedule', () => form.schedule(taskId))]);
    latencies.ready.push(receivedAtMs - from);
    await timed('claim', () => form.claim(taskId, token));
    await timed('result', () => form.recordResult(taskId));
  }

  const waiting = taskIds.values();
  const from = performance.now();
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      // One iterator for all: each Task is taken once.
      for (const taskId of waiting) await live(taskId);
    }),
  );
  return { taskIds, wallMs: performance.now() - from, latencies };
}
