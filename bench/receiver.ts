/** The executors' side of readiness: a webhook that hands each event to whoever waits for that Task. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Ready {
  token: string;
  /** On `performance.now()`'s clock. */
  receivedAtMs: number;
}

export interface Receiver {
  url: string;
  /** To be asked before the Task is scheduled; resolves with its first event, rejects after a bound. */
  expect(taskId: string): Promise<Ready>;
  close(): Promise<void>;
}

const WAIT_MS = 60_000;

export async function startReceiver(): Promise<Receiver> {
  const expected = new Map<string, (ready: Ready) => void>();
  const server = createServer((request, response) => {
    void (async () => {
      let text = '';
      for await (const chunk of request) text += String(chunk);
      const receivedAtMs = performance.now();
      response.writeHead(202).end();
      const { subject, id } = JSON.parse(text) as { subject: string; id: string };
      expected.get(subject)?.({ token: id, receivedAtMs });
    })().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/ready`,
    expect: (taskId) =>
      new Promise((resolve, reject) => {
        const late = setTimeout(() => {
          expected.delete(taskId);
          reject(new Error(`no event of ${taskId} within ${WAIT_MS / 1000} s`));
        }, WAIT_MS);
        // A run that has failed does not wait for what it will not get.
        late.unref();
        expected.set(taskId, (ready) => {
          clearTimeout(late);
          expected.delete(taskId);
          resolve(ready);
        });
      }),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}
