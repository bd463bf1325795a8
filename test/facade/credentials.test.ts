/** API keys on every route: whose Task it is, and what the key may do. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pino } from 'pino';
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { SCOPES, type Scope } from '../../src/contracts/scopes.ts';
import type { TaskView } from '../../src/contracts/task.ts';
import { newApiKey } from '../../src/credentials/api-key.ts';
import { changeKeyFile, readKeyFile, type KeyEntry } from '../../src/credentials/key-file.ts';
import { KeyRing } from '../../src/credentials/key-ring.ts';
import type { Listening } from '../../src/facade/listen.ts';
import { startHarness, type Harness } from '../support/harness.ts';
import { expectProblem, serve } from './support.ts';

const log = pino({ level: 'silent' });

let dir: string;
let file: string;
let holdfast: Harness;
let server: Listening;
/** Advanced by tests that look at the file anew. */
let now = Date.now();
beforeAll(async () => {
  dir = await mkdtemp(path.join(inject('temporaryRoot'), 'keys-'));
  file = path.join(dir, 'keys.json');
  await addKey('acme', ['schedule']);
  const keyRing = await KeyRing.open(file, { log, now: () => now });
  holdfast = await startHarness({ keyRing });
  server = await serve(holdfast.app);
});
afterAll(async () => {
  await server.close();
  await holdfast.close();
  await rm(dir, { recursive: true, force: true });
});

async function addKey(customerId: string, scopes: Scope[], more: Partial<KeyEntry> = {}): Promise<string> {
  const { id, text, secretHash } = newApiKey('test');
  const entry = { id, customerId, scopes, secretHash, createdAt: new Date().toISOString() };
  await changeKeyFile(file, (keys) => [...keys, { ...entry, expiresAt: null, revokedAt: null, ...more }]);
  now += 2_000;
  return text;
}

interface Call {
  method: 'get' | 'post';
  path: string;
  body?: object;
  /** Any of these will do; none named: any key. */
  anyOf: Scope[];
  /** What the call on another customer's or no Task answers. */
  missing: 404 | 200 | 422;
}

/** Every route of Tasks. `ID` is the Task. */
const CALLS: Record<string, Call> = {
  schedule: {
    method: 'post',
    path: '/v1/tasks',
    body: { type: 't', parentTaskId: 'ID' },
    anyOf: ['schedule'],
    missing: 422,
  },
  list: { method: 'get', path: '/v1/tasks?parentTaskId=ID', anyOf: [], missing: 200 },
  get: { method: 'get', path: '/v1/tasks/ID', anyOf: [], missing: 404 },
  evidence: { method: 'get', path: '/v1/tasks/ID/evidence', anyOf: ['execute', 'operate'], missing: 404 },
  stop: { method: 'get', path: '/v1/tasks/ID/stop', anyOf: [], missing: 200 },
  messages: { method: 'get', path: '/v1/tasks/ID/messages', anyOf: [], missing: 404 },
  message: { method: 'post', path: '/v1/tasks/ID/messages', body: { body: 'x' }, anyOf: [], missing: 404 },
  read: {
    method: 'post',
    path: '/v1/tasks/ID/messages/read',
    body: { upTo: 0 },
    anyOf: ['execute', 'operate'],
    missing: 404,
  },
  claim: {
    method: 'post',
    path: '/v1/tasks/ID/claim',
    body: { deliveryEventId: 'x' },
    anyOf: ['execute'],
    missing: 404,
  },
  cancel: { method: 'post', path: '/v1/tasks/ID/cancel', body: {}, anyOf: ['schedule', 'operate'], missing: 404 },
  result: {
    method: 'post',
    path: '/v1/tasks/ID/result',
    body: { success: true, claimId: 'c' },
    anyOf: ['execute', 'operate'],
    missing: 404,
  },
  'unfenced result': {
    method: 'post',
    path: '/v1/tasks/ID/result',
    body: { success: true },
    anyOf: ['operate'],
    missing: 404,
  },
  redeliver: { method: 'post', path: '/v1/tasks/ID/redeliver', body: {}, anyOf: ['operate'], missing: 404 },
};

async function send({ method, path: to, body }: Call, taskId: string, key: string | null): Promise<request.Response> {
  const place = (text: string): string => text.replace('ID', taskId);
  const sent = request(server.url)[method](place(to));
  if (key !== null) void sent.set('Authorization', `Bearer ${key}`);
  return method === 'get' ? sent : sent.send(JSON.parse(place(JSON.stringify(body))) as object);
}

/** A Task of acme that is not due. */
async function waiting(): Promise<string> {
  const key = await addKey('acme', ['schedule']);
  const taskId = holdfast.freshId();
  const body = { taskId, type: 't', delaySeconds: 3600 };
  const answer = await request(server.url).post('/v1/tasks').set('Authorization', `Bearer ${key}`).send(body);
  expect(answer.status).toBe(201);
  return taskId;
}

describe.each(Object.entries(CALLS))('%s', (_name, call) => {
  test('takes a key in force', async () => {
    const taskId = await waiting();
    const expired = await addKey('acme', [...SCOPES], { expiresAt: '2020-01-01T00:00:00Z' });
    const revoked = await addKey('acme', [...SCOPES], { revokedAt: '2020-01-01T00:00:00Z' });
    const good = await addKey('acme', [...SCOPES]);
    for (const key of [null, '', 'x', expired, revoked, `${good.slice(0, -1)}x`, good.slice(0, -1), `${good}0`]) {
      const answer = await send(call, taskId, key);
      expectProblem(answer, 'unauthenticated');
      expect(answer.headers['www-authenticate']).toBe('Bearer');
    }
    expect((await send(call, taskId, good)).status).not.toBe(401);
  });

  test.each(SCOPES)('with the scope %s alone', async (scope) => {
    const taskId = await waiting();
    const answer = await send(call, taskId, await addKey('acme', [scope]));
    const isAllowed = call.anyOf.length === 0 || call.anyOf.includes(scope);
    expect(answer.status).not.toBe(401);
    expect((answer.body as { code?: string }).code === 'forbidden').toBe(!isAllowed);
    expect(answer.status === 403).toBe(!isAllowed);
  });

  test('answers for a foreign Task as for a missing one', async () => {
    const taskId = await waiting();
    const stranger = await addKey('stranger', [...SCOPES]);
    const foreign = await send(call, taskId, stranger);
    const missing = await send(call, holdfast.freshId(), stranger);
    expect(foreign.status).toBe(call.missing);
    const told = (answer: request.Response): string => answer.text.replaceAll(/t-[0-9a-f-]{36}/g, 'ID');
    expect([foreign.status, told(foreign)]).toEqual([missing.status, told(missing)]);
  });
});

test('claim tokens are shown to those who may claim or repair, and to nobody else', async () => {
  const scheduler = await addKey('acme', ['schedule']);
  const taskId = holdfast.freshId();
  const as = (key: string): request.Test =>
    request(server.url).get(`/v1/tasks/${taskId}`).set('Authorization', `Bearer ${key}`);
  const body = { taskId, type: 't' };
  await request(server.url).post('/v1/tasks').set('Authorization', `Bearer ${scheduler}`).send(body);
  const { id } = await holdfast.inbox.next(taskId);
  for (const scope of ['execute', 'operate'] as const) {
    expect(((await as(await addKey('acme', [scope]))).body as TaskView).delivery.eventId).toBe(id);
  }
  const shown = await as(scheduler);
  expect(shown.body).toMatchObject({ taskId, delivery: { eventId: null } });
  expect(shown.text).not.toContain(id);

  const executor = await addKey('acme', ['execute']);
  const post = (key: string, name: string, sent: object): request.Test =>
    request(server.url).post(`/v1/tasks/${taskId}/${name}`).set('Authorization', `Bearer ${key}`).send(sent);
  const claimed = await post(executor, 'claim', { deliveryEventId: id });
  const { claimId } = claimed.body as { claimId: string };
  await post(executor, 'result', { success: true, claimId });
  const refused = await post(scheduler, 'cancel', {});
  expectProblem(refused, 'task-terminal');
  expect(refused.text).not.toContain(id);
  expect((await post(executor, 'result', { success: true, claimId })).text).toContain(id);
});

describe('the key file', () => {
  test('a key that is revoked is refused, one that is added is taken, with no restart', async () => {
    const taskId = await waiting();
    const call = CALLS['get'] as Call;
    const key = await addKey('acme', ['schedule']);
    expect((await send(call, taskId, key)).status).toBe(200);
    const id = key.split('_')[2];
    await changeKeyFile(file, (keys) =>
      keys.map((entry) => (entry.id === id ? { ...entry, revokedAt: new Date().toISOString() } : entry)),
    );
    now += 2_000;
    expectProblem(await send(call, taskId, key), 'unauthenticated');
    expect((await send(call, taskId, await addKey('acme', ['schedule']))).status).toBe(200);
  });

  test('one that became unusable leaves the former keys in force', async () => {
    const taskId = await waiting();
    const key = await addKey('acme', ['schedule']);
    const call = CALLS['get'] as Call;
    expect((await send(call, taskId, key)).status).toBe(200);
    const before = await readFile(file, 'utf8');
    await writeFile(file, '{"keys": [');
    now += 2_000;
    expect((await send(call, taskId, key)).status).toBe(200);
    await writeFile(file, before);
  });

  test('holds no secret, and says what is wrong without a value', async () => {
    const key = await addKey('acme', ['schedule']);
    const secret = key.split('_')[3] ?? '';
    expect(secret).toHaveLength(64);
    expect(await readFile(file, 'utf8')).not.toContain(secret);

    const odd = path.join(dir, 'odd.json');
    await writeFile(odd, JSON.stringify({ keys: [{ id: 'planted-value' }] }));
    await expect(readKeyFile(odd)).rejects.toThrow(/odd\.json cannot be used: keys\.0\.id/);
    await expect(readKeyFile(odd)).rejects.not.toThrow('planted-value');
    await expect(KeyRing.open(path.join(dir, 'none.json'), { log })).rejects.toThrow(/none\.json cannot be used/);
  });

  test('two changes at once: one waits its turn by failing, none is lost', async () => {
    const own = path.join(dir, 'own.json');
    const add = async (customerId: string): Promise<void> => {
      const { id, secretHash } = newApiKey('test');
      const entry: KeyEntry = {
        id,
        customerId,
        scopes: ['schedule'],
        secretHash,
        createdAt: new Date().toISOString(),
        expiresAt: null,
        revokedAt: null,
      };
      await changeKeyFile(own, (keys) => [...keys, entry]);
    };
    const outcomes = await Promise.allSettled(['a', 'b', 'c', 'd'].map(add));
    const done = outcomes.filter(({ status }) => status === 'fulfilled').length;
    expect(done).toBeGreaterThan(0);
    expect(await readKeyFile(own)).toHaveLength(done);
  });
});
