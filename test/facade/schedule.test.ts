/** POST /v1/tasks on a real server: what is accepted comes back as sent, what is refused starts nothing. */
import { randomUUID } from 'node:crypto';
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../src/contracts/errors.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { TaskView } from '../../src/contracts/task.ts';
import type { Listening } from '../../src/facade/listen.ts';
import { CUSTOMER, startHarness, type Harness } from '../support/harness.ts';
import { expectOurs, expectProblem, isStarted, serve } from './support.ts';

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

/** Nothing here waits for a release: a Task that is not due stays as it was accepted. */
const LATER = { delaySeconds: 3600 } as const;

function post(body: object, key?: string): request.Test {
  const sent = request(server.url).post('/v1/tasks');
  return (key === undefined ? sent : sent.set('Idempotency-Key', key)).send(body);
}

/** Sends bytes that no serializer has touched. */
function postExactly(body: string | Buffer): request.Test {
  return request(server.url)
    .post('/v1/tasks')
    .set('Content-Type', 'application/json')
    .serialize((data: string) => data)
    .send(body);
}

function taskOf(response: request.Response): TaskView {
  return response.body as TaskView;
}

function expectTask(response: request.Response, status: 200 | 201): TaskView {
  expect(response.text.slice(0, 500)).toContain('"taskId"');
  expect(response.status).toBe(status);
  expectOurs(response);
  expect(response.headers['idempotent-replayed']).toBe(status === 200 ? 'true' : undefined);
  return taskOf(response);
}

/** Refused with the code, the field named, the key in the answer, and no workflow. */
async function expectRefused(body: object, code: ErrorCode, field?: string): Promise<void> {
  const taskId = holdfast.freshId();
  const response = await post({ taskId, type: 'test', ...body }, taskId);
  expectProblem(response, code, field);
  expect(response.headers['idempotency-key']).toBe(taskId);
  expect(await isStarted(holdfast, taskId)).toBe(false);
}

describe('accepted', () => {
  test('201, where it is, and the whole Task', async () => {
    const taskId = holdfast.freshId();
    const body = {
      taskId,
      type: 'investigation',
      input: { incident: 7 },
      queue: 'urgent',
      priority: 1,
      runTimeoutSeconds: 60,
      source: { kind: 'chat', ref: 'C1/123', url: 'https://chat.example/C1/123' },
      labels: { team: 'core' },
      continuesTaskId: 'an-earlier-one',
      ...LATER,
    };
    const response = await post(body, 'key-1');
    const task = expectTask(response, 201);
    expect(response.headers['location']).toBe(`/v1/tasks/${taskId}`);
    expect(response.headers['idempotency-key']).toBe('key-1');
    const { delaySeconds, ...asSent } = body;
    expect(task).toEqual({
      ...asSent,
      customerId: CUSTOMER,
      status: 'scheduled',
      revision: 1,
      lineage: { rootTaskId: taskId, parentTaskId: null, ancestors: [] },
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
      releaseAt: new Date(Date.parse(task.createdAt) + delaySeconds * 1000).toISOString(),
      queuedAt: null,
      startedAt: null,
      completedAt: null,
      timeoutAt: null,
      nextAlarmAt: task.releaseAt,
      delivery: { eventId: null, state: 'none', publishedAt: null, attempts: 0, nextAttemptAt: null, lastError: null },
      claim: null,
      mailbox: { lastSeq: 0, readSeq: 0, unread: 0 },
      admission: { decision: 'admitted', kind: 'root', usage: 'not-asked', quota: 'not-asked', reason: null },
      cancellation: null,
      result: null,
      transitions: [{ revision: 1, at: task.createdAt, from: null, to: 'scheduled', cause: 'created' }],
    });
    const read = await request(server.url).get(`/v1/tasks/${taskId}`);
    expect(read.status).toBe(200);
    expect(read.body).toEqual(task);
  });

  test('defaults where nothing is said, and due at once', async () => {
    const task = expectTask(await post({ type: 'test' }), 201);
    expect(task).toMatchObject({
      queue: 'default',
      priority: 3,
      input: null,
      source: null,
      labels: {},
      continuesTaskId: null,
      runTimeoutSeconds: 3600,
      releaseAt: task.createdAt,
    });
  });
});

describe('identity', () => {
  test('the same key again: the first answer, marked, whatever the order of the fields', async () => {
    const key = randomUUID();
    const first = expectTask(await post({ type: 'test', input: { a: 1, b: { c: 2, d: 3 } }, ...LATER }, key), 201);
    const again = await post({ ...LATER, input: { b: { d: 3, c: 2 }, a: 1 }, type: 'test' }, key);
    expect(expectTask(again, 200)).toEqual(first);
    expect(again.headers['idempotency-key']).toBe(key);
    expect(again.headers['location']).toBe(`/v1/tasks/${first.taskId}`);
  });

  test.each([
    ['another type', { type: 'other', input: 1 }],
    ['another input', { type: 'test', input: 2 }],
    ['an input less', { type: 'test' }],
    ['a field more', { type: 'test', input: 1, priority: 3 }],
  ])('the same key with %s: 422, and the first stays as it was', async (_name, other) => {
    const key = randomUUID();
    const first = expectTask(await post({ type: 'test', input: 1, ...LATER }, key), 201);
    const refused = await post({ ...other, ...LATER }, key);
    expectProblem(refused, 'idempotency-key-reused');
    expect(refused.headers['idempotency-key']).toBe(key);
    expect((await request(server.url).get(`/v1/tasks/${first.taskId}`)).body).toEqual(first);
  });

  test('inputs that differ only in a lone surrogate are two inputs', async () => {
    const key = randomUUID();
    expectTask(await post({ type: 'test', input: '\ud800', ...LATER }, key), 201);
    expectTask(await post({ type: 'test', input: '\ud800', ...LATER }, key), 200);
    expectProblem(await post({ type: 'test', input: '\ud801', ...LATER }, key), 'idempotency-key-reused');
  });

  test('a taskId decides, not the key', async () => {
    const [taskId, otherId] = [holdfast.freshId(), holdfast.freshId()];
    const key = randomUUID();
    const first = expectTask(await post({ taskId, type: 'test', ...LATER }, key), 201);
    const again = await post({ taskId, type: 'test', ...LATER }, 'another-key');
    expect(expectTask(again, 200)).toEqual(first);
    expect(again.headers['idempotency-key']).toBe('another-key');
    expectTask(await post({ taskId, type: 'test', ...LATER }), 200);
    expectTask(await post({ taskId: otherId, type: 'test', ...LATER }, key), 201);
    expectProblem(await post({ taskId, type: 'other', ...LATER }, key), 'idempotency-key-reused');
  });

  test('no key: each request is a Task of its own, under a fresh key that the answer tells', async () => {
    const [one, two] = [await post({ type: 'test', ...LATER }), await post({ type: 'test', ...LATER })];
    expect(expectTask(one, 201).taskId).not.toBe(expectTask(two, 201).taskId);
    const key = String(one.headers['idempotency-key']);
    expect(key).toMatch(/^\S{20,}$/);
    expect(two.headers['idempotency-key']).not.toBe(key);
    expect(expectTask(await post({ type: 'test', ...LATER }, key), 200)).toEqual(taskOf(one));
  });

  test('one key twenty times at once: one Task, created once', async () => {
    const key = randomUUID();
    const responses = await Promise.all(Array.from({ length: 20 }, () => post({ type: 'test', ...LATER }, key)));
    expect(responses.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(19);
    expect(new Set(responses.map((response) => taskOf(response).taskId)).size).toBe(1);
  });

  test('after the Task has ended the key still answers with it', async () => {
    const key = randomUUID();
    const { taskId } = expectTask(await post({ type: 'test', ...LATER }, key), 201);
    expect((await request(server.url).post(`/v1/tasks/${taskId}/cancel`)).status).toBe(200);
    await holdfast.client.workflow.getHandle(holdfast.workflowId(taskId)).result();
    expect(expectTask(await post({ type: 'test', ...LATER }, key), 200)).toMatchObject({ taskId, status: 'canceled' });
    expectProblem(await post({ type: 'other', ...LATER }, key), 'idempotency-key-reused');
  });

  test.each(['!', 'k'.repeat(128), 'a/b:c#d%00', "it's", '~'])('the key %s is taken and echoed', async (key) => {
    const response = await post({ taskId: holdfast.freshId(), type: 'test', ...LATER }, key);
    expectTask(response, 201);
    expect(response.headers['idempotency-key']).toBe(key);
  });

  test.each([
    ['empty', ''],
    ['too long', 'k'.repeat(129)],
    ['with a space', 'a b'],
    ['with a quote', '"a"'],
    ['with a backslash', 'a\\b'],
    ['not ASCII', 'caf\u00e9'],
  ])('a key that is %s: 400, and nothing is started', async (_name, key) => {
    const taskId = holdfast.freshId();
    const response = await post({ taskId, type: 'test', ...LATER }, key);
    expectProblem(response, 'invalid-request', 'Idempotency-Key');
    expect(response.headers).not.toHaveProperty('idempotency-key');
    expect(await isStarted(holdfast, taskId)).toBe(false);
  });

  test('two keys in one request: 400', async () => {
    const response = await request(server.url)
      .post('/v1/tasks')
      .set('Idempotency-Key', ['a', 'b'] as unknown as string)
      .send({ type: 'test', ...LATER });
    expectProblem(response, 'invalid-request', 'Idempotency-Key');
  });
});

describe('times', () => {
  test('one instant in three offsets is one request', async () => {
    const key = randomUUID();
    const first = await post({ type: 'test', releaseAt: '2030-07-01T12:00:00Z' }, key);
    expect(expectTask(first, 201).releaseAt).toBe('2030-07-01T12:00:00.000Z');
    for (const releaseAt of ['2030-07-01T14:00:00+02:00', '2030-07-01T06:30:00.000-05:30']) {
      expect(expectTask(await post({ type: 'test', releaseAt }, key), 200)).toEqual(taskOf(first));
    }
    const other = await post({ type: 'test', releaseAt: '2030-07-01T12:00:00.001Z' }, key);
    expectProblem(other, 'idempotency-key-reused');
  });

  test.each([
    '2030-07-01T12:00:00',
    '2030-07-01',
    '2030-07-01 12:00:00Z',
    '2030-02-30T12:00:00Z',
    '2030-07-01T24:00:00Z',
    '2030-07-01T12:00:60Z',
    '2030-07-01T12:00:00+24:00',
    '-271821-04-20T00:00:00Z',
    '+275760-09-13T00:00:00Z',
    '0000-01-01T00:00:00+14:00',
    '9999-12-31T23:59:59-14:00',
    '9999-12-31T23:59:59Z',
    '2040-01-01T00:00:00Z',
    'tomorrow',
    '',
    0,
    1e12,
    null,
    {},
  ])('releaseAt %j: 400', async (releaseAt) => {
    await expectRefused({ releaseAt }, 'invalid-request', 'releaseAt');
  });

  test.each(['1970-01-01T00:00:00Z', '0001-01-01T00:00:00Z', '0000-01-01T00:00:00Z'])(
    'releaseAt %s is past: announced at once, and once',
    async (releaseAt) => {
      const taskId = holdfast.freshId();
      expectTask(await post({ taskId, type: 'test', releaseAt }), 201);
      const task = await holdfast.until(taskId, ({ status }) => status === 'queued');
      expect(task.releaseAt).toBe(new Date(releaseAt).toISOString());
      expect(holdfast.inbox.of(taskId)).toHaveLength(1);
    },
  );

  test('releaseAt and delaySeconds exclude each other, even where they agree', async () => {
    const releaseAt = '2030-07-01T12:00:00Z';
    await expectRefused({ releaseAt, delaySeconds: 0 }, 'invalid-request', 'delaySeconds');
    expectTask(await post({ type: 'test', releaseAt }), 201);
  });

  test.each([0, 0.0004, 1, LIMITS.releaseAheadSecondsMax])('delaySeconds %d is kept', async (delaySeconds) => {
    const task = expectTask(await post({ type: 'test', delaySeconds }), 201);
    expect(Date.parse(task.releaseAt) - Date.parse(task.createdAt)).toBe(Math.trunc(delaySeconds * 1000));
  });

  test.each([
    -5,
    -0.001,
    LIMITS.releaseAheadSecondsMax + 0.001,
    2 ** 32 - 1,
    2 ** 32,
    2 ** 32 + 1,
    Number.MAX_SAFE_INTEGER,
    'NaN',
    'Infinity',
    '-Infinity',
    '5',
    null,
    true,
    [5],
  ])('delaySeconds %j: 400', async (delaySeconds) => {
    await expectRefused({ delaySeconds }, 'invalid-request', 'delaySeconds');
  });

  test.each(['NaN', 'Infinity', '1e400', '-1e400', '0x10', '1_000'])('delaySeconds %s, bare: 400', async (number) => {
    const taskId = holdfast.freshId();
    const response = await postExactly(`{"taskId":"${taskId}","type":"test","delaySeconds":${number}}`);
    expectProblem(response, 'invalid-json');
    expect(await isStarted(holdfast, taskId)).toBe(false);
  });
});

describe('bounds', () => {
  test.each([
    { priority: 1 },
    { priority: 5 },
    { runTimeoutSeconds: 1 },
    { runTimeoutSeconds: LIMITS.runTimeoutSecondsMax },
    { type: 't' },
    { type: 'T'.repeat(128) },
    { queue: 'q'.repeat(128) },
    { taskId: `9${'.'.repeat(127)}` },
    { source: { kind: 'k'.repeat(64), ref: 'r'.repeat(1024) } },
    { source: { kind: 'k', ref: 'r', url: `https://x.example/${'p'.repeat(2030)}` } },
    { source: { kind: '\u0000', ref: '\ud83d\ude00'.repeat(300) } },
  ])('at its edge, accepted: %j', async (body) => {
    const task = expectTask(await post({ type: 'test', ...body, ...LATER }), 201);
    expect(task).toMatchObject(body);
  });

  test.each([
    ['priority', { priority: 0 }],
    ['priority', { priority: 6 }],
    ['priority', { priority: 2.5 }],
    ['priority', { priority: '1' }],
    ['runTimeoutSeconds', { runTimeoutSeconds: 0 }],
    ['runTimeoutSeconds', { runTimeoutSeconds: 0.5 }],
    ['runTimeoutSeconds', { runTimeoutSeconds: -1 }],
    ['runTimeoutSeconds', { runTimeoutSeconds: LIMITS.runTimeoutSecondsMax + 1 }],
    ['type', { type: undefined }],
    ['type', { type: '' }],
    ['type', { type: 'T'.repeat(129) }],
    ['type', { type: 'a b' }],
    ['queue', { queue: 'q'.repeat(129) }],
    ['queue', { queue: 'a:b' }],
    ['source.kind', { source: { ref: 'r' } }],
    ['source.kind', { source: { kind: 'k'.repeat(65), ref: 'r' } }],
    ['source.ref', { source: { kind: 'k', ref: 'r'.repeat(1025) } }],
    ['source.url', { source: { kind: 'k', ref: 'r', url: 'javascript:alert(1)' } }],
    ['source.url', { source: { kind: 'k', ref: 'r', url: ' https://x.example' } }],
    ['source.url', { source: { kind: 'k', ref: 'r', url: 'https://x.example/\n' } }],
    ['labels', { labels: { '': 'x' } }],
    ['labels.a', { labels: { a: 1 } }],
    ['labels', { labels: ['a'] }],
    ['parentTaskId', { parentTaskId: 'a/b' }],
    ['continuesTaskId', { continuesTaskId: '' }],
  ])('beyond %s: 400: %j', async (field, body) => {
    await expectRefused(body, 'invalid-request', field);
  });

  test.each(['.a', '-a', 'a/b', 'a:b', 'a b', '', 'a\u0000', '\u00e9', 'x'.repeat(129)])(
    'taskId %j: 400',
    async (taskId) => {
      expectProblem(await post({ taskId, type: 'test', ...LATER }), 'invalid-request', 'taskId');
    },
  );

  test.each([
    'status',
    'customerId',
    'revision',
    'claim',
    'lineage',
    'Type',
    'constructor',
    'toString',
    'hasOwnProperty',
    'prototype',
  ])('an unknown field %s: 400 that names it', async (field) => {
    await expectRefused({ [field]: 'x' }, 'invalid-request', `unknown: ${field}`);
  });

  test('an unknown field inside of source: 400 that names it', async () => {
    await expectRefused({ source: { kind: 'k', ref: 'r', secret: 1 } }, 'invalid-request', 'source unknown: secret');
  });

  test.each(['[]', 'null', '1', '"x"', 'true', '[{"type":"test"}]'])('a body %s: 400', async (body) => {
    expectProblem(await postExactly(body), 'invalid-request');
  });
});

describe('sizes, in bytes of JSON', () => {
  /** Control characters take six bytes each; the rest is filled with letters. */
  const textOfBytes = (bytes: number): string => {
    const [controls, letters] = [Math.floor((bytes - 2) / 6), (bytes - 2) % 6];
    return '\u0001'.repeat(controls) + 'x'.repeat(letters);
  };
  const sourceOfBytes = (bytes: number): object => {
    const empty = JSON.stringify({ kind: 'k', ref: '' }).length;
    return { kind: 'k', ref: textOfBytes(bytes - empty + 2) };
  };
  const labels = (count: number): object =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`label-${index}`, 'x']));

  test.each([
    ['input of controls', { input: textOfBytes(LIMITS.inputBytesMax) }],
    ['input of letters', { input: 'x'.repeat(LIMITS.inputBytesMax - 2) }],
    ['input of three-byte characters', { input: `${'\u20ac'.repeat((LIMITS.inputBytesMax - 4) / 3)}xx`.slice(0, -2) }],
    ['source', { source: sourceOfBytes(LIMITS.sourceBytesMax) }],
    ['16 labels', { labels: labels(16) }],
    ['a label', { labels: { n: 'x'.repeat(LIMITS.labelBytesMax - 5) } }],
    ['a label with a long name', { labels: { ['n'.repeat(LIMITS.labelBytesMax - 4)]: '' } }],
  ])('%s at its cap is kept', async (_name, body) => {
    const task = expectTask(await post({ type: 'test', ...body, ...LATER }), 201);
    expect(JSON.stringify(task)).toContain(JSON.stringify(body).slice(1, -1));
  });

  test.each([
    ['input', { input: textOfBytes(LIMITS.inputBytesMax + 1) }],
    ['input', { input: 'x'.repeat(LIMITS.inputBytesMax - 1) }],
    ['input', { input: { a: 'x'.repeat(LIMITS.inputBytesMax - 7) } }],
    ['source', { source: sourceOfBytes(LIMITS.sourceBytesMax + 1) }],
    ['labels', { labels: labels(17) }],
    ['labels.n', { labels: { n: 'x'.repeat(LIMITS.labelBytesMax - 4) } }],
    ['labels.n', { labels: { n: 'x'.repeat(LIMITS.labelBytesMax + 1) } }],
    ['labels.nnn', { labels: { ['n'.repeat(LIMITS.labelBytesMax - 3)]: '' } }],
    ['labels.nnn', { labels: { ['n'.repeat(LIMITS.labelBytesMax + 1)]: '' } }],
  ])('one byte more of %s: 413', async (field, body) => {
    await expectRefused(body, 'payload-too-large', field);
  });

  test('many small parts count as one: 413', async () => {
    await expectRefused({ input: Array.from({ length: 90_000 }, () => 10) }, 'payload-too-large', 'input');
  });

  test('everything at its cap at once is one Task, that can be canceled and read', async () => {
    const taskId = `t${holdfast.freshId('x'.repeat(90))}`.slice(0, 128);
    const full = {
      taskId,
      type: 'T'.repeat(128),
      queue: 'q'.repeat(128),
      input: textOfBytes(LIMITS.inputBytesMax),
      source: sourceOfBytes(LIMITS.sourceBytesMax),
      labels: Object.fromEntries(
        Array.from({ length: 16 }, (_, index) => [`label-${index + 10}`, 'x'.repeat(LIMITS.labelBytesMax - 12)]),
      ),
    };
    expectTask(await post(full), 201);
    await holdfast.until(taskId, ({ status }) => status === 'queued');
    const canceled = await request(server.url)
      .post(`/v1/tasks/${taskId}/cancel`)
      .send({ reason: 'r'.repeat(1022) });
    expect(canceled.status).toBe(200);
    expect(canceled.body).toMatchObject({ ...full, status: 'canceled' });
  });
});

describe('lineage', () => {
  test('a child of an active parent names its whole line', async () => {
    const [root, middle, leaf] = [holdfast.freshId('root'), holdfast.freshId('middle'), holdfast.freshId('leaf')];
    expectTask(await post({ taskId: root, type: 'test', ...LATER }), 201);
    expectTask(await post({ taskId: middle, type: 'test', parentTaskId: root, ...LATER }), 201);
    const task = expectTask(await post({ taskId: leaf, type: 'test', parentTaskId: middle, ...LATER }), 201);
    expect(task.lineage).toEqual({ rootTaskId: root, parentTaskId: middle, ancestors: [middle, root] });
    expect(task.admission.kind).toBe('child');
  });

  test('a parent that is missing, or the Task itself: 422, and nothing is started', async () => {
    await expectRefused({ parentTaskId: holdfast.freshId() }, 'parent-not-found');
    const taskId = holdfast.freshId();
    expectProblem(await post({ taskId, type: 'test', parentTaskId: taskId }), 'parent-not-found');
    expect(await isStarted(holdfast, taskId)).toBe(false);
  });

  test('a parent that has ended: 422; but a child accepted before answers its repeat', async () => {
    const [parentTaskId, taskId] = [holdfast.freshId('parent'), holdfast.freshId('child')];
    const child = { taskId, type: 'test', parentTaskId, ...LATER };
    expectTask(await post({ taskId: parentTaskId, type: 'test', ...LATER }), 201);
    const accepted = expectTask(await post(child), 201);
    expect((await request(server.url).post(`/v1/tasks/${parentTaskId}/cancel`)).status).toBe(200);
    await holdfast.client.workflow.getHandle(holdfast.workflowId(parentTaskId)).result();
    await expectRefused({ parentTaskId }, 'parent-terminal');
    expect(expectTask(await post(child), 200)).toEqual(accepted);
    expectProblem(await post({ ...child, type: 'other' }), 'idempotency-key-reused');
  });
});

describe('input comes back as it was sent, or is refused', () => {
  const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);

  test.each([
    ['prototype keys', '{"constructor":{"prototype":{"polluted":true}},"toString":1,"hasOwnProperty":null,"":0}'],
    ['escapes', '"\\u0000\\u001f\\"\\\\\\/\\b\\f\\n\\r\\t\\u007f\\u2028\\u2029\\ufeff"'],
    ['lone surrogates', '["\\ud800","\\udfff","\\udc00\\ud800",{"\\ud800":1}]'],
    ['characters beyond the BMP', '"\ud83d\ude00\u0301\u202e"'],
    ['numbers at their edges', '[9007199254740991,-9007199254740991,0.1,-1.5e-7,5e-324,0.30000000000000004]'],
    ['null', 'null'],
    ['false', 'false'],
    ['an empty text', '""'],
    ['empty parts', '[[],{},"",[[]],{"a":{}}]'],
    ['nesting of 64 levels', nested(64)],
    [
      'words of the scheduler itself',
      '{"status":"succeeded","customerId":"acme","metadata":{"encoding":"x"},"data":"x"}',
    ],
    ['words of the SDK', '{"toJSON":"x","then":"y","$type":"z","__type":1,"payloads":[{"data":"eA=="}]}'],
  ])('%s', async (_name, input) => {
    const taskId = holdfast.freshId();
    const body = `{"taskId":"${taskId}","type":"test","delaySeconds":3600,"input":${input}}`;
    const sent = JSON.stringify(JSON.parse(input));
    expect(JSON.stringify(expectTask(await postExactly(body), 201).input)).toBe(sent);
    const read = await request(server.url).get(`/v1/tasks/${taskId}`);
    expect(JSON.stringify(taskOf(read).input)).toBe(sent);
    expect(JSON.stringify(expectTask(await postExactly(body), 200).input)).toBe(sent);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test.each([
    ['__proto__', '{"__proto__":{"polluted":true}}'],
    ['__proto__, deep and escaped', '[{"a":{"\\u005f_proto__":1}}]'],
    ['a number too large', '1e400'],
    ['a number too small', '-1e400'],
    ['2^53', '9007199254740992'],
    ['2^53+1', '[{"a":9007199254740993}]'],
    ['-2^53-1', '-9007199254740993'],
    ['nesting of 65 levels', nested(65)],
    ['nesting of 100,000 levels', nested(100_000)],
    ['a lone escape', '"\\ud8"'],
    ['a comment', '1/**/'],
    ['a raw control character', '"\u0001"'],
    ['a trailing comma', '[1,]'],
    ['nothing', ''],
  ])('%s: 400', async (_name, input) => {
    const taskId = holdfast.freshId();
    const response = await postExactly(`{"taskId":"${taskId}","type":"test","delaySeconds":3600,"input":${input}}`);
    expectProblem(response, 'invalid-json');
    expect(await isStarted(holdfast, taskId)).toBe(false);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test.each([
    ['a byte that is none', [0xff]],
    ['a character cut short', [0xe2, 0x82]],
    ['an overlong slash', [0xc0, 0xaf]],
    ['a surrogate in UTF-8', [0xed, 0xa0, 0x80]],
    ['Latin-1', [0xe9]],
  ])('%s in its UTF-8: 400', async (_name, bytes) => {
    const taskId = holdfast.freshId();
    const head = `{"taskId":"${taskId}","type":"test","delaySeconds":3600,"input":"`;
    const response = await postExactly(Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from('"}')]));
    expectProblem(response, 'invalid-json');
    expect(await isStarted(holdfast, taskId)).toBe(false);
  });

  test('labels keep prototype words', async () => {
    const labels = { constructor: 'a', toString: 'b', hasOwnProperty: 'c' };
    const task = expectTask(await post({ type: 'test', labels, ...LATER }), 201);
    expect(JSON.stringify(task.labels)).toBe(JSON.stringify(labels));
  });
});
