/** The facade as HTTP: methods, types, paths, limits, slow clients, and what it says while Temporal is gone. */
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import express from 'express';
import { pino } from 'pino';
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { LIMITS } from '../../src/contracts/limits.ts';
import { createApp } from '../../src/facade/app.ts';
import type { Listening } from '../../src/facade/listen.ts';
import { Gateway, GatewayError } from '../../src/scheduler/gateway.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { ServerClock } from '../../src/scheduler/server-clock.ts';
import { clientOf, connectClient } from '../../src/temporal/connection.ts';
import { startHarness, type Harness } from '../support/harness.ts';
import { startCuttableProxy } from './cuttable-proxy.ts';
import { expectOurs, expectProblem, isStarted, sendExactly, serve, signalsOf } from './support.ts';

let holdfast: Harness;
let server: Listening;
/** A Task that is not due; tests that change Tasks make their own. */
let known: string;
beforeAll(async () => {
  holdfast = await startHarness();
  server = await serve(holdfast.app);
  known = await waiting();
});
afterAll(async () => {
  await server.close();
  await holdfast.close();
});

async function waiting(): Promise<string> {
  const taskId = holdfast.freshId();
  const body = { taskId, type: 'test', delaySeconds: 3600 };
  expect((await request(server.url).post('/v1/tasks').send(body)).status).toBe(201);
  return taskId;
}

const POSTS = [
  '/v1/tasks',
  '/v1/tasks/ID/claim',
  '/v1/tasks/ID/cancel',
  '/v1/tasks/ID/result',
  '/v1/tasks/ID/messages',
  '/v1/tasks/ID/messages/read',
  '/v1/tasks/ID/redeliver',
];
const GETS = [
  '/livez',
  '/readyz',
  '/v1/tasks',
  '/v1/tasks/ID',
  '/v1/tasks/ID/evidence',
  '/v1/tasks/ID/stop',
  '/v1/tasks/ID/messages',
];
const ROUTES = [...new Set([...POSTS, ...GETS])];
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'];

describe('routes', () => {
  test.each(ROUTES)('%s answers a wrong method with 405 and what it takes', async (route) => {
    const path = route.replace('ID', known);
    const { headers } = await sendExactly(server.url, { method: 'DELETE', path });
    const allowed = String(headers.allow).split(', ');
    expect(allowed).toEqual(expect.arrayContaining(POSTS.includes(route) ? ['POST'] : []));
    expect(allowed).toEqual(expect.arrayContaining(GETS.includes(route) ? ['GET', 'HEAD'] : []));
    for (const method of METHODS.filter((each) => allowed.includes(each))) {
      const taken = await sendExactly(server.url, { method, path: route.replace('ID', holdfast.freshId()) });
      expect(taken.status).not.toBe(405);
    }
    for (const method of METHODS.filter((each) => !allowed.includes(each))) {
      const answer = await sendExactly(server.url, { method, path });
      expect(answer.status).toBe(405);
      expect(answer.headers.allow).toBe(allowed.join(', '));
      expectOurs(answer);
      // Node itself keeps the body from an answer to HEAD.
      expect(answer.text.includes('method-not-allowed')).toBe(method !== 'HEAD');
    }
    expect(await signalsOf(holdfast, known)).toEqual([]);
  });

  test.each([
    '/',
    '/v1',
    '/v2/tasks',
    '/v1/task',
    '/V1/tasks',
    '/v1/Tasks',
    '/V1/tasks/ID',
    '/v1/tasks/ID/Claim',
    '/v1/tasks//claim',
    '/v1/tasks/ID/unknown',
    '/v1/tasks/ID/stop/more',
    '/Livez',
    '//v1/tasks',
    '/%761/tasks',
    '/favicon.ico',
    '/.git/config',
    '*',
  ])('%s is no route: 404, whatever the method', async (route) => {
    const path = route.replace('ID', known);
    for (const method of ['GET', 'POST', 'DELETE']) {
      expectProblem(await sendExactly(server.url, { method, path }), 'route-not-found');
    }
  });

  test('HEAD answers as GET does, without a body', async () => {
    for (const path of [...GETS.map((route) => route.replace('ID', known)), `/v1/tasks/${holdfast.freshId()}`]) {
      const [get, head] = [
        await sendExactly(server.url, { method: 'GET', path }),
        await sendExactly(server.url, { method: 'HEAD', path }),
      ];
      expect(head.status).toBe(get.status);
      expect(head.text).toBe('');
      expect(head.headers['content-type']).toBe(get.headers['content-type']);
      expect(head.headers['cache-control']).toBe('no-store');
    }
  });

  test('conditions of a request change nothing', async () => {
    const headers = { 'If-None-Match': '"x"', 'If-Modified-Since': new Date().toUTCString(), Range: 'bytes=0-1' };
    const answer = await sendExactly(server.url, { method: 'GET', path: `/v1/tasks/${known}`, headers });
    expect(answer.status).toBe(200);
    expectOurs(answer);
    expect(JSON.parse(answer.text)).toMatchObject({ taskId: known });
  });

  test('livez and readyz say so', async () => {
    const [live, ready] = [await request(server.url).get('/livez'), await request(server.url).get('/readyz')];
    expect([live.status, live.body]).toEqual([200, { status: 'live' }]);
    expect([ready.status, ready.body]).toEqual([200, { status: 'ready' }]);
    expectOurs(live);
    expectOurs(ready);
  });
});

describe('Task ids in paths', () => {
  const ENDS = [
    ['GET', ''],
    ['GET', '/stop'],
    ['GET', '/messages'],
    ['POST', '/claim'],
    ['POST', '/messages'],
    ['POST', '/cancel'],
    ['POST', '/result'],
  ] as const;
  const BODY: Record<string, string> = {
    '/claim': '{"deliveryEventId":"evt_x"}',
    '/messages': '{"body":1}',
    '/cancel': '{}',
    '/result': '{"success":true}',
  };
  const send = (method: string, path: string, end: string): ReturnType<typeof sendExactly> =>
    sendExactly(server.url, {
      method,
      path,
      ...(method === 'POST' ? { headers: { 'Content-Type': 'application/json' }, body: BODY[end] ?? '{}' } : {}),
    });

  test.each([
    'x'.repeat(129),
    'x'.repeat(8_000),
    'a%2Fb',
    '..',
    '.',
    '%2E%2E',
    '%2e%2e%2fetc',
    '%23',
    '%3F',
    "'",
    '%27',
    '%22',
    '%00',
    'a%00b',
    '%0D%0AX-Injected:1',
    '%ZZ',
    '%',
    '%E0%A4%A',
    '%FF',
    '%C3%A9',
    '-a',
    '_a',
    'a:b',
    'local:a',
    'a*',
    '$a',
    ':taskId',
    '__proto__',
    '%20a',
    'a%20',
    '%F0%9F%98%80',
  ])('%s: 400 on every route', async (id) => {
    for (const [method, end] of ENDS) {
      const answer = await send(method, `/v1/tasks/${id}${end}`, end);
      expectProblem(answer, 'invalid-request');
      expect(answer.headers).not.toHaveProperty('x-injected');
      expect('idempotency-key' in answer.headers).toBe(method === 'POST');
    }
  });

  test.each(['x'.repeat(127), 'x'.repeat(128), 'a..', '9', 'constructor', 'toString', 'A-b_c.d'])(
    '%s is a fine id of no Task: 404 on every route, and stop',
    async (id) => {
      for (const [method, end] of ENDS.filter(([, each]) => each !== '/stop')) {
        expectProblem(await send(method, `/v1/tasks/${id}${end}`, end), 'task-not-found');
      }
      const stop = await send('GET', `/v1/tasks/${id}/stop`, '/stop');
      expect(JSON.parse(stop.text)).toMatchObject({ shouldStop: true, reason: 'task_missing', taskId: id });
    },
  );

  test('a fragment is no part of a path, and an escaped letter is that letter', async () => {
    for (const path of [`/v1/tasks/${known}#x`, `/v1/tasks/%${known.charCodeAt(0).toString(16)}${known.slice(1)}`]) {
      const answer = await sendExactly(server.url, { method: 'GET', path });
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.text)).toMatchObject({ taskId: known });
    }
  });

  test('an id of 128 characters goes the whole way', async () => {
    const taskId = `${holdfast.freshId()}${'x'.repeat(128)}`.slice(0, 128);
    const post = (end: string, body: object): request.Test => request(server.url).post(`/v1/tasks${end}`).send(body);
    expect((await post('', { taskId, type: 'test' })).status).toBe(201);
    const deliveryEventId = (await holdfast.inbox.next(taskId)).id;
    expect((await post(`/${taskId}/claim`, { deliveryEventId })).status).toBe(200);
    expect((await post(`/${taskId}/messages`, { body: 1 })).status).toBe(201);
    expect((await post(`/${taskId}/result`, { success: true })).status).toBe(200);
  });
});

describe('bodies', () => {
  const JSON_TYPE = 'application/json';
  const send = (path: string, headers: object, body: string | Buffer): request.Test =>
    request(server.url)
      .post(path)
      .set(headers as Record<string, string>)
      .serialize((data: string) => data)
      .send(body);

  test.each([
    'text/plain',
    'text/plain; charset=utf-8',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'application/problem+json',
    'application/jsonp',
    'text/json',
    'json',
    '*/*',
    '',
  ])('of type %j: 415 on every route, and nothing is started', async (type) => {
    const taskId = holdfast.freshId();
    for (const route of POSTS) {
      const body = JSON.stringify({ taskId, type: 'test', body: 1, success: true, deliveryEventId: 'e' });
      const answer = await sendExactly(server.url, {
        method: 'POST',
        path: route.replace('ID', known),
        headers: { 'Content-Type': type, 'Content-Length': body.length },
        body,
      });
      expectProblem(answer, 'unsupported-media-type');
      expect(answer.headers).toHaveProperty('idempotency-key');
    }
    expect(await isStarted(holdfast, taskId)).toBe(false);
    expect(await signalsOf(holdfast, known)).toEqual([]);
  });

  test('without a type, in one piece or in chunks: 415', async () => {
    const path = '/v1/tasks';
    for (const headers of [{ 'Content-Length': '15' }, { 'Transfer-Encoding': 'chunked' }]) {
      const answer = await sendExactly(server.url, { method: 'POST', path, headers, body: '{"type":"test"}' });
      expectProblem(answer, 'unsupported-media-type');
    }
  });

  test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON', 'application/json;v=1'])(
    'of type %s is taken, in chunks too',
    async (type) => {
      for (const transfer of [{}, { 'Transfer-Encoding': 'chunked' }]) {
        const body = JSON.stringify({ type: 'test', delaySeconds: 3600 });
        const headers = { 'Content-Type': type, ...transfer };
        const answer = await sendExactly(server.url, { method: 'POST', path: '/v1/tasks', headers, body });
        expect(answer.status).toBe(201);
      }
    },
  );

  test('compressed: 415, a bomb too; said to be, but plain: 415', async () => {
    const taskId = holdfast.freshId();
    const plain = JSON.stringify({ taskId, type: 'test' });
    const bomb = gzipSync(Buffer.alloc(50_000_000, ' '));
    for (const body of [gzipSync(plain), bomb, Buffer.from(plain)]) {
      const answer = await send('/v1/tasks', { 'Content-Type': JSON_TYPE, 'Content-Encoding': 'gzip' }, body);
      expectProblem(answer, 'unsupported-media-type');
    }
    for (const encoding of ['deflate', 'br', 'zstd', 'x']) {
      const answer = await send('/v1/tasks', { 'Content-Type': JSON_TYPE, 'Content-Encoding': encoding }, plain);
      expectProblem(answer, 'unsupported-media-type');
    }
    expect(await isStarted(holdfast, taskId)).toBe(false);
    const identity = { 'Content-Type': JSON_TYPE, 'Content-Encoding': 'identity' };
    expect((await send('/v1/tasks', identity, plain)).status).toBe(201);
  });

  test.each(['{', '{"type":', "{'type':'test'}", 'type=test', '\u0000', 'undefined', '{"type":"test"}{}', '<a/>'])(
    'that is not JSON: 400 on every route: %s',
    async (body) => {
      for (const route of POSTS) {
        const answer = await send(route.replace('ID', known), { 'Content-Type': JSON_TYPE }, body);
        expectProblem(answer, 'invalid-json');
        expect(answer.text).not.toContain('Unexpected');
      }
      expect(await signalsOf(holdfast, known)).toEqual([]);
    },
  );

  test('empty, typed or not: as an empty object, which lacks what it must have', async () => {
    for (const headers of [{}, { 'Content-Type': JSON_TYPE }, { 'Content-Type': 'text/plain' }]) {
      const answer = await sendExactly(server.url, { method: 'POST', path: '/v1/tasks', headers });
      expectProblem(answer, 'invalid-request', 'type');
    }
  });

  test('larger than a request may be: 413, in chunks too, and nothing is started', async () => {
    const taskId = holdfast.freshId();
    const body = JSON.stringify({ taskId, type: 'test', delaySeconds: 3600 });
    const edge = body.padEnd(LIMITS.requestBytesMax);
    for (const headers of [
      { 'Content-Type': JSON_TYPE },
      { 'Content-Type': JSON_TYPE, 'Transfer-Encoding': 'chunked' },
    ]) {
      const over = { method: 'POST', path: '/v1/tasks', headers, body: `${edge} ` };
      expectProblem(await sendExactly(server.url, over), 'payload-too-large');
    }
    expect(await isStarted(holdfast, taskId)).toBe(false);
    const within = { method: 'POST', path: '/v1/tasks', headers: { 'Content-Type': JSON_TYPE }, body: edge };
    expect((await sendExactly(server.url, within)).status).toBe(201);
  });

  test.each([2 * 1024 * 1024 - 1, 2 * 1024 * 1024 + 1, 4 * 1024 * 1024 + 1])(
    '%d bytes announced: 413 before they are sent',
    async (bytes) => {
      const socket = await open(server.url);
      const head = `POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${bytes}`;
      socket.write(`${head}\r\n\r\n{`);
      const answer = await received(socket, (text) => text.includes('payload-too-large'));
      expect(answer).toMatch(/^HTTP\/1\.1 413 /);
      socket.destroy();
    },
  );
});

async function open(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await new Promise((resolve, reject) => {
    socket.once('connect', resolve).once('error', reject);
  });
  return socket;
}

/** What comes over the socket, until it is enough or the other side ends it. */
async function received(socket: Socket, isEnough: (text: string) => boolean = () => false): Promise<string> {
  let text = '';
  return new Promise((resolve) => {
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (isEnough(text)) resolve(text);
    });
    // Cut off by a reset is cut off too.
    socket.on('error', () => resolve(text)).on('close', () => resolve(text));
  });
}

describe('slow clients', () => {
  let slow: Listening;
  let inner: Server;
  beforeAll(async () => {
    const app = express();
    app.get('/', (incoming, response) => {
      inner = (incoming.socket as Socket & { server: Server }).server;
      response.json({});
    });
    app.post('/', (incoming, response) => {
      incoming.resume().on('end', () => response.json({}));
    });
    slow = await serve(app);
    await request(slow.url).get('/');
  });
  afterAll(() => slow.close());

  test('have bounds of seconds: for their headers, their whole request, and for doing nothing', () => {
    const { headersTimeout, requestTimeout, keepAliveTimeout } = inner;
    expect({ headersTimeout, requestTimeout, keepAliveTimeout }).toEqual({
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      keepAliveTimeout: 5_000,
    });
  });

  test('are cut off when their headers, or their body, drip beyond the bound', async () => {
    inner.headersTimeout = 200;
    inner.requestTimeout = 400;
    const starts = [
      'GET / HTTP/1.1\r\nHost: x\r\nX-A: ',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{',
      'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n',
    ];
    const answers = await Promise.all(
      starts.map(async (start) => {
        const socket = await open(slow.url);
        const drip = setInterval(() => socket.write(start.includes('chunked') ? '1\r\na\r\n' : 'a'), 50);
        socket.write(start);
        const answer = await received(socket);
        clearInterval(drip);
        return answer;
      }),
    );
    for (const answer of answers) expect(answer).not.toMatch(/^HTTP\/1\.1 200/);
    // Their twin is in time.
    expect((await request(slow.url).post('/').send({ a: 1 })).status).toBe(200);
  });

  test('headers beyond 16 KiB are refused', async () => {
    const get = (bytes: number): ReturnType<typeof sendExactly> =>
      sendExactly(slow.url, { method: 'GET', path: '/', headers: { 'X-A': 'a'.repeat(bytes) } });
    expect((await get(15 * 1024)).status).toBe(200);
    expect((await get(17 * 1024)).status).toBe(431);
  });
});

test('with Temporal out of reach: alive, not ready, and nothing is accepted; afterwards all is well', async () => {
  const proxy = await startCuttableProxy(inject('temporalAddress'));
  const connection = await connectClient({ namespace: 'default', options: { address: proxy.address } });
  const log = pino({ level: 'silent' });
  const scheduler = new Scheduler({
    gateway: new Gateway({ client: clientOf(connection, { namespace: 'default' }), taskQueue: holdfast.taskQueue }),
    clock: new ServerClock(Date.now, log),
    log,
    policy: holdfast.policy,
    runTimeoutSeconds: 3600,
    runTimeoutSecondsMax: 3600,
  });
  const front = await serve(createApp({ scheduler, log, keyRing: null }));
  const post = (path: string, body: object, key: string): request.Test =>
    request(front.url).post(path).set('Idempotency-Key', key).send(body);
  const readyWithin = async (): Promise<{ response: request.Response; tookMs: number }> => {
    const askedAt = performance.now();
    const response = await request(front.url).get('/readyz');
    return { response, tookMs: performance.now() - askedAt };
  };
  const expectUnready = async (): Promise<void> => {
    const [{ response, tookMs }, live] = [await readyWithin(), await request(front.url).get('/livez')];
    expectProblem(response, 'temporal-unavailable');
    expect(response.headers['retry-after']).toBe('1');
    expect(tookMs).toBeLessThan(5_000);
    expect(live.status).toBe(200);
  };
  const untilReady = async (): Promise<void> => {
    for (let round = 0; round < 20; round += 1) if ((await readyWithin()).response.status === 200) return;
    throw new Error('it did not become ready again');
  };
  try {
    const taskId = await waiting();
    await untilReady();

    // Packets are dropped: nothing is refused, and nothing comes.
    proxy.stall();
    await expectUnready();
    await proxy.restore();
    await untilReady();
    expect((await request(front.url).get(`/v1/tasks/${taskId}`)).body).toMatchObject({ taskId });

    // The server is gone.
    await proxy.cut();
    const newId = holdfast.freshId();
    const schedule = { taskId: newId, type: 'test', delaySeconds: 3600 };
    const [, scheduled, canceled, message, read, stop, bad] = await Promise.all([
      expectUnready(),
      post('/v1/tasks', schedule, 's1'),
      post(`/v1/tasks/${taskId}/cancel`, {}, 'c1'),
      post(`/v1/tasks/${taskId}/messages`, { body: 1 }, 'm1'),
      request(front.url).get(`/v1/tasks/${taskId}`),
      request(front.url).get(`/v1/tasks/${taskId}/stop`),
      post('/v1/tasks', { type: '' }, 'b1'),
    ]);
    expectProblem(scheduled, 'temporal-unavailable');
    expectProblem(read, 'temporal-unavailable');
    expect([canceled.status, message.status]).toEqual([503, 503]);
    for (const [answer, key] of [
      [scheduled, 's1'],
      [canceled, 'c1'],
      [message, 'm1'],
    ] as const) {
      expectOurs(answer);
      expect(answer.headers['retry-after']).toBe('1');
      expect(answer.headers['idempotency-key']).toBe(key);
    }
    expect([stop.status, stop.body]).toEqual([200, { shouldStop: false, reason: 'check_failed' }]);
    // What is wrong by itself is told without Temporal.
    expectProblem(bad, 'invalid-request', 'type');
    await expectUnready();
    expect(await isStarted(holdfast, newId)).toBe(false);
    expect(await signalsOf(holdfast, taskId)).toEqual([]);

    await proxy.restore();
    await untilReady();
    expect((await post('/v1/tasks', schedule, 's1')).status).toBe(201);
    expect((await post(`/v1/tasks/${taskId}/messages`, { body: 1 }, 'm1')).body).toMatchObject({ seq: 1 });
    expect((await post(`/v1/tasks/${taskId}/cancel`, {}, 'c1')).status).toBe(200);
    expect(await signalsOf(holdfast, taskId)).toEqual(['message', 'cancel']);
  } finally {
    await front.close();
    await connection.close();
    await proxy.close();
  }
});

// The scheduler calls every failed command durable, one whose signal was not taken too. Drop `.fails` with that.
test('a command whose signal was refused: 503 that does not call it durable', async () => {
  const gateway = {
    signal: () => Promise.reject(new GatewayError('unavailable', 'signal: refused', undefined)),
  } as unknown as Gateway;
  const log = pino({ level: 'silent' });
  const scheduler = new Scheduler({
    gateway,
    clock: new ServerClock(Date.now, log),
    log,
    policy: holdfast.policy,
    runTimeoutSeconds: 3600,
    runTimeoutSecondsMax: 3600,
  });
  const answer = await request(createApp({ scheduler, log, keyRing: null })).post('/v1/tasks/t1/cancel');
  expectProblem(answer, 'temporal-unavailable');
});

test('closing lets an answer under way finish, and cuts who never ends', async () => {
  let arrived: () => void = () => undefined;
  const hasArrived = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  let finish: () => void = () => undefined;
  const app = express();
  app.get('/slow', (_incoming, response) => {
    finish = () => response.json({ done: true });
    arrived();
  });
  const closing = await serve(app);
  const idle = await open(closing.url);
  const cut = received(idle);
  idle.write(`GET /never HTTP/1.1\r\nHost: ${randomUUID()}\r\n`);
  const answer = sendExactly(closing.url, { method: 'GET', path: '/slow' });
  await hasArrived;
  const closed = closing.close();
  finish();
  expect((await answer).text).toBe('{"done":true}');
  await closed;
  await cut;
  await expect(sendExactly(closing.url, { method: 'GET', path: '/slow' })).rejects.toThrow('ECONNREFUSED');
});
