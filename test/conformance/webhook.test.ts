import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { describe, expect, onTestFinished, test } from 'vitest';
import { jsonBytes } from '../../src/contracts/json.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { TaskReadyCloudEvent } from '../../src/contracts/task-ready.ts';
import { Secret } from '../../src/config/index.ts';
import { addressKindOf } from '../../src/transports/address.ts';
import { cloudEventOf } from '../../src/transports/cloud-event.ts';
import { createTransports } from '../../src/transports/index.ts';
import type { PublishError, ReadyTransport } from '../../src/transports/port.ts';
import { parseRetryAfter } from '../../src/transports/retry-after.ts';
import { webhookTransport, type Resolve, type WebhookOptions } from '../../src/transports/webhook.ts';
import { anEvent, describeReadyTransport, failureOf, never } from './ready-transport.ts';
import { answer, Receiver, type Answer } from './receiver.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

const BEHAVIOUR = {
  take: answer(204),
  refuse: answer(503),
  hang: () => undefined,
} satisfies Record<string, Answer>;

describeReadyTransport('the webhook', async () => {
  const receiver = await Receiver.start();
  return {
    transport: (options) => webhookTransport({ url: receiver.url, secret: SECRET, allowPrivate: true, ...options }),
    get received() {
      return receiver.requests.map((request) => JSON.parse(request.body) as TaskReadyCloudEvent);
    },
    behave: (how) => {
      receiver.respond = BEHAVIOUR[how];
    },
    untilReceived: (count) => receiver.untilReceived(count),
    stop: () => receiver.stop(),
    restart: () => receiver.restart(),
  };
});

async function setup(
  options: Partial<WebhookOptions> = {},
): Promise<{ receiver: Receiver; transport: ReadyTransport; fails: () => Promise<PublishError> }> {
  const receiver = await Receiver.start();
  onTestFinished(() => receiver.stop());
  const transport = webhook({ url: receiver.url, allowPrivate: true, ...options });
  return { receiver, transport, fails: () => failureOf(transport) };
}

function webhook(options: Partial<WebhookOptions> & { url: string }): ReadyTransport {
  const transport = webhookTransport({ secret: null, allowPrivate: false, ...options });
  onTestFinished(() => transport.close());
  return transport;
}

describe('the request', () => {
  test('is a structured CloudEvent whose signature verifies', async () => {
    const { receiver, transport } = await setup({ secret: SECRET });
    await transport.publish(anEvent(), { signal: never() });
    const [request] = receiver.requests;
    expect(request).toMatchObject({
      method: 'POST',
      url: '/ready?from=holdfast',
      headers: { 'content-type': 'application/cloudevents+json', 'webhook-id': anEvent().id },
    });
    const headers = request?.headers as Record<string, string>;
    expect(new Webhook(SECRET).verify(request?.body ?? '', headers)).toEqual(anEvent());
    expect(() => new Webhook(SECRET).verify(`${request?.body} `, headers)).toThrow('No matching signature');
  });

  test('has a fresh timestamp at each attempt, and the same id', async () => {
    const times = [1_000_000, 2_000_000];
    const { receiver, transport } = await setup({ secret: SECRET, now: () => times.shift() ?? 0 });
    await transport.publish(anEvent(), { signal: never() });
    await transport.publish(anEvent(), { signal: never() });
    expect(receiver.requests.map(({ headers }) => [headers['webhook-id'], headers['webhook-timestamp']])).toEqual([
      [anEvent().id, '1000'],
      [anEvent().id, '2000'],
    ]);
  });

  test('without a secret has no signature', async () => {
    const { receiver, transport } = await setup();
    await transport.publish(anEvent(), { signal: never() });
    expect(receiver.requests[0]?.headers).not.toHaveProperty('webhook-signature');
    expect(receiver.requests[0]?.headers).toHaveProperty('webhook-id');
  });

  test('goes over connections that are kept alive', async () => {
    const ports = new Set<number | undefined>();
    const { receiver, transport } = await setup();
    receiver.respond = (response, request) => {
      ports.add(request.socket.remotePort);
      answer(200, {}, 'taken')(response, request);
    };
    for (let count = 0; count < 10; count += 1) await transport.publish(anEvent(), { signal: never() });
    expect(ports.size).toBeLessThan(10);
  });

  test('is under 20 kB for the largest Task', () => {
    const id = (letter: string, length: number): string => letter.repeat(length);
    const ancestors = Array.from({ length: LIMITS.lineageDepthMax }, () => id('a', LIMITS.taskIdLengthMax));
    const event = cloudEventOf(
      {
        taskId: id('t', LIMITS.taskIdLengthMax),
        customerId: id('c', LIMITS.customerIdLengthMax),
        type: id('y', LIMITS.typeLengthMax),
        queue: id('q', LIMITS.queueLengthMax),
        priority: 5,
        deliveryEventId: `evt_${'0'.repeat(36)}`,
        lineage: { rootTaskId: id('a', 128), parentTaskId: id('a', 128), ancestors },
        source: { kind: 'x', ref: id('r', LIMITS.sourceBytesMax - 21) },
        releaseAt: '2026-01-31T09:00:00.000Z',
      },
      { publicUrl: `https://${id('p', 1016)}`, time: '2026-01-31T09:00:00.000Z' },
    );
    expect(jsonBytes(event.data.source)).toBe(LIMITS.sourceBytesMax);
    expect(jsonBytes(event)).toBeLessThan(20_000);
  });
});

describe('the answer', () => {
  test.each([200, 201, 202, 204])('%d is success', async (status) => {
    const { receiver, transport } = await setup();
    receiver.respond = answer(status);
    await expect(transport.publish(anEvent(), { signal: never() })).resolves.toBeUndefined();
  });

  test('200 with garbage is success: only the status counts', async () => {
    const { receiver, transport } = await setup();
    receiver.respond = answer(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }, '\0{nonsense');
    await expect(transport.publish(anEvent(), { signal: never() })).resolves.toBeUndefined();
  });

  test.each([
    [302, 'redirect', true],
    [400, 'refused', true],
    [401, 'refused', true],
    [404, 'refused', true],
    [408, 'unavailable', true],
    [410, 'gone', false],
    [413, 'rejected', false],
    [415, 'rejected', false],
    [422, 'rejected', false],
    [425, 'unavailable', true],
    [429, 'throttled', true],
    [500, 'unavailable', true],
    [503, 'unavailable', true],
    [599, 'unavailable', true],
  ])('%d is %s, retryable: %s; its words are not repeated', async (status, code, retryable) => {
    const { receiver, fails } = await setup();
    receiver.respond = answer(status, {}, 'planted');
    const error = await fails();
    expect(error).toMatchObject({ code, retryable, message: `the receiver answered ${status}` });
    expect(error.retryAfterSeconds).toBeUndefined();
    expect(receiver.requests).toHaveLength(1);
  });

  test.each([301, 302, 303, 307, 308])('%d to a private address is not followed', async (status) => {
    const { receiver: hidden } = await setup();
    const { receiver, fails } = await setup();
    receiver.respond = answer(status, { location: hidden.url });
    expect(await fails()).toMatchObject({ code: 'redirect', retryable: true });
    expect(hidden.requests).toEqual([]);
  });

  const date = Date.UTC(2026, 0, 31, 9, 0, 0);
  const inOneMinute = 'Sat, 31 Jan 2026 09:01:00 GMT';

  test.each([
    ['30', 30],
    ['0', 0],
    ['1000000000', 86_400],
    ['9'.repeat(400), 86_400],
    [inOneMinute, 60],
    ['Fri, 30 Jan 2026 09:01:00 GMT', 0],
    ['Sat, 31 Jan 2126 09:01:00 GMT', 86_400],
    ['-1', undefined],
    ['1e9', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['2026-01-31', undefined],
    ['Sat, 99 Jan 2026 09:01:00 GMT', undefined],
    [undefined, undefined],
  ])('Retry-After %.40s is %s s', (header, seconds) => {
    expect(parseRetryAfter(header, date)).toBe(seconds);
  });

  test.each([
    [429, '30', 30],
    [503, inOneMinute, 60],
    [503, '-1', undefined],
  ])('%d carries Retry-After %s', async (status, header, seconds) => {
    const { receiver, fails } = await setup({ now: () => date });
    receiver.respond = answer(status, { 'retry-after': header });
    expect((await fails()).retryAfterSeconds).toBe(seconds);
  });

  /** Sends for as long as the other side reads. */
  const endless =
    (status: number): Answer =>
    (response) => {
      response.writeHead(status);
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(64 * 1024)));
      };
      response.on('drain', more).on('error', () => undefined);
      more();
    };

  test('an endless body is cut off, and the status counts', async () => {
    const { receiver, transport, fails } = await setup();
    receiver.respond = endless(200);
    await transport.publish(anEvent(), { signal: never() });
    receiver.respond = endless(503);
    expect(await fails()).toMatchObject({ code: 'unavailable' });
  });

  test('a body that is announced as huge is not read', async () => {
    const { receiver, transport } = await setup();
    receiver.respond = (response) => {
      response.writeHead(200, { 'content-length': 1e9 }).write('a');
    };
    await expect(transport.publish(anEvent(), { signal: never() })).resolves.toBeUndefined();
  });

  test('a body that never ends but drips is given up, and the status counts', async () => {
    const { receiver, transport } = await setup();
    receiver.respond = (response) => {
      response.writeHead(200).write('a');
    };
    await expect(transport.publish(anEvent(), { signal: never() })).resolves.toBeUndefined();
  });

  test('headers without an end are refused', async () => {
    const url = await rawServer((write) => write(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(1_000_000)}`));
    expect(await failureOf(webhook({ url, allowPrivate: true }))).toMatchObject({ code: 'bad-answer' });
  });

  test('what is not HTTP is refused', async () => {
    const url = await rawServer((write) => write('SSH-2.0-OpenSSH\r\n'));
    expect(await failureOf(webhook({ url, allowPrivate: true }))).toMatchObject({ code: 'bad-answer' });
  });

  test('a connection that ends before the answer is told as such', async () => {
    const { receiver, fails } = await setup();
    receiver.respond = (response) => response.destroy();
    expect(await fails()).toMatchObject({ code: 'connection-lost', retryable: true });
  });

  test('a receiver that does not speak TLS is told as such', async () => {
    const { receiver } = await setup();
    const url = `https://127.0.0.1:${receiver.port}/`;
    expect(await failureOf(webhook({ url, allowPrivate: true }))).toMatchObject({ code: 'tls-failed' });
  });

  test('nobody there is told as such, with neither URL nor query', async () => {
    const { receiver, fails } = await setup();
    await receiver.stop();
    expect(await fails()).toMatchObject({
      code: 'connect-failed',
      message: 'no connection to the receiver (ECONNREFUSED)',
    });
  });
});

/** A TCP server that answers any request with these bytes. */
async function rawServer(onData: (write: (text: string) => void) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => onData((text) => socket.write(text)));
    onTestFinished(() => void socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

describe('targets', () => {
  const resolving =
    (...answers: string[][]): Resolve =>
    () =>
      Promise.resolve((answers.shift() ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 })));

  test.each([
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    'localhost',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '0.0.0.0',
    '[::]',
    '[::127.0.0.1]',
  ])('http://%s, which is this machine, is refused', async (host) => {
    const { receiver } = await setup();
    const error = await failureOf(webhook({ url: `http://${host}:${receiver.port}/` }));
    expect(error).toMatchObject({ code: 'address-refused', retryable: true });
    expect(receiver.requests).toEqual([]);
  });

  test.each(['127.0.0.1', '2130706433', '0x7f.1', 'localhost', '[::ffff:127.0.0.1]'])(
    'http://%s is reached by a route that allows private targets',
    async (host) => {
      const { receiver } = await setup();
      const transport = webhook({ url: `http://${host}:${receiver.port}/`, allowPrivate: true });
      await transport.publish(anEvent(), { signal: never() });
      expect(receiver.requests).toHaveLength(1);
    },
  );

  test.each(['169.254.169.254', '[fe80::1]', '0.0.0.0', '[::ffff:169.254.169.254]', '224.0.0.1', '255.255.255.255'])(
    'http://%s is refused even then',
    async (host) => {
      const error = await failureOf(webhook({ url: `http://${host}/`, allowPrivate: true }));
      expect(error).toMatchObject({ code: 'address-refused' });
    },
  );

  test.each([
    ['8.8.8.8', 'public'],
    ['2606:4700:4700::1111', 'public'],
    ['::ffff:8.8.8.8', 'public'],
    ['10.1.2.3', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.0.1', 'private'],
    ['100.64.0.1', 'private'],
    ['fd00::1', 'private'],
    ['::ffff:10.0.0.1', 'private'],
    ['172.32.0.1', 'public'],
    ['100.128.0.1', 'public'],
    ['192.0.2.1', 'never'],
    ['198.18.0.1', 'never'],
    ['240.0.0.1', 'never'],
    ['64:ff9b::7f00:1', 'never'],
    ['2002:7f00:1::', 'never'],
    ['::7f00:1', 'never'],
    ['fec0::1', 'never'],
    ['2130706433', 'never'],
    ['0x7f.1', 'never'],
    ['receiver.example.com', 'never'],
    ['', 'never'],
  ])('the address %s is %s', (address, kind) => {
    expect(addressKindOf(address)).toBe(kind);
  });

  test.each([
    [['127.0.0.1']],
    [['8.8.8.8', '10.0.0.1']],
    [['8.8.8.8', '::1']],
    [['169.254.169.254']],
    [['::ffff:127.0.0.1']],
    [['not an address']],
  ])('a name that leads to %j is refused', async (addresses) => {
    const { receiver } = await setup();
    const url = `http://receiver.example.com:${receiver.port}/`;
    expect(await failureOf(webhook({ url, resolve: resolving(addresses) }))).toMatchObject({ code: 'address-refused' });
    expect(receiver.requests).toEqual([]);
  });

  test('the connection is made to the address that was judged: the name is looked up once a send', async () => {
    const { receiver } = await setup();
    let lookUps = 0;
    const transport = webhook({
      // This name leads nowhere but through the resolver given.
      url: `http://receiver.invalid:${receiver.port}/`,
      allowPrivate: true,
      resolve: (hostname) => {
        lookUps += 1;
        return resolving(['127.0.0.1'])(hostname);
      },
    });
    await transport.publish(anEvent(), { signal: never() });
    expect(lookUps).toBe(1);
    await transport.publish(anEvent(), { signal: never() });
    expect(lookUps).toBe(2);
    expect(receiver.requests.map(({ headers }) => headers.host)).toEqual(
      Array.from({ length: 2 }, () => `receiver.invalid:${receiver.port}`),
    );
  });

  test('a name that turns to a refused address is refused, a warm connection notwithstanding', async () => {
    const { receiver } = await setup();
    const transport = webhook({
      url: `http://receiver.invalid:${receiver.port}/`,
      allowPrivate: true,
      resolve: resolving(['127.0.0.1'], ['169.254.169.254'], ['127.0.0.1']),
    });
    await transport.publish(anEvent(), { signal: never() });
    expect(await failureOf(transport)).toMatchObject({ code: 'address-refused' });
    expect(receiver.requests).toHaveLength(1);
    await transport.publish(anEvent(), { signal: never() });
    expect(receiver.requests).toHaveLength(2);
  });

  test.each([
    [
      'that fails',
      () => Promise.reject(Object.assign(new Error('planted'), { code: 'ENOTFOUND' })),
      ' was not resolved (ENOTFOUND)',
    ],
    ['without an address', resolving([]), ' has no address'],
  ] satisfies Array<[string, Resolve, string]>)('a look-up %s can be repeated', async (_, resolve, message) => {
    const error = await failureOf(webhook({ url: 'http://receiver.invalid/', resolve }));
    expect(error).toMatchObject({ code: 'name-not-resolved', retryable: true, message: `the target's name${message}` });
  });

  test('a look-up that never ends is left at the bound', async () => {
    const transport = webhook({ url: 'http://receiver.invalid/', resolve: () => new Promise(() => {}), timeoutMs: 50 });
    expect(await failureOf(transport)).toMatchObject({ code: 'timed-out' });
  });
});

describe('createTransports', () => {
  const route = (url: string): Parameters<typeof createTransports>[0]['routes'][string] => ({
    transport: 'webhook',
    url,
    secret: new Secret(SECRET),
    allowPrivate: true,
  });

  test('a queue has its own route, else the default', async () => {
    const { receiver: own } = await setup();
    const { receiver: others } = await setup();
    const transports = createTransports({ routes: { billing: route(own.url), default: route(others.url) } });
    onTestFinished(() => transports.close());
    await transports.for('billing')?.publish(anEvent('evt_1'), { signal: never() });
    await transports.for('constructor')?.publish(anEvent('evt_2'), { signal: never() });
    expect(own.requests.map(({ headers }) => headers['webhook-id'])).toEqual(['evt_1']);
    expect(others.requests.map(({ headers }) => headers['webhook-id'])).toEqual(['evt_2']);
    expect(
      new Webhook(SECRET).verify(own.requests[0]?.body ?? '', own.requests[0]?.headers as Record<string, string>),
    ).toEqual(anEvent('evt_1'));
  });

  test('without a default a queue may have none', async () => {
    const transports = createTransports({ routes: { billing: route('http://127.0.0.1:9/') } });
    expect(transports.for('billing')).not.toBeNull();
    expect(transports.for('other')).toBeNull();
    expect(transports.for('constructor')).toBeNull();
    await transports.close();
  });
});
