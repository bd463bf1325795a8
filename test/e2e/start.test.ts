import { createServer, type AddressInfo, type Server } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeHome, startMain, type Home } from './holdfast-process.ts';

let home: Home;
beforeAll(async () => {
  home = await makeHome('http://127.0.0.1:9/ready');
});
afterAll(() => home.remove());

async function occupied(): Promise<{ port: number; server: Server }> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return { port: (server.address() as AddressInfo).port, server };
}

test.for(['PORT', 'HOLDFAST_TEMPORAL_PORT', 'HOLDFAST_UI_PORT'])(
  'a port that is taken (%s) is named, and nothing is left behind',
  async (variable) => {
    const { port, server } = await occupied();
    try {
      const holdfast = startMain({ ...home.env, [variable]: String(port) }, home.apiUrl);
      expect(await holdfast.exited).toEqual({ code: 1, signal: null });
      expect(holdfast.output()).toContain(`Port ${port}`);
      expect(holdfast.output()).toContain(variable);
      expect(await holdfast.serverPids()).toEqual([]);
    } finally {
      server.close();
    }
  },
);

test('settings that are wrong are all named, and nothing starts', async () => {
  const wrong = { ...home.env, PORT: 'eighty', HOLDFAST_DATADIR: '/tmp/x' };
  const holdfast = startMain(wrong, home.apiUrl);
  expect(await holdfast.exited).toEqual({ code: 1, signal: null });
  expect(holdfast.output()).toContain('PORT');
  expect(holdfast.output()).toContain('HOLDFAST_DATADIR');
  expect(holdfast.output()).not.toContain('Temporal is up');
});

test('each part tells its URL in one line, and SIGTERM stops all of them in order', async () => {
  const holdfast = startMain(home.env, home.apiUrl);
  try {
    await holdfast.ready();
    const lines = holdfast.output().trim().split('\n');
    for (const part of ['Temporal is up', 'Temporal Web UI on http://', 'API listening on http://', 'worker polling']) {
      expect(lines.filter((line) => line.includes(part))).toHaveLength(1);
    }
    holdfast.child.kill('SIGTERM');
    expect(await holdfast.exited).toEqual({ code: 0, signal: null });
    expect(await holdfast.serverPids()).toEqual([]);
  } finally {
    await holdfast.killEverything();
  }
});

test.for(['SIGINT', 'SIGTERM'] as const)('%s during the start leaves no server behind', async (signal) => {
  const holdfast = startMain(home.env, home.apiUrl);
  // In the middle: the server's process is there, and nothing that needs it.
  while ((await holdfast.serverPids()).length === 0 && holdfast.child.exitCode === null) await setImmediate();
  holdfast.child.kill(signal);
  expect(await holdfast.exited).toEqual({ code: 0, signal: null });
  expect(holdfast.output()).toContain('stopped');
  expect(await holdfast.serverPids()).toEqual([]);
});

test('a Temporal that does not answer is named', async () => {
  const holdfast = startMain({ ...home.env, TEMPORAL_ADDRESS: '127.0.0.1:1' }, home.apiUrl);
  expect(await holdfast.exited).toEqual({ code: 1, signal: null });
  expect(holdfast.output()).toMatch(/^Temporal at 127\.0\.0\.1:1 does not answer .*TEMPORAL_ADDRESS/m);
});
