/** The OpenAPI document tells of the API that is served: of each route, answer and error, and of nothing else. */
import { randomUUID } from 'node:crypto';
import type { Express } from 'express';
import { pino } from 'pino';
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import type { z } from 'zod';
import type * as answers from '../../src/contracts/api-answers.ts';
import { CLAIMS } from '../../src/contracts/claims.ts';
import { HoldfastError, HTTP_STATUS, type ErrorCode } from '../../src/contracts/errors.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import { SCOPES, type Scope } from '../../src/contracts/scopes.ts';
import type { Message, TaskView } from '../../src/contracts/task.ts';
import type { MessagesAnswer } from '../../src/contracts/workflow.ts';
import type { KeyRing } from '../../src/credentials/key-ring.ts';
import { createApp } from '../../src/facade/app.ts';
import type { Listening } from '../../src/facade/listen.ts';
import { openApiDocument, ROUTE_ERRORS, ROUTE_SCOPES, ROUTES, type RouteName } from '../../src/facade/openapi.ts';
import type { LayeredClaim } from '../../src/scheduler/claims.ts';
import type { TaskSummary } from '../../src/scheduler/listing.ts';
import type { DescribedTask, Scheduler } from '../../src/scheduler/scheduler.ts';
import type { StopCheck } from '../../src/scheduler/stop-check.ts';
import { viewOf } from '../../workflows/task/view.ts';
import { aRecord } from '../support/builders.ts';
import { startHarness, type Harness } from '../support/harness.ts';
import { expectDocumented, structuralFaults, undocumented, type AnswerOverHttp } from '../support/openapi-check.ts';
import { expectProblem, sendExactly, serve } from './support.ts';

const NAMES = Object.keys(ROUTES) as RouteName[];
const CODES = Object.keys(HTTP_STATUS) as ErrorCode[];
const log = pino({ level: 'silent' });
const errorsOf = (name: RouteName): readonly ErrorCode[] => ROUTE_ERRORS[name];
const scopesOf = (name: RouteName): readonly Scope[] | null => ROUTE_SCOPES[name];

/** A request of each route that it takes. */
const BODIES: Partial<Record<RouteName, object>> = {
  scheduleTask: { type: 'test', delaySeconds: 3600 },
  claimTask: { deliveryEventId: 'evt_x' },
  recordResult: { success: true },
  cancelTask: {},
  redeliverTask: {},
  sendMessage: { body: 'hello' },
  markMessagesRead: { upTo: 0 },
};

function pathOf(name: RouteName, taskId = 't1'): string {
  return ROUTES[name].path.replace('{taskId}', taskId).replace('{asset}', 'swagger-ui.css');
}

function send(target: Express | string, name: RouteName, { taskId = 't1', body = BODIES[name] } = {}): request.Test {
  const sent = request(target)[ROUTES[name].method](pathOf(name, taskId));
  return body === undefined ? sent : sent.send(body);
}

/** An app whose scheduler fails at everything with this code. */
function failingWith(code: ErrorCode): Express {
  const extra = code === 'task-terminal' ? { task: viewOf(aRecord('running')) } : {};
  const fail = (): Promise<never> => Promise.reject(new HoldfastError(code, undefined, { extra }));
  return createApp({ scheduler: new Proxy({}, { get: () => fail }) as Scheduler, log, keyRing: null });
}

/** An app with keys, all of them with these scopes. */
function withScopes(...scopes: Scope[]): Express {
  const caller = { customerId: 'acme', scopes: new Set(scopes), keyId: 'k1' };
  const fail = (): Promise<never> => Promise.reject(new HoldfastError('internal'));
  return createApp({
    scheduler: new Proxy({}, { get: () => fail }) as Scheduler,
    log,
    keyRing: { authenticate: (key: string) => Promise.resolve(key === '' ? null : caller) } as unknown as KeyRing,
  });
}

describe('the document', () => {
  test('is OpenAPI 3.1, and its checker finds what is not', () => {
    const document = openApiDocument();
    expect(structuralFaults(document)).toEqual([]);
    const broken = (change: (copy: typeof document) => void): string[] => {
      const copy = structuredClone(document);
      change(copy);
      return structuralFaults(copy);
    };
    const live = (copy: typeof document): Record<string, unknown> =>
      copy.paths?.['/livez']?.get as unknown as Record<string, unknown>;
    expect(broken((copy) => Object.assign(live(copy), { colour: 'red' }))).not.toEqual([]);
    expect(broken((copy) => Object.assign(live(copy), { operationId: 'isReady' }))).not.toEqual([]);
    expect(broken((copy) => Reflect.deleteProperty(live(copy), 'responses'))).not.toEqual([]);
    expect(broken((copy) => Reflect.deleteProperty(copy.components?.schemas ?? {}, 'Task'))).not.toEqual([]);
    expect(broken((copy) => Object.assign(copy.components?.schemas?.['Task'] ?? {}, { type: 'thing' }))).not.toEqual(
      [],
    );
    expect(broken((copy) => Object.assign(copy.components?.schemas?.['Task'] ?? {}, { typo: 1 }))).not.toEqual([]);
  });

  test('is what is served, as every JSON of the facade', async () => {
    const response = await request(failingWith('internal')).get('/openapi.json');
    expectDocumented('GET', '/openapi.json', response);
    expect(response.body).toEqual(JSON.parse(JSON.stringify(openApiDocument())));
    expect(response.headers['cache-control']).toBe('no-store');
  });

  test('tells of every route that is mounted, and of no other', () => {
    const documented = NAMES.map((name) => `${ROUTES[name].method} ${ROUTES[name].path}`).toSorted();
    expect(mountedRoutes(failingWith('internal'))).toEqual(documented);
    const inDocument = Object.entries(openApiDocument().paths ?? {}).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method} ${path}`),
    );
    expect(inDocument.toSorted()).toEqual(documented);
    // Its twin: a route more is seen.
    const more = failingWith('internal');
    more.get('/more/:id', (_request, response) => void response.end());
    expect(mountedRoutes(more)).toContain('get /more/{id}');
  });

  test('tells of every code, at the routes that it can come from', () => {
    expect(CODES.filter((code) => !NAMES.some((name) => errorsOf(name).includes(code)))).toEqual([]);
    for (const name of NAMES) expect(new Set(errorsOf(name)).size).toBe(errorsOf(name).length);
  });

  test('answers leave no room for fields that it does not tell of', () => {
    const open: string[] = [];
    for (const [name, schema] of Object.entries(openApiDocument().components?.schemas ?? {})) {
      const walk = (value: unknown, at: string): void => {
        if (typeof value !== 'object' || value === null) return;
        if ('properties' in value && (value as { additionalProperties?: unknown }).additionalProperties !== false) {
          open.push(at);
        }
        for (const [key, part] of Object.entries(value)) walk(part, `${at}/${key}`);
      };
      walk(schema, name);
    }
    expect(open).toEqual([]);
  });
});

interface Layer {
  route?: { path: string; methods: Record<string, boolean> };
  handle: { stack?: Layer[] };
}

/** What Express itself knows of, in the document's words. */
function mountedRoutes(app: Express): string[] {
  const found: string[] = [];
  const walk = (layers: readonly Layer[]): void => {
    for (const { route, handle } of layers) {
      if (handle.stack !== undefined && route === undefined) walk(handle.stack);
      if (route === undefined) continue;
      const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
      for (const method of Object.keys(route.methods)) if (method !== '_all') found.push(`${method} ${path}`);
    }
  };
  walk((app.router as unknown as { stack: Layer[] }).stack);
  return found.toSorted();
}

type Answer<Name extends keyof typeof answers> = (typeof answers)[Name] extends z.ZodType
  ? z.output<(typeof answers)[Name]>
  : never;
/** Intersections and unions of the same fields count as the same. */
type Plain<T> = { [Key in keyof T]: T[Key] };

test('the schemas of answers and the types that the scheduler answers with are the same', () => {
  expectTypeOf<Answer<'taskAnswer'>>().toEqualTypeOf<TaskView>();
  expectTypeOf<Answer<'claimedTaskAnswer'>>().toEqualTypeOf<Plain<TaskView & { claimId: string }>>();
  expectTypeOf<Answer<'taskSummaryAnswer'>>().toEqualTypeOf<TaskSummary>();
  expectTypeOf<Answer<'describedTaskAnswer'>>().toEqualTypeOf<Plain<DescribedTask>>();
  expectTypeOf<Answer<'taskPageAnswer'>>().toEqualTypeOf<{ tasks: TaskSummary[]; nextPageToken: string | null }>();
  expectTypeOf<Answer<'mailboxAnswer'>>().toEqualTypeOf<TaskView['mailbox']>();
  expectTypeOf<Answer<'messageSentAnswer'>>().toEqualTypeOf<Pick<Message, 'messageId' | 'seq'>>();
  expectTypeOf<Answer<'messagesAnswer'>>().toEqualTypeOf<MessagesAnswer>();
  expectTypeOf<Answer<'stopCheckAnswer'>>().branded.toEqualTypeOf<StopCheck>();

  // The type of what is proven is open; the document names every field that may come.
  type Documented = Answer<'evidenceAnswer'>['claims'][number];
  type Level<Claim, Name> = Claim extends { level: Name } ? Plain<Claim> : never;
  expectTypeOf<Documented>().toExtend<LayeredClaim>();
  expectTypeOf<Level<Documented, 'reported'>>().toEqualTypeOf<Level<LayeredClaim, 'reported'>>();
  expectTypeOf<Level<Documented, 'not-claimed'>>().toEqualTypeOf<Level<LayeredClaim, 'not-claimed'>>();
  expectTypeOf<Omit<Level<Documented, 'proven'>, 'evidence'>>().toEqualTypeOf<
    Omit<Level<LayeredClaim, 'proven'>, 'evidence'>
  >();
});

describe('errors', () => {
  const failing = failingWith('internal');
  let listening: Listening;
  beforeAll(async () => {
    listening = await serve(failing);
  });
  afterAll(async () => {
    await listening.close();
  });

  // Those that come with a header of their own are provoked below.
  test.each(CODES.filter((code) => code !== 'unauthenticated' && code !== 'method-not-allowed'))(
    '%s from the scheduler is documented for the routes of its table, and for no other',
    async (code) => {
      const app = failingWith(code);
      for (const name of NAMES) {
        const response = await send(app, name);
        if (response.status < 400) continue;
        expectProblem(response, code);
        const isDocumented = undocumented(ROUTES[name].method, pathOf(name), response).length === 0;
        expect({ name, isDocumented }).toEqual({ name, isDocumented: errorsOf(name).includes(code) });
      }
    },
  );

  /** How to have every route refuse before the scheduler is asked. */
  const PROVOKED: Partial<Record<ErrorCode, (name: RouteName) => PromiseLike<AnswerOverHttp>>> = {
    'method-not-allowed': (name) => request(failing).delete(pathOf(name)),
    'not-acceptable': (name) => send(failing, name).set('Accept', 'audio/ogg'),
    'invalid-request': (name) => {
      const path = `${ROUTES[name].path.replaceAll(/\{\w+\}/g, '%ZZ')}?colour=red`;
      const sent = ROUTES[name].method === 'get' ? request(failing).get(path) : request(failing).post(path);
      return sent.set('Idempotency-Key', 'not one');
    },
    'unsupported-media-type': (name) =>
      request(failing)[ROUTES[name].method](pathOf(name)).type('text/plain').send('x'),
    unauthenticated: (name) => send(withScopes(), name),
    'payload-too-large': (name) => {
      // Announced, not sent: who refuses it does not read it.
      const headers = { 'Content-Type': 'application/json', 'Content-Length': LIMITS.requestBytesMax + 1 };
      return sendExactly(listening.url, { method: ROUTES[name].method.toUpperCase(), path: pathOf(name), headers });
    },
    // Of Node itself, before there is a request.
    'headers-too-large': (name) => {
      const headers = { Padding: 'x'.repeat(20 * 1024) };
      return sendExactly(listening.url, { method: ROUTES[name].method.toUpperCase(), path: pathOf(name), headers });
    },
  };

  test.each(Object.entries(PROVOKED))('%s where its table has it, and nowhere else', async (code, provoke) => {
    for (const name of NAMES) {
      const answer = await provoke(name);
      expectDocumented(code === 'method-not-allowed' ? 'DELETE' : ROUTES[name].method, pathOf(name), answer);
      const isRefused = answer.text?.includes(`"code":"${code}"`) === true;
      expect({ name, isRefused }).toEqual({ name, isRefused: errorsOf(name).includes(code as ErrorCode) });
    }
  });

  test('invalid-json where a body is read', async () => {
    for (const name of NAMES.filter((each) => ROUTES[each].method === 'post')) {
      const response = await request(failing).post(pathOf(name)).type('json').send('{');
      expectProblem(response, 'invalid-json');
      expectDocumented('POST', pathOf(name), response);
      expect(errorsOf(name)).toContain('invalid-json');
    }
    expect(NAMES.filter((name) => errorsOf(name).includes('invalid-json'))).toHaveLength(7);
  });

  test.each(SCOPES)('a key with the scope %s alone is refused where the table says so', async (scope) => {
    const app = withScopes(scope);
    for (const name of NAMES) {
      // Without a claim id a result takes more than the route itself: it repairs.
      const body = name === 'recordResult' ? { success: true, claimId: 'c1' } : BODIES[name];
      const options = body === undefined ? {} : { body };
      const response = await send(app, name, options).set('Authorization', 'Bearer k');
      expectDocumented(ROUTES[name].method, pathOf(name), response);
      const scopes = scopesOf(name);
      const isRefused = scopes !== null && scopes.length > 0 && !scopes.includes(scope);
      expect({ name, isRefused: response.status === 403 }).toEqual({ name, isRefused });
      expect(errorsOf(name).includes('forbidden')).toBe(scopes !== null && scopes.length > 0);
    }
  });

  test('a result without a claim id takes the scope operate', async () => {
    const response = await send(withScopes('execute'), 'recordResult').set('Authorization', 'Bearer k');
    expectProblem(response, 'forbidden');
    expectDocumented('POST', pathOf('recordResult'), response);
  });
});

describe('a walk through every route', () => {
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

  test('every answer is documented, and every success that is documented is seen', async () => {
    const seen = new Set<string>();
    /** The answer, which must have this status and be documented. */
    const visit = async (
      name: RouteName,
      expected: number | ErrorCode,
      { taskId = 't1', body, key, headers = {}, query = '' }: VisitOptions = {},
    ): Promise<request.Response> => {
      const path = `${pathOf(name, taskId)}${query}`;
      const sent = request(server.url)[ROUTES[name].method](path).set(headers);
      if (key !== undefined) sent.set('Idempotency-Key', key);
      const sending = body ?? BODIES[name];
      const response = await (sending === undefined ? sent : sent.send(sending));
      expectDocumented(ROUTES[name].method, path, response);
      const { code } = (response.body ?? {}) as { code?: string };
      const given = typeof expected === 'string' ? code : response.status;
      expect({ name, given }).toEqual({ name, given: expected });
      seen.add(`${name} ${expected}`);
      return response;
    };
    const schedule = async (body: object = {}): Promise<string> => {
      const taskId = holdfast.freshId();
      await visit('scheduleTask', 201, { body: { taskId, type: 'test', ...body } });
      return taskId;
    };

    await visit('isLive', 200);
    await visit('isReady', 200);
    await visit('getOpenApi', 200);
    await visit('showDocs', 200);
    await visit('getDocsAsset', 200);

    const full = {
      taskId: holdfast.freshId(),
      type: 'test',
      input: { any: ['thing', null] },
      source: { kind: 'chat', ref: 'r', url: 'https://example.org/r' },
      labels: { team: 'a' },
      queue: 'other',
      priority: 1,
      delaySeconds: 3600,
    };
    await visit('scheduleTask', 201, { body: full });
    await visit('scheduleTask', 200, { body: full });
    await visit('scheduleTask', 'idempotency-key-reused', { body: { ...full, type: 'other' } });
    await visit('scheduleTask', 'invalid-request', { body: { type: 'test', status: 'succeeded' } });
    await visit('scheduleTask', 'payload-too-large', {
      body: { type: 'test', input: 'x'.repeat(LIMITS.inputBytesMax) },
    });
    await visit('scheduleTask', 'parent-not-found', { body: { type: 'test', parentTaskId: holdfast.freshId() } });
    await schedule({ parentTaskId: full.taskId, delaySeconds: 3600, continuesTaskId: full.taskId });

    const early = full.taskId;
    await visit('claimTask', 'not-released', { taskId: early });
    await visit('redeliverTask', 'not-released', { taskId: early });
    const { headers } = await visit('getTask', 200, { taskId: early, headers: { Prefer: 'wait=1' } });
    await visit('getTask', 304, { taskId: early, headers: { 'If-None-Match': String(headers['etag']) } });
    await visit('getTask', 304, {
      taskId: early,
      headers: { 'If-None-Match': String(headers['etag']), Prefer: 'wait=1' },
    });

    const key = randomUUID();
    await visit('sendMessage', 201, { taskId: early });
    const [first, again] = [
      await visit('sendMessage', 201, { taskId: early, key }),
      await visit('sendMessage', 201, { taskId: early, key }),
    ];
    expect(again.body).toEqual(first.body);
    expect(again.headers['idempotent-replayed']).toBe('true');
    await visit('sendMessage', 'idempotency-key-reused', { taskId: early, key, body: { body: 'other' } });
    await visit('readMessages', 200, { taskId: early, headers: { Prefer: 'wait=1' }, query: '?after=0&limit=1' });
    await visit('readMessages', 'invalid-request', { taskId: early, query: '?limit=0' });
    await visit('markMessagesRead', 200, { taskId: early, body: { upTo: 1 } });
    await visit('markMessagesRead', 'read-mark-beyond-end', { taskId: early, body: { upTo: 99 } });
    await visit('checkStop', 200, { taskId: early });
    await visit('getEvidence', 200, { taskId: early });

    const taskId = await schedule();
    const deliveryEventId = (await holdfast.inbox.next(taskId)).id;
    await visit('redeliverTask', 202, { taskId });
    await visit('claimTask', 'token-mismatch', { taskId, body: { deliveryEventId: 'evt_x' } });
    const claimId = randomUUID();
    const claim = { taskId, body: { deliveryEventId, executorId: 'walker' } };
    await visit('claimTask', 200, { ...claim, key: claimId });
    await visit('claimTask', 'token-consumed', claim);
    await visit('redeliverTask', 'task-running', { taskId });
    await visit('sendMessage', 201, { taskId });
    await visit('recordResult', 'claim-mismatch', { taskId, body: { success: true, claimId: 'guess' } });
    await visit('recordResult', 'unread-messages', { taskId, body: { success: true, claimId, ifMailboxSeq: 0 } });
    const effects = [{ kind: 'commit', ref: 'abc', note: 'n' }];
    await visit('recordResult', 200, { taskId, body: { success: true, claimId, summary: 's', output: 1, effects } });
    await visit('getTask', 200, { taskId });
    const { body: told } = await visit('getEvidence', 200, { taskId });
    expect((told as { claims: LayeredClaim[] }).claims.map((each) => each.claim)).toEqual(CLAIMS);
    await visit('checkStop', 200, { taskId });
    await visit('cancelTask', 'task-terminal', { taskId });
    await visit('recordResult', 'task-terminal', { taskId });

    const canceled = await schedule({ delaySeconds: 3600 });
    await visit('cancelTask', 200, { taskId: canceled, body: { reason: 'enough' } });
    await visit('scheduleTask', 'parent-terminal', { body: { type: 'test', parentTaskId: canceled } });
    await visit('listTasks', 200, { query: '?status=scheduled,canceled&pageSize=2' });
    await visit('listTasks', 'invalid-request', { query: '?pageSize=0' });

    const missing = holdfast.freshId();
    await visit('checkStop', 200, { taskId: missing });
    for (const name of NAMES.filter((each) => errorsOf(each).includes('task-not-found'))) {
      await visit(name, 'task-not-found', { taskId: missing });
    }

    await holdfast.stopWorkers();
    const described = await visit('getTask', 200, { taskId: early });
    expect(described.body).toMatchObject({ asOf: 'described' });
    await visit('scheduleTask', 200, { body: full });
    await visit('getEvidence', 'worker-unavailable', { taskId: early });
    await visit('checkStop', 200, { taskId: early });

    const successes = NAMES.flatMap((name) => {
      const { path, method } = ROUTES[name];
      const statuses = Object.keys(openApiDocument().paths?.[path]?.[method]?.responses ?? {});
      return statuses.filter((status) => Number(status) < 400).map((status) => `${name} ${status}`);
    });
    expect(successes.filter((each) => !seen.has(each))).toEqual([]);
  });

  test('HEAD is documented as its GET is', async () => {
    const taskId = holdfast.freshId();
    for (const name of NAMES.filter((each) => ROUTES[each].method === 'get' && each !== 'isReady')) {
      expectDocumented('HEAD', pathOf(name, taskId), await request(server.url).head(pathOf(name, taskId)));
    }
  });
});

interface VisitOptions {
  taskId?: string;
  body?: object;
  key?: string;
  headers?: Record<string, string>;
  query?: string;
}

describe('the checker', () => {
  const answer = { status: 200, headers: { 'content-type': 'application/json', 'x-request-id': 'r' } };
  const live = { ...answer, text: '{"status":"live"}' };

  test('takes what is documented, and nothing else', () => {
    expectDocumented('GET', '/livez', live);
    const refused: [string, string, object][] = [
      ['GET', '/nowhere', live],
      ['POST', '/livez', live],
      ['GET', '/livez', { ...live, status: 204 }],
      ['GET', '/livez', { ...live, text: '{"status":"live","more":1}' }],
      ['GET', '/livez', { ...live, text: '{}' }],
      ['GET', '/livez', { ...live, headers: { ...live.headers, 'content-type': 'text/html' } }],
      ['GET', '/livez', { ...live, headers: { 'content-type': 'application/json' } }],
      ['GET', '/livez', { ...live, headers: { ...live.headers, etag: '"x"' } }],
      ['HEAD', '/livez', live],
    ];
    for (const [method, path, other] of refused) {
      expect(() => expectDocumented(method, path, other as typeof live)).toThrow('expected {');
    }
  });

  test('a field more, deep inside of a Task, is seen', () => {
    const task = viewOf(aRecord('running'));
    const headers = { ...answer.headers, etag: '"x"' };
    const check = (body: object): void =>
      expectDocumented('GET', '/v1/tasks/t1', { status: 200, headers, text: JSON.stringify(body) });
    check(task);
    check({ ...task, input: { anything: { goes: 1 } }, labels: { any: 'label' } });
    expect(() => check({ ...task, claimId: 'secret' })).toThrow('expected {');
    expect(() => check({ ...task, delivery: { ...task.delivery, round: 1 } })).toThrow('expected {');
    expect(() => check({ ...task, status: 'waiting' })).toThrow('expected {');
    expect(() => check({ ...task, createdAt: '2026-01-31T09:00:00Z' })).toThrow('expected {');
  });
});

describe('the page', () => {
  const app = failingWith('internal');

  test('loads only what is served here, without inline scripts, under a policy that holds it to that', async () => {
    const page = await request(app).get('/docs').set('Accept', 'text/html');
    expect(page.status).toBe(200);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    const policy = String(page.headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).not.toMatch(/https?:|unsafe-eval|script-src[^;]*unsafe/);
    expect(page.headers['x-content-type-options']).toBe('nosniff');
    expect(page.text).not.toMatch(/<script>|<style|https?:|\son\w+=/);
    const loaded = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
    expect(loaded).toHaveLength(4);
    for (const path of loaded) {
      const asset = await request(app).get(path);
      expect({ path, status: asset.status }).toEqual({ path, status: 200 });
      expectDocumented('GET', path, asset);
      expect(asset.headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
    }
    const started = (await request(app).get('/docs/initializer.js')).text;
    expect(started).toContain("url: '/openapi.json'");
    expect(started).not.toMatch(/https?:/);
    // Elsewhere the policy is the one for everything.
    expect((await request(app).get('/livez')).headers['content-security-policy']).toContain("default-src 'self'");
  });

  test.each([
    'nothing.js',
    'swagger-ui.js',
    'package.json',
    'index.html',
    'swagger-ui-bundle.js.map',
    'Initializer.js',
    '..%2Fpackage.json',
    '%2e%2e%2f%2e%2e%2fpackage.json',
    '..%5Cpackage.json',
    '__proto__',
    'constructor',
    'a/b',
    '%00',
  ])('%s is not one of its assets: 404', async (name) => {
    const listening = await serve(app);
    try {
      expectProblem(await sendExactly(listening.url, { method: 'GET', path: `/docs/${name}` }), 'route-not-found');
    } finally {
      await listening.close();
    }
  });

  test('takes GET and HEAD alone, in its own spelling', async () => {
    for (const path of ['/docs', '/docs/initializer.js', '/openapi.json']) {
      const refused = await request(app).post(path);
      expectProblem(refused, 'method-not-allowed');
      expect(refused.headers['allow']).toBe('GET, HEAD');
      expectDocumented('POST', path, refused);
      const [get, head] = [await request(app).get(path), await request(app).head(path)];
      expect(head.status).toBe(200);
      expect(head.headers['content-type']).toBe(get.headers['content-type']);
      expectProblem(await request(app).get(path.toUpperCase()), 'route-not-found');
    }
  });
});
