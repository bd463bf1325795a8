/** Lists, waits, read marks, redelivery and evidence over HTTP, on a real server. */
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LayeredClaim } from '../../src/scheduler/claims.ts';
import type { TaskSummary } from '../../src/scheduler/listing.ts';
import type { Listening } from '../../src/facade/listen.ts';
import { startHarness, type Harness } from '../support/harness.ts';
import { expectProblem, serve } from './support.ts';

let holdfast: Harness;
let server: Listening;
beforeAll(async () => {
  holdfast = await startHarness();
  server = await serve(holdfast.app);
});
afterAll(async () => {
  await server.close();
  await holdfast.close();
});

const get = (path: string): request.Test => request(server.url).get(path);
const post = (path: string, body: object = {}): request.Test => request(server.url).post(path).send(body);

async function schedule(body: object): Promise<string> {
  const taskId = holdfast.freshId();
  const answer = await post('/v1/tasks', { taskId, type: 'test', ...body });
  expect(answer.status).toBe(201);
  return taskId;
}

interface Page {
  tasks: TaskSummary[];
  nextPageToken: string | null;
}

/** All pages of a list. */
async function listed(query: Record<string, string | number>): Promise<TaskSummary[]> {
  const tasks: TaskSummary[] = [];
  let pageToken: string | null = null;
  do {
    const answer = await get('/v1/tasks').query({ ...query, ...(pageToken === null ? {} : { pageToken }) });
    expect(answer.status).toBe(200);
    const page = answer.body as Page;
    tasks.push(...page.tasks);
    pageToken = page.nextPageToken;
  } while (pageToken !== null);
  return tasks;
}

/** The list once it has this many: visibility follows with a delay. */
async function listedOnce(query: Record<string, string | number>, count: number): Promise<TaskSummary[]> {
  const until = Date.now() + 20_000;
  for (;;) {
    const tasks = await listed(query);
    if (tasks.length === count || Date.now() > until) return tasks;
    await new Promise((resolve) => {
      setTimeout(resolve, 300);
    });
  }
}

describe('lists', () => {
  test('each filter finds its own Tasks and no others', async () => {
    const type = holdfast.freshId('type');
    const root = await schedule({ type, delaySeconds: 3600, source: { kind: 'chat', ref: `it's "7" \\ 100%` } });
    const child = await schedule({ type, delaySeconds: 3600, parentTaskId: root, queue: 'other' });
    const canceled = await schedule({ type, delaySeconds: 3600 });
    await post(`/v1/tasks/${canceled}/cancel`);
    const terminated = await schedule({ type, delaySeconds: 3600 });
    await holdfast.client.workflow.getHandle(holdfast.workflowId(terminated)).terminate('by hand');

    expect(await listedOnce({ type }, 4)).toHaveLength(4);
    expect(await listedOnce({ type, status: 'canceled' }, 2)).toHaveLength(2);
    const ids = async (query: Record<string, string>): Promise<string[]> =>
      (await listed({ type, ...query })).map(({ taskId }) => taskId).toSorted();
    expect(await ids({ status: 'canceled' })).toEqual([canceled, terminated].toSorted());
    // A terminated one keeps the attribute that it had: it must not be found by it.
    expect(await ids({ status: 'scheduled' })).toEqual([root, child].toSorted());
    expect(await ids({ status: 'scheduled,canceled' })).toHaveLength(4);
    expect(await ids({ queue: 'other' })).toEqual([child]);
    expect(await ids({ parentTaskId: root })).toEqual([child]);
    expect(await ids({ rootTaskId: root })).toEqual([root, child].toSorted());
    expect(await ids({ source: `chat:it's "7" \\ 100%` })).toEqual([root]);
    expect(await ids({ source: `chat:it's` })).toEqual([]);
    expect(await ids({ source: `x' OR TaskCustomer != 'x` })).toEqual([]);
    expect(await ids({ delivery: 'none' })).toHaveLength(4);
    expect(await ids({ delivery: 'pending' })).toEqual([]);
    expect(await ids({ createdAfter: '2020-01-01T00:00:00Z' })).toHaveLength(4);
    expect(await ids({ createdAfter: '2999-01-01T00:00:00Z' })).toEqual([]);

    const summary = (await listed({ type, queue: 'other' }))[0];
    expect(summary).toMatchObject({
      taskId: child,
      customerId: 'local',
      type,
      queue: 'other',
      status: 'scheduled',
      lineage: { rootTaskId: root, parentTaskId: root },
      delivery: { state: 'none' },
    });
  });

  test('small pages come to the whole list, each Task once', async () => {
    const type = holdfast.freshId('paged');
    const made = await Promise.all(Array.from({ length: 23 }, () => schedule({ type, delaySeconds: 3600 })));
    const found = await listedOnce({ type, pageSize: 5 }, 23);
    expect(found.map(({ taskId }) => taskId).toSorted()).toEqual(made.toSorted());
  });

  test('a page token is bound to its list', async () => {
    const type = holdfast.freshId('tokens');
    await Promise.all([1, 2, 3].map(() => schedule({ type, delaySeconds: 3600 })));
    await listedOnce({ type }, 3);
    const { nextPageToken } = (await get('/v1/tasks').query({ type, pageSize: 2 })).body as Page;
    expect(nextPageToken).toEqual(expect.any(String));
    const again = (query: object): request.Test => get('/v1/tasks').query({ pageSize: 2, ...query });
    expect((await again({ type, pageToken: nextPageToken })).status).toBe(200);
    for (const query of [
      { type: 'other', pageToken: nextPageToken },
      { pageToken: nextPageToken },
      { type, pageToken: `${nextPageToken}x` },
      { type, pageToken: 'e30.e30' },
      { type, pageToken: 'x' },
    ]) {
      expectProblem(await again(query), 'invalid-request', 'pageToken');
    }
  });

  test.each([
    ['status', 'waiting'],
    ['status', 'queued,'],
    ['delivery', 'lost'],
    ['pageSize', '0'],
    ['pageSize', '201'],
    ['pageSize', 'ten'],
    ['createdAfter', '2026-01-01T00:00:00'],
    ['queue', "x' OR 1"],
    ['color', 'red'],
  ])('%s=%s is refused by name', async (field, value) => {
    expectProblem(
      await get('/v1/tasks').query({ [field]: value }),
      'invalid-request',
      field === 'color' ? 'color' : field,
    );
  });
});

describe('waiting', () => {
  test('an ETag that is known gives 304, a Task that changed gives the new one', async () => {
    const taskId = await schedule({ delaySeconds: 3600 });
    const first = await get(`/v1/tasks/${taskId}`);
    const etag = String(first.headers['etag']);
    expect(etag).toMatch(/^"[\w-]{27}"$/);
    const known = await get(`/v1/tasks/${taskId}`).set('If-None-Match', etag);
    expect([known.status, known.text]).toEqual([304, '']);

    const waited = Promise.resolve(get(`/v1/tasks/${taskId}`).set('If-None-Match', etag).set('Prefer', 'wait=30'));
    await post(`/v1/tasks/${taskId}/cancel`);
    const changed = await waited;
    expect(changed.status).toBe(200);
    expect(changed.headers).toMatchObject({ 'preference-applied': 'wait=30' });
    expect(changed.headers['etag']).not.toBe(etag);
    expect(changed.body).toMatchObject({ status: 'canceled' });
  });

  test('only a Task has tags: no other read answers without its body', async () => {
    const taskId = await schedule({ delaySeconds: 3600 });
    for (const path of ['/livez', '/v1/tasks', `/v1/tasks/${taskId}/stop`, `/v1/tasks/${taskId}/messages`]) {
      const answer = await get(path).set('If-None-Match', '*');
      expect([path, answer.status, answer.headers['etag']]).toEqual([path, 200, undefined]);
    }
    const missing = await get(`/v1/tasks/${holdfast.freshId()}`).set('If-None-Match', '*');
    expectProblem(missing, 'task-not-found');
    expect(missing.headers).not.toHaveProperty('etag');
  });

  test('a wait that brings nothing ends with 304, and is 30 s at most', async () => {
    const taskId = await schedule({ delaySeconds: 3600 });
    const etag = String((await get(`/v1/tasks/${taskId}`)).headers['etag']);
    const waited = await get(`/v1/tasks/${taskId}`).set('If-None-Match', etag).set('Prefer', 'wait=1');
    expect(waited.status).toBe(304);
    expect((await get(`/v1/tasks/${taskId}`).set('Prefer', 'wait=999')).headers).toMatchObject({
      'preference-applied': 'wait=30',
    });
  });

  test('a reader of messages waits for the next one', async () => {
    const taskId = await schedule({ delaySeconds: 3600 });
    const waited = Promise.resolve(get(`/v1/tasks/${taskId}/messages`).set('Prefer', 'wait=30'));
    await post(`/v1/tasks/${taskId}/messages`, { body: 'news' });
    expect((await waited).body).toMatchObject({ messages: [{ seq: 1, body: 'news' }], lastSeq: 1 });
  });
});

describe('read marks', () => {
  test('free what was read, once, and never beyond the end', async () => {
    const taskId = await schedule({ delaySeconds: 3600 });
    for (const body of ['a', 'b', 'c']) await post(`/v1/tasks/${taskId}/messages`, { body });
    const marked = await post(`/v1/tasks/${taskId}/messages/read`, { upTo: 2 });
    expect([marked.status, marked.body]).toEqual([200, { lastSeq: 3, readSeq: 2, unread: 1 }]);
    expect((await get(`/v1/tasks/${taskId}/messages`)).body).toMatchObject({ messages: [{ seq: 3 }], readSeq: 2 });
    expect((await post(`/v1/tasks/${taskId}/messages/read`, { upTo: 1 })).body).toMatchObject({ readSeq: 2 });
    expectProblem(await post(`/v1/tasks/${taskId}/messages/read`, { upTo: 4 }), 'read-mark-beyond-end');
    expectProblem(await post(`/v1/tasks/${taskId}/messages/read`, {}), 'invalid-request', 'upTo');
  });
});

describe('redeliver', () => {
  test('publishes the same token again; refused before the release, while running and after the end', async () => {
    const later = await schedule({ delaySeconds: 3600 });
    expectProblem(await post(`/v1/tasks/${later}/redeliver`), 'not-released');

    const taskId = await schedule({});
    const first = await holdfast.inbox.next(taskId);
    await holdfast.until(taskId, ({ status }) => status === 'queued');
    const answer = await post(`/v1/tasks/${taskId}/redeliver`);
    expect(answer.status).toBe(202);
    expect((await holdfast.inbox.next(taskId, 2)).id).toBe(first.id);

    expectProblem(await post(`/v1/tasks/${taskId}/redeliver`, { now: true }), 'invalid-request', 'now');
    await post(`/v1/tasks/${taskId}/claim`, { deliveryEventId: first.id });
    expectProblem(await post(`/v1/tasks/${taskId}/redeliver`), 'task-running');
    await post(`/v1/tasks/${taskId}/result`, { success: true });
    expectProblem(await post(`/v1/tasks/${taskId}/redeliver`), 'task-terminal');
  });
});

describe('evidence', () => {
  async function levels(taskId: string): Promise<Record<string, string>> {
    const { body } = await get(`/v1/tasks/${taskId}/evidence`);
    return Object.fromEntries((body as { claims: LayeredClaim[] }).claims.map(({ claim, level }) => [claim, level]));
  }

  test('a Task that waits proves its acceptance and nothing else', async () => {
    const taskId = await schedule({ delaySeconds: 3600 });
    expect(await levels(taskId)).toEqual({
      'request-accepted': 'proven',
      'made-available': 'not-claimed',
      'claim-accepted': 'not-claimed',
      'success-reported': 'not-claimed',
      'revision-exists': 'not-claimed',
      'pull-request-has-patch': 'not-claimed',
      'tests-passed': 'not-claimed',
      'issue-resolved': 'not-claimed',
    });
  });

  test('a success proves that it was reported; what it reports stays reported', async () => {
    const taskId = await schedule({});
    const { id } = await holdfast.inbox.next(taskId);
    await post(`/v1/tasks/${taskId}/claim`, { deliveryEventId: id });
    const effects = [
      { kind: 'commit', ref: 'abc' },
      { kind: 'issue-resolved', ref: 'it is done' },
    ];
    await post(`/v1/tasks/${taskId}/result`, { success: true, effects });
    expect(await levels(taskId)).toEqual({
      'request-accepted': 'proven',
      'made-available': 'proven',
      'claim-accepted': 'proven',
      'success-reported': 'proven',
      'revision-exists': 'reported',
      'pull-request-has-patch': 'not-claimed',
      'tests-passed': 'not-claimed',
      'issue-resolved': 'not-claimed',
    });
    const { body } = await get(`/v1/tasks/${taskId}/evidence`);
    const claimed = (body as { claims: LayeredClaim[] }).claims.find(({ claim }) => claim === 'claim-accepted');
    expect(claimed).toMatchObject({ evidence: { deliveryEventId: id, workflowId: holdfast.workflowId(taskId) } });
  });

  test('a failure proves no success, a missing Task has no evidence', async () => {
    const taskId = await schedule({ delaySeconds: 3600 });
    await post(`/v1/tasks/${taskId}/result`, { success: false, effects: [{ kind: 'commit', ref: 'abc' }] });
    expect(await levels(taskId)).toMatchObject({ 'success-reported': 'not-claimed', 'revision-exists': 'reported' });
    expectProblem(await get(`/v1/tasks/${holdfast.freshId()}/evidence`), 'task-not-found');
  });
});

describe('manners', () => {
  test('a request id is taken when it is harmless, else replaced', async () => {
    const taken = await get('/livez').set('X-Request-Id', 'abc-1.2_3');
    expect(taken.headers['x-request-id']).toBe('abc-1.2_3');
    for (const odd of ['with space', 'x'.repeat(129), 'a"b']) {
      const replaced = await get('/livez').set('X-Request-Id', odd);
      expect(replaced.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    }
    expect((await get('/nowhere')).headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('who cannot take JSON is told so in JSON', async () => {
    expectProblem(await get('/livez').set('Accept', 'text/html'), 'not-acceptable');
    for (const accept of ['application/json', '*/*', 'text/html, application/*;q=0.1', 'application/problem+json']) {
      expect((await get('/livez').set('Accept', accept)).status).toBe(200);
    }
  });
});
