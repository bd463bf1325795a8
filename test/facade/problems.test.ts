/** Errors as problem documents: one status, title and code for each, and nothing of what went wrong inside. */
import express, { type Express } from 'express';
import { pino, type BaseLogger } from 'pino';
import request from 'supertest';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { REFUSAL_CODES } from '../../src/contracts/commands.ts';
import { ERROR_TITLE, HoldfastError, HTTP_STATUS, type ErrorCode } from '../../src/contracts/errors.ts';
import { createApp } from '../../src/facade/app.ts';
import { problemHandler } from '../../src/facade/problem.ts';
import type { Scheduler } from '../../src/scheduler/scheduler.ts';

const CODES = Object.keys(HTTP_STATUS) as ErrorCode[];
const SECRET = 'sk_live_4242';

interface Logged {
  level: 'warn' | 'error';
  object: unknown;
}

/** An app whose one route fails with what is given, and what it logged. */
function failing(fail: () => unknown): { app: Express; logged: Logged[] } {
  const logged: Logged[] = [];
  const log = {
    error: (object: unknown) => logged.push({ level: 'error', object }),
    warn: (object: unknown) => logged.push({ level: 'warn', object }),
  } as unknown as BaseLogger;
  const app = express();
  app.disable('x-powered-by');
  app.get('/', async () => {
    throw await fail();
  });
  app.use(problemHandler(log));
  return { app, logged };
}

test('every code has a title of its own and a status that is an error', () => {
  expect(Object.keys(ERROR_TITLE).toSorted()).toEqual(CODES.toSorted());
  expect(new Set(Object.values(ERROR_TITLE)).size).toBe(CODES.length);
  for (const code of CODES) {
    expect(ERROR_TITLE[code].trim()).not.toBe('');
    expect(HTTP_STATUS[code]).toBeGreaterThanOrEqual(400);
    expect(HTTP_STATUS[code]).toBeLessThan(600);
  }
  for (const code of REFUSAL_CODES) expect([409, 429]).toContain(HTTP_STATUS[code]);
});

test.each(CODES)('%s is answered by its table', async (code) => {
  const { app, logged } = failing(() => new HoldfastError(code, undefined, { cause: new Error(SECRET) }));
  const response = await request(app).get('/');
  const status = HTTP_STATUS[code];
  expect(response.status).toBe(status);
  expect(response.headers['content-type']).toMatch(/^application\/problem\+json/);
  expect(response.body).toEqual({ type: `urn:holdfast:problem:${code}`, title: ERROR_TITLE[code], status, code });
  expect(response.headers['retry-after']).toBe(status === 503 ? '1' : undefined);
  expect(logged.map(({ level }) => level)).toEqual(code === 'internal' ? ['error'] : status === 503 ? ['warn'] : []);
});

test('a detail and extra fields come with it; what caused it does not', async () => {
  const extra = { task: { taskId: 't1' } };
  const error = new HoldfastError('task-terminal', 'a detail', { extra, cause: new Error(SECRET) });
  const response = await request(failing(() => error).app).get('/');
  expect(response.body).toMatchObject({ code: 'task-terminal', detail: 'a detail', ...extra });
  expect(response.text).not.toContain(SECRET);
});

describe('what nobody foresaw', () => {
  test.each([
    ['an error', () => new TypeError(`cannot read ${SECRET}`)],
    ['an error with the status of a server', () => Object.assign(new Error(SECRET), { status: 502 })],
    ['an error with a status that is none', () => Object.assign(new Error(SECRET), { status: 'teapot' })],
    ['a text', () => SECRET],
    ['an object', () => ({ message: SECRET, code: 'task-terminal', status: 409 })],
  ])('%s: 500 without its message, which is recorded', async (_name, fail) => {
    const { app, logged } = failing(fail);
    const response = await request(app).get('/');
    expect(response.status).toBe(500);
    expect(response.body).toEqual({
      type: 'urn:holdfast:problem:internal',
      title: ERROR_TITLE.internal,
      status: 500,
      code: 'internal',
    });
    expect(logged).toHaveLength(1);
    expect(logged[0]?.level).toBe('error');
    const { err } = (logged[0]?.object ?? {}) as { err?: unknown };
    expect(err instanceof Error ? err.message : JSON.stringify(err)).toContain(SECRET);
  });

  test("an error of Express's own keeps its meaning, without its words", async () => {
    const { app, logged } = failing(() => Object.assign(new Error(SECRET), { status: 413 }));
    const response = await request(app).get('/');
    expect(response.status).toBe(413);
    expect(response.text).not.toContain(SECRET);
    expect(logged).toEqual([]);
  });

  test('through the whole app: the key is still there, the message is not', async () => {
    const scheduler = {
      schedule: () => Promise.reject(new RangeError(SECRET)),
    } as unknown as Scheduler;
    const app = createApp({ scheduler, keyRing: null, log: pino({ level: 'silent' }) });
    const response = await request(app).post('/v1/tasks').set('Idempotency-Key', 'k1').send({ type: 'test' });
    expect(response.status).toBe(500);
    expect(response.body).toMatchObject({ code: 'internal' });
    expect(response.headers['idempotency-key']).toBe('k1');
    expect(response.text).not.toContain(SECRET);
    expect(response.text).not.toContain('RangeError');
  });

  test('after the head of an answer is out, the connection ends instead of a second answer', async () => {
    const { app } = failing(() => new Error('unused'));
    const late = express();
    late.get('/', async (_request, response) => {
      response.write('{"half":');
      throw await Promise.resolve(new Error(SECRET));
    });
    late.use(problemHandler({ error: () => undefined, warn: () => undefined } as unknown as BaseLogger));
    await expect(request(late).get('/')).rejects.toThrow(/aborted|hang up|ECONNRESET/);
    // Its twin: with nothing sent, the answer is a document.
    expect((await request(app).get('/')).body).toMatchObject({ code: 'internal' });
  });
});

describe('what a schema refused', () => {
  const refusedBy = (schema: z.ZodType, value: unknown): Promise<request.Response> =>
    request(failing(() => schema.safeParse(value).error).app)
      .get('/')
      .then((response) => response);

  test('names the fields, never the values', async () => {
    const schema = z.strictObject({ a: z.strictObject({ b: z.int() }) });
    const response = await refusedBy(schema, { a: { b: SECRET } });
    expect(response.body).toMatchObject({ code: 'invalid-request', errors: [{ field: 'a.b' }] });
    expect(response.text).not.toContain(SECRET);
  });

  test('of many faults it tells 20, and of a long name its beginning', async () => {
    const response = await refusedBy(
      z.array(z.int()),
      Array.from({ length: 500 }, () => 'x'),
    );
    expect((response.body as { errors: unknown[] }).errors).toHaveLength(20);
    const long = await refusedBy(z.strictObject({}), { ['n'.repeat(10_000)]: 1 });
    expect(long.text.length).toBeLessThan(1_000);
  });
});
