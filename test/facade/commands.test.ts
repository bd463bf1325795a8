/** The commands of a Task over HTTP, on a real server: their answers, codes and statuses, and what they never show. */
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../src/contracts/errors.ts';
import { jsonBytes, type Json } from '../../src/contracts/json.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { Message, TaskView } from '../../src/contracts/task.ts';
import { createApp } from '../../src/facade/app.ts';
import type { Listening } from '../../src/facade/listen.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { ServerClock } from '../../src/scheduler/server-clock.ts';
import { startHarness, type Harness } from '../support/harness.ts';
import { expectOurs, expectProblem, serve, signalsOf } from './support.ts';

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

const NOT_DUE = { delaySeconds: 3600 } as const;
const COMMANDS = {
  claim: { deliveryEventId: 'evt_x' },
  messages: { body: 'hello' },
  cancel: {},
  result: { success: true },
} as const;
type CommandName = keyof typeof COMMANDS;
const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[];

function command(taskId: string, name: CommandName, body?: object, key?: string): request.Test {
  const sent = request(server.url).post(`/v1/tasks/${taskId}/${name}`);
  return (key === undefined ? sent : sent.set('Idempotency-Key', key)).send(body ?? COMMANDS[name]);
}

async function read(taskId: string): Promise<TaskView> {
  return (await request(server.url).get(`/v1/tasks/${taskId}`)).body as TaskView;
}

/** A Task that is not due, so that nothing happens to it but what the test does. */
async function waiting(): Promise<string> {
  const taskId = holdfast.freshId();
  expect(
    (
      await request(server.url)
        .post('/v1/tasks')
        .send({ taskId, type: 'test', ...NOT_DUE })
    ).status,
  ).toBe(201);
  return taskId;
}

/** A Task that was announced, and its claim token. */
async function announced(): Promise<{ taskId: string; deliveryEventId: string }> {
  const taskId = holdfast.freshId();
  expect((await request(server.url).post('/v1/tasks').send({ taskId, type: 'test' })).status).toBe(201);
  return { taskId, deliveryEventId: (await holdfast.inbox.next(taskId)).id };
}

async function running(): Promise<{ taskId: string; deliveryEventId: string; claimId: string }> {
  const { taskId, deliveryEventId } = await announced();
  const claimId = randomUUID();
  expect((await command(taskId, 'claim', { deliveryEventId }, claimId)).status).toBe(200);
  return { taskId, deliveryEventId, claimId };
}

/** An accepted command's answer. */
function expectAnswer(response: request.Response, status = 200): TaskView & { claimId?: string } {
  expect({ status: response.status, text: response.text.slice(0, 300) }).toMatchObject({ status });
  expectOurs(response);
  expect(response.headers).toHaveProperty('idempotency-key');
  return response.body as TaskView & { claimId?: string };
}

/** A refused command changes nothing of the Task. */
async function expectRefused(sent: request.Test, taskId: string, code: ErrorCode, field?: string): Promise<void> {
  const before = await read(taskId);
  expectProblem(await sent, code, field);
  expect(await read(taskId)).toEqual(before);
}

describe('every command', () => {
  test.each(COMMAND_NAMES)('%s of a missing Task: 404, under its key', async (name) => {
    const response = await command(holdfast.freshId(), name, undefined, 'k1');
    expectProblem(response, 'task-not-found');
    expect(response.headers['idempotency-key']).toBe('k1');
  });

  test.each(COMMAND_NAMES)('%s of a Task that has ended: 409 with the recorded Task', async (name) => {
    const { taskId, claimId, deliveryEventId } = await running();
    const ended = expectAnswer(await command(taskId, 'result', { success: false, error: 'e', claimId }));
    const body = name === 'claim' ? { deliveryEventId } : name === 'result' ? { success: true, claimId } : undefined;
    const key = randomUUID();
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      const problem = expectProblem(await command(taskId, name, body, key), 'task-terminal');
      expect(problem['task']).toEqual(ended);
    }
    expect(await read(taskId)).toEqual(ended);
  });

  test.each(COMMAND_NAMES)('%s with a field that is unknown: 400 that names it, and no signal', async (name) => {
    const taskId = await waiting();
    for (const field of ['status', 'customerId', 'key']) {
      const response = await command(taskId, name, { ...COMMANDS[name], [field]: 'x' });
      expectProblem(response, 'invalid-request', `unknown: ${field}`);
      expect(response.headers).toHaveProperty('idempotency-key');
    }
    expect(await signalsOf(holdfast, taskId)).toEqual([]);
  });

  test.each(COMMAND_NAMES)('%s under a bad key: 400, and no signal', async (name) => {
    const taskId = await waiting();
    for (const key of ['', 'a b', 'k'.repeat(129)]) {
      expectProblem(await command(taskId, name, undefined, key), 'invalid-request', 'Idempotency-Key');
    }
    expect(await signalsOf(holdfast, taskId)).toEqual([]);
  });
});

describe('claim', () => {
  test('200: running, with the claim id; asked again under its key, the same', async () => {
    const { taskId, deliveryEventId } = await announced();
    const key = randomUUID();
    const body = { deliveryEventId, executorId: 'worker-1' };
    const first = await command(taskId, 'claim', body, key);
    const claimed = expectAnswer(first);
    expect(first.headers['idempotency-key']).toBe(key);
    expect(claimed).toMatchObject({
      status: 'running',
      claimId: key,
      claim: { deliveryEventId, executorId: 'worker-1', claimedAt: claimed.startedAt },
      delivery: { state: 'consumed' },
    });
    expect(expectAnswer(await command(taskId, 'claim', body, key))).toEqual(claimed);
    await expectRefused(command(taskId, 'claim', { deliveryEventId }, key), taskId, 'idempotency-key-reused');
  });

  test('without a key the claim id is the fresh one that the answer tells', async () => {
    const { taskId, deliveryEventId } = await announced();
    const response = await command(taskId, 'claim', { deliveryEventId });
    const { claimId } = expectAnswer(response);
    expect(claimId).toBe(response.headers['idempotency-key']);
    expectAnswer(await command(taskId, 'result', { success: true, claimId }));
  });

  test('not released, the wrong token, the token again: each its own 409', async () => {
    const early = await waiting();
    await expectRefused(command(early, 'claim', { deliveryEventId: 'evt_x' }), early, 'not-released');
    const { taskId, deliveryEventId } = await announced();
    await holdfast.until(taskId, ({ status }) => status === 'queued');
    await expectRefused(command(taskId, 'claim', { deliveryEventId: `${deliveryEventId}x` }), taskId, 'token-mismatch');
    expectAnswer(await command(taskId, 'claim', { deliveryEventId }));
    await expectRefused(command(taskId, 'claim', { deliveryEventId }), taskId, 'token-consumed');
    await expectRefused(command(taskId, 'claim', { deliveryEventId: 'evt_x' }), taskId, 'token-mismatch');
  });

  test('one token claimed twenty times at once: one is accepted, nineteen are refused for good', async () => {
    const { taskId, deliveryEventId } = await announced();
    const keys = Array.from({ length: 20 }, () => randomUUID());
    const claim = async (key: string): Promise<request.Response> => command(taskId, 'claim', { deliveryEventId }, key);
    const responses = await Promise.all(keys.map(claim));
    const won = responses.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    for (const response of responses) if (response.status !== 200) expectProblem(response, 'token-consumed');
    const again = await Promise.all(keys.map(claim));
    expect(again.map(({ status }) => status)).toEqual(responses.map(({ status }) => status));
  });

  test.each([
    ['deliveryEventId', {}],
    ['deliveryEventId', { deliveryEventId: '' }],
    ['deliveryEventId', { deliveryEventId: 'e'.repeat(129) }],
    ['deliveryEventId', { deliveryEventId: 1 }],
    ['executorId', { deliveryEventId: 'e', executorId: '' }],
    ['executorId', { deliveryEventId: 'e', executorId: 'x'.repeat(129) }],
  ])('a bad %s: 400 and no signal: %j', async (field, body) => {
    const taskId = await waiting();
    expectProblem(await command(taskId, 'claim', body), 'invalid-request', field);
    expect(await signalsOf(holdfast, taskId)).toEqual([]);
  });

  test('the claim id is in the answer to the claim and nowhere else', async () => {
    const taskId = holdfast.freshId();
    const schedule = (): request.Test => request(server.url).post('/v1/tasks').send({ taskId, type: 'test' });
    expect((await schedule()).status).toBe(201);
    const deliveryEventId = (await holdfast.inbox.next(taskId)).id;
    const claimId = `secret-${randomUUID()}`;
    const claimed = await command(taskId, 'claim', { deliveryEventId }, claimId);
    expect(claimed.text).toContain(claimId);
    const url = `/v1/tasks/${taskId}`;
    const others = [
      await schedule(),
      await request(server.url).get(url),
      await request(server.url).get(`${url}/stop`),
      await command(taskId, 'messages'),
      await request(server.url).get(`${url}/messages`),
      await command(taskId, 'claim', { deliveryEventId }),
      await command(taskId, 'result', { success: true, claimId: 'a-guess' }),
      await command(taskId, 'result', { success: true, claimId }),
      await request(server.url).get(url),
      await schedule(),
      await command(taskId, 'cancel'),
      await command(taskId, 'result', { success: true, claimId }),
    ];
    expect(others.map(({ status }) => status)).toEqual([200, 200, 200, 201, 200, 409, 409, 200, 200, 200, 409, 409]);
    for (const { text, headers } of others) {
      expect(text).not.toContain(claimId);
      expect(JSON.stringify(headers)).not.toContain(claimId);
      expect(text).not.toContain('claimId');
    }
    // The executor that won may ask again, after the end too.
    expect((await command(taskId, 'claim', { deliveryEventId }, claimId)).text).toContain(claimId);
  });

  test('a claim that comes too late is refused, and decided afresh when it is repeated', async () => {
    const { taskId, deliveryEventId } = await announced();
    await holdfast.until(taskId, ({ status }) => status === 'queued');
    const log = pino({ level: 'silent' });
    const behind = new Scheduler({
      gateway: holdfast.gateway,
      clock: new ServerClock(() => Date.now() - 3_600_000, log),
      log,
      policy: holdfast.policy,
      runTimeoutSeconds: 3600,
      runTimeoutSecondsMax: 3600,
    });
    const late = await serve(createApp({ scheduler: behind, log, keyRing: null }));
    try {
      const key = randomUUID();
      const claim = (url: string): request.Test =>
        request(url).post(`/v1/tasks/${taskId}/claim`).set('Idempotency-Key', key).send({ deliveryEventId });
      await expectRefused(claim(late.url), taskId, 'claim-expired');
      expectAnswer(await claim(server.url));
    } finally {
      await late.close();
    }
  });
});

describe('cancel', () => {
  test('200: canceled with its reason, and again 200 under any key', async () => {
    const taskId = await waiting();
    const key = randomUUID();
    const canceled = expectAnswer(await command(taskId, 'cancel', { reason: 'no need' }, key));
    expect(canceled).toMatchObject({
      status: 'canceled',
      cancellation: { reason: 'no need', by: 'command' },
      nextAlarmAt: null,
    });
    expect(expectAnswer(await command(taskId, 'cancel', { reason: 'no need' }, key))).toEqual(canceled);
    expect(expectAnswer(await command(taskId, 'cancel', { reason: 'another' }))).toEqual(canceled);
    expectProblem(await command(taskId, 'cancel', { reason: 'another' }, key), 'idempotency-key-reused');
    expect(await read(taskId)).toEqual(canceled);
  });

  test('without any body, and while it runs', async () => {
    const { taskId } = await running();
    const response = await request(server.url).post(`/v1/tasks/${taskId}/cancel`);
    expect(expectAnswer(response)).toMatchObject({ status: 'canceled', cancellation: { reason: null } });
  });

  test('a reason of 1,024 bytes is kept, one byte more is 413 and no signal', async () => {
    const taskId = await waiting();
    const reason = `${'\u0007'.repeat(170)}xx`;
    expect(jsonBytes(reason)).toBe(LIMITS.reasonBytesMax);
    expectProblem(await command(taskId, 'cancel', { reason: `${reason}x` }), 'payload-too-large', 'reason');
    expectProblem(await command(taskId, 'cancel', { reason: 1 }), 'invalid-request', 'reason');
    expect(await signalsOf(holdfast, taskId)).toEqual([]);
    expect(expectAnswer(await command(taskId, 'cancel', { reason })).cancellation?.reason).toBe(reason);
  });
});

describe('result', () => {
  test('200: the whole result recorded; asked again under its key, the same', async () => {
    const { taskId, claimId } = await running();
    const body = {
      success: true,
      summary: 'done',
      output: { answer: 42, constructor: 'x' },
      effects: [
        { kind: 'commit', ref: 'abc' },
        { kind: 'doc', ref: 'd', note: 'n' },
      ],
      claimId,
    };
    const key = randomUUID();
    const ended = expectAnswer(await command(taskId, 'result', body, key));
    const { success, summary, output, effects } = body;
    expect(ended).toMatchObject({ status: 'succeeded', nextAlarmAt: null, timeoutAt: null });
    expect(JSON.stringify(ended.result)).toBe(JSON.stringify({ success, summary, output, effects, error: null }));
    expect(expectAnswer(await command(taskId, 'result', body, key))).toEqual(ended);
    expectProblem(await command(taskId, 'result', { ...body, success: false }, key), 'idempotency-key-reused');
    expect(await read(taskId)).toEqual(ended);
  });

  test('without success it has failed, with its error', async () => {
    const { taskId, claimId } = await running();
    const ended = expectAnswer(await command(taskId, 'result', { success: false, error: { why: 'x' }, claimId }));
    expect(ended).toMatchObject({
      status: 'failed',
      result: { success: false, summary: null, output: null, effects: [], error: { why: 'x' } },
    });
  });

  test("only the running claim's id ends the run: 409 otherwise", async () => {
    const { taskId, claimId } = await running();
    const forged = { success: true, claimId: `${claimId}x` };
    await expectRefused(command(taskId, 'result', forged), taskId, 'claim-mismatch');
    const unclaimed = await waiting();
    await expectRefused(command(unclaimed, 'result', { success: true, claimId }), unclaimed, 'claim-mismatch');
    expectAnswer(await command(taskId, 'result', { success: true, claimId }));
  });

  test('with a message that the executor has not seen: 409, and accepted once it has', async () => {
    const { taskId, claimId } = await running();
    expectAnswer(await command(taskId, 'messages'), 201);
    const unseen = { success: true, claimId, ifMailboxSeq: 0 };
    await expectRefused(command(taskId, 'result', unseen), taskId, 'unread-messages');
    expectAnswer(await command(taskId, 'result', { ...unseen, ifMailboxSeq: 1 }));
  });

  const edge = LIMITS.resultBytesMax - 128;
  const empty = jsonBytes({ success: true, output: '' });
  const withOutput = (bytes: number): object => ({ success: true, output: 'x'.repeat(bytes - empty) });
  const effectOf = (bytes: number): { kind: string; ref: string } => ({
    kind: 'k',
    ref: 'r'.repeat(bytes - jsonBytes({ kind: 'k', ref: '' })),
  });

  test('at the cap, with controls too, it is kept', async () => {
    const [letters, controls] = [await waiting(), await waiting()];
    const body = withOutput(edge);
    expect(expectAnswer(await command(letters, 'result', body)).result).toMatchObject(body);
    const six = {
      success: false,
      error: '\u0001'.repeat(Math.floor((edge - jsonBytes({ success: false, error: '' })) / 6)),
    };
    expect(expectAnswer(await command(controls, 'result', six)).result).toMatchObject(six);
    expect((await read(controls)).result).toMatchObject(six);
  });

  test('64 effects, and one of 2 KiB, are kept', async () => {
    const taskId = await waiting();
    const effects = [effectOf(LIMITS.effectBytesMax), ...Array.from({ length: 63 }, () => ({ kind: 'k', ref: 'r' }))];
    expect(expectAnswer(await command(taskId, 'result', { success: true, effects })).result?.effects).toEqual(effects);
  });

  test('a little more of anything: 413, and no signal', async () => {
    const taskId = await waiting();
    const effects = Array.from({ length: 65 }, () => ({ kind: 'k', ref: 'r' }));
    for (const [body, field] of [
      [withOutput(edge + 1), ''],
      [withOutput(LIMITS.resultBytesMax + 1_000), 'output'],
      [{ success: false, error: '\u0001'.repeat(45_000) }, 'error'],
      [{ success: true, summary: 's'.repeat(edge) }, ''],
      [{ success: true, effects }, 'effects'],
      [{ success: true, effects: [effectOf(LIMITS.effectBytesMax + 1)] }, 'effects.0'],
      [{ success: true, effects: [{ kind: 'k', ref: 'r', note: '\u0001'.repeat(400) }] }, 'effects.0'],
    ] as const) {
      expectProblem(await command(taskId, 'result', body), 'payload-too-large', field);
    }
    expect(await signalsOf(holdfast, taskId)).toEqual([]);
  });

  test.each([
    ['success', {}],
    ['success', { success: 'true' }],
    ['summary', { success: true, summary: 1 }],
    ['effects', { success: true, effects: {} }],
    ['effects.0.kind', { success: true, effects: [{ ref: 'r' }] }],
    ['effects.0.kind', { success: true, effects: [{ kind: '', ref: 'r' }] }],
    ['unknown: url', { success: true, effects: [{ kind: 'k', ref: 'r', url: 'x' }] }],
    ['claimId', { success: true, claimId: 'a b' }],
    ['claimId', { success: true, claimId: null }],
    ['ifMailboxSeq', { success: true, ifMailboxSeq: -1 }],
    ['ifMailboxSeq', { success: true, ifMailboxSeq: 0.5 }],
  ])('a bad %s: 400 and no signal: %j', async (field, body) => {
    const taskId = await waiting();
    expectProblem(await command(taskId, 'result', body), 'invalid-request', field);
    expect(await signalsOf(holdfast, taskId)).toEqual([]);
  });
});

describe('messages', () => {
  const pageOf = async (taskId: string, query = ''): Promise<{ messages: Message[]; lastSeq: number }> => {
    const response = await request(server.url).get(`/v1/tasks/${taskId}/messages${query}`);
    expect(response.status).toBe(200);
    expectOurs(response);
    return response.body as { messages: Message[]; lastSeq: number };
  };
  const seqsOf = async (taskId: string, query: string): Promise<number[]> =>
    (await pageOf(taskId, query)).messages.map(({ seq }) => seq);

  test('201 and its number; asked again under its key, the same, marked, and kept once', async () => {
    const taskId = await waiting();
    const key = randomUUID();
    const first = await command(taskId, 'messages', { body: { text: 'hello' } }, key);
    expectAnswer(first, 201);
    expect(first.headers).not.toHaveProperty('idempotent-replayed');
    expect(first.body).toEqual({ messageId: expect.stringMatching(/^msg_/) as string, seq: 1 });
    const again = await command(taskId, 'messages', { body: { text: 'hello' } }, key);
    expectAnswer(again, 201);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(again.body).toEqual(first.body);
    await expectRefused(command(taskId, 'messages', { body: 'other' }, key), taskId, 'idempotency-key-reused');
    const { messages, lastSeq } = await pageOf(taskId);
    expect(lastSeq).toBe(1);
    expect(messages).toEqual([
      { ...(first.body as object), at: expect.stringMatching(/Z$/) as string, body: { text: 'hello' } },
    ]);
  });

  test('any JSON is a body, null and prototype words too; none is 400', async () => {
    const taskId = await waiting();
    const bodies: Json[] = [null, 0, '', false, [], {}, { constructor: 1, toString: 2 }, '\ud800'];
    for (const body of bodies) expectAnswer(await command(taskId, 'messages', { body }), 201);
    const { messages } = await pageOf(taskId);
    expect(JSON.stringify(messages.map(({ body }) => body))).toBe(JSON.stringify(bodies));
    expectProblem(await command(taskId, 'messages', {}), 'invalid-request', 'body');
    expectProblem(await request(server.url).post(`/v1/tasks/${taskId}/messages`), 'invalid-request', 'body');
    expect((await pageOf(taskId)).lastSeq).toBe(bodies.length);
  });

  test('of 32 KiB it is kept, one byte more is 413 and no signal', async () => {
    const taskId = await waiting();
    const body = '\u0001'.repeat(5461);
    expect(jsonBytes(body)).toBe(LIMITS.messageBytesMax);
    expectProblem(await command(taskId, 'messages', { body: `${body}x` }), 'payload-too-large', 'body');
    expect(await signalsOf(holdfast, taskId)).toEqual([]);
    expectAnswer(await command(taskId, 'messages', { body }), 201);
    expect((await pageOf(taskId)).messages[0]?.body).toBe(body);
  });

  test('pages: after and limit, in order, to the end', async () => {
    const taskId = await waiting();
    for (let seq = 1; seq <= 5; seq += 1) expectAnswer(await command(taskId, 'messages', { body: seq }), 201);
    expect(await seqsOf(taskId, '')).toEqual([1, 2, 3, 4, 5]);
    expect(await seqsOf(taskId, '?limit=2')).toEqual([1, 2]);
    expect(await seqsOf(taskId, '?after=2&limit=2')).toEqual([3, 4]);
    expect(await seqsOf(taskId, '?after=4&limit=100')).toEqual([5]);
    expect(await seqsOf(taskId, '?after=5')).toEqual([]);
    expect(await seqsOf(taskId, '?after=999999999999999')).toEqual([]);
    expect((await pageOf(taskId, '?after=5')).lastSeq).toBe(5);
    expectAnswer(await command(taskId, 'cancel'));
    await holdfast.client.workflow.getHandle(holdfast.workflowId(taskId)).result();
    expect(await seqsOf(taskId, '?after=2&limit=2')).toEqual([3, 4]);
  });

  test.each([
    'after=-1',
    'after=',
    'after=x',
    'after=1.5',
    'after=1e3',
    'after=0x10',
    'after=%201',
    'after=9007199254740992',
    'after=12345678901234567',
    'after=1&after=2',
    'after[]=1',
    'limit=0',
    'limit=00',
    'limit=101',
    'limit=-1',
    'limit=',
    'limit=NaN',
    'before=1',
    'limit=1&__proto__=1',
    'constructor=1',
  ])('?%s: 400', async (query) => {
    const taskId = holdfast.freshId();
    expectProblem(await request(server.url).get(`/v1/tasks/${taskId}/messages?${query}`), 'invalid-request');
    expectProblem(await request(server.url).get(`/v1/tasks/${taskId}/messages`), 'task-not-found');
  });

  test('a mailbox that is full: 429, and all that was taken is readable', async () => {
    const taskId = await waiting();
    const body = 'x'.repeat(LIMITS.messageBytesMax - 2);
    const taken: number[] = [];
    let refused: request.Response | null = null;
    while (refused === null && taken.length <= LIMITS.unreadBytesMax / LIMITS.messageBytesMax) {
      const response = await command(taskId, 'messages', { body });
      if (response.status === 201) taken.push((response.body as { seq: number }).seq);
      else refused = response;
    }
    expect(refused).not.toBeNull();
    if (refused !== null) expectProblem(refused, 'mailbox-full');
    const seen: number[] = [];
    for (let page = await seqsOf(taskId, ''); page.length > 0; page = await seqsOf(taskId, `?after=${seen.at(-1)}`)) {
      seen.push(...page);
    }
    expect(seen).toEqual(taken);
    expect(taken.length).toBeGreaterThan(20);
    // Full for messages alone: the Task still takes its end.
    expectAnswer(await command(taskId, 'result', { success: true }));
  });
});

describe('stop', () => {
  const stop = async (taskId: string): Promise<unknown> => {
    const response = await request(server.url).get(`/v1/tasks/${taskId}/stop`);
    expect(response.status).toBe(200);
    expectOurs(response);
    return response.body;
  };

  test('active: go on; ended or missing: stop', async () => {
    const taskId = await waiting();
    expect(await stop(taskId)).toEqual({ shouldStop: false, reason: 'active' });
    expectAnswer(await command(taskId, 'cancel'));
    expect(await stop(taskId)).toEqual({ shouldStop: true, reason: 'task_terminal', taskId, status: 'canceled' });
    const missing = holdfast.freshId();
    expect(await stop(missing)).toEqual({ shouldStop: true, reason: 'task_missing', taskId: missing, status: null });
  });

  test('an ancestor that has ended stops its line, success too; the ancestor is named', async () => {
    const root = await waiting();
    const [child, leaf] = [holdfast.freshId('child'), holdfast.freshId('leaf')];
    for (const [taskId, parentTaskId] of [
      [child, root],
      [leaf, child],
    ]) {
      const body = { taskId, parentTaskId, type: 'test', ...NOT_DUE };
      expect((await request(server.url).post('/v1/tasks').send(body)).status).toBe(201);
    }
    expect(await stop(leaf)).toEqual({ shouldStop: false, reason: 'active' });
    expectAnswer(await command(root, 'result', { success: true }));
    for (const taskId of [child, leaf]) {
      expect(await stop(taskId)).toEqual({
        shouldStop: true,
        reason: 'ancestor_terminal',
        taskId: root,
        status: 'succeeded',
      });
    }
  });
});

test('with no worker: 503 that says repeat, what is known of the Task, and the same verdict once one is there', async () => {
  const idle = await startHarness({ workers: false });
  const front = await serve(idle.app);
  try {
    const taskId = idle.freshId();
    expect(
      (
        await request(front.url)
          .post('/v1/tasks')
          .send({ taskId, type: 'test', ...NOT_DUE })
      ).status,
    ).toBe(201);
    const cancel = (): request.Test =>
      request(front.url).post(`/v1/tasks/${taskId}/cancel`).set('Idempotency-Key', 'c1').send({ reason: 'r' });
    const [canceled, task, check] = await Promise.all([
      cancel(),
      request(front.url).get(`/v1/tasks/${taskId}`),
      request(front.url).get(`/v1/tasks/${taskId}/stop`),
    ]);
    expectProblem(canceled, 'verdict-unavailable');
    expect(canceled.headers['retry-after']).toBe('1');
    expect(canceled.headers['idempotency-key']).toBe('c1');
    expect(task.status).toBe(200);
    expectOurs(task);
    expect(task.body).toMatchObject({ asOf: 'described', taskId, status: 'scheduled', delivery: { state: 'none' } });
    expect(check.body).toEqual({ shouldStop: false, reason: 'check_failed' });
    await idle.startWorkers();
    const repeated = await cancel();
    expect(repeated.status).toBe(200);
    expect(repeated.body).toMatchObject({ status: 'canceled', cancellation: { reason: 'r' } });
    expect(await signalsOf(idle, taskId)).toEqual(['cancel']);
  } finally {
    await front.close();
    await idle.close();
  }
});
