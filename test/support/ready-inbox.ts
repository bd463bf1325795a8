import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TaskReadyCloudEvent } from '../../src/contracts/task-ready.ts';

const WAIT_MS = 30_000;

/** A webhook receiver of the tests: keeps what it got, answers as it is told. */
export interface ReadyInbox {
  url: string;
  /** Every event that was posted for the Task, whatever was answered. */
  of(taskId: string): TaskReadyCloudEvent[];
  /** Waits until the Task has had at least `count` deliveries; rejects after a bound. */
  next(taskId: string, count?: number): Promise<TaskReadyCloudEvent>;
  /** What to answer from now on; a function may take its time, and see the event before it does. */
  answerWith(answer: number | ((event: TaskReadyCloudEvent) => Promise<number>)): void;
  close(): Promise<void>;
}

export async function startReadyInbox(): Promise<ReadyInbox> {
  const events: TaskReadyCloudEvent[] = [];
  const waiting = new Set<() => void>();
  let answer: number | ((event: TaskReadyCloudEvent) => Promise<number>) = 202;
  const of = (taskId: string): TaskReadyCloudEvent[] => events.filter(({ subject }) => subject === taskId);

  const server = createServer((received, response) => {
    void (async () => {
      let text = '';
      for await (const chunk of received) text += String(chunk);
      const event = JSON.parse(text) as TaskReadyCloudEvent;
      events.push(event);
      for (const look of waiting) look();
      response.writeHead(typeof answer === 'number' ? answer : await answer(event)).end();
    })().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/ready`,
    of,
    next: async (taskId, count = 1) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const event = of(taskId)[count - 1];
          if (event === undefined) return;
          clearTimeout(late);
          waiting.delete(look);
          resolve(event);
        };
        const late = setTimeout(() => {
          waiting.delete(look);
          reject(new Error(`delivery ${count} of ${taskId} did not come; there were ${of(taskId).length}`));
        }, WAIT_MS);
        waiting.add(look);
        look();
      }),
    answerWith: (next) => {
      answer = next;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}
