import { afterAll, beforeAll, expect, test } from 'vitest';
import { startReadyInbox, type ReadyInbox } from '../support/ready-inbox.ts';
import { call, makeHome, startMain, type Answer, type Home } from './holdfast-process.ts';

let inbox: ReadyInbox;
let home: Home;
beforeAll(async () => {
  inbox = await startReadyInbox();
  home = await makeHome(inbox.url);
});
afterAll(async () => {
  await inbox.close();
  await home.remove();
});

test('everything is killed while one Task is scheduled and one runs: after a new start both go on', async () => {
  const { apiUrl, env } = home;
  const first = startMain(env, apiUrl);
  try {
    await first.ready();
    const ahead = await call(`${apiUrl}/v1/tasks`, { taskId: 'ahead', type: 'test', delaySeconds: 20 });
    expect(ahead.status).toBe(201);
    await call(`${apiUrl}/v1/tasks`, { taskId: 'running', type: 'test' });
    const ready = await inbox.next('running');
    const claim = await call(`${apiUrl}/v1/tasks/running/claim`, { deliveryEventId: ready.id });
    expect(claim).toMatchObject({ status: 200, body: { status: 'running' } });

    await first.killEverything();
    // The executor has survived, has its result, and finds nobody to take it: it repeats.
    const reported = repeated(() =>
      call(`${apiUrl}/v1/tasks/running/result`, { success: true, claimId: claim.body['claimId'] }),
    );

    const second = startMain(env, apiUrl);
    try {
      await second.ready();
      expect(await reported).toMatchObject({ status: 200, body: { status: 'succeeded' } });

      const released = await inbox.next('ahead');
      expect(inbox.of('ahead').map(({ id }) => id)).toEqual([released.id]);
      const claimed = await repeated(() => call(`${apiUrl}/v1/tasks/ahead/claim`, { deliveryEventId: released.id }));
      const { transitions, releaseAt, createdAt } = claimed.body as unknown as {
        transitions: { at: string; to: string }[];
        releaseAt: string;
        createdAt: string;
      };
      // Not early, and once: nothing moved before the release, whatever was killed in between.
      expect(Date.parse(releaseAt) - Date.parse(createdAt)).toBe(20_000);
      expect(transitions.slice(1).every(({ at }) => at >= releaseAt)).toBe(true);
      expect(Date.parse(released.time)).toBeGreaterThanOrEqual(Date.parse(releaseAt));
      expect(transitions.filter(({ to }) => to === 'running')).toHaveLength(1);

      const servers = await second.serverPids();
      expect(servers).toHaveLength(1);
      second.child.kill('SIGINT');
      // 0 says that it stopped in order within its bound of 10 s.
      expect(await second.exited).toEqual({ code: 0, signal: null });
      expect(await second.serverPids()).toEqual([]);
    } finally {
      await second.killEverything();
    }
  } finally {
    await first.killEverything();
  }
}, 180_000);

/** Repeats a call until it is served: refused connections and 503 are not answers. */
async function repeated(send: () => Promise<Answer>): Promise<Answer> {
  const until = Date.now() + 90_000;
  for (;;) {
    const answer = await send().catch(() => null);
    if (answer !== null && answer.status !== 503) return answer;
    if (Date.now() > until) throw new Error(`not served: ${JSON.stringify(answer)}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 250);
    });
  }
}
