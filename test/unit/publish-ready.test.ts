import { CancelledFailure } from '@temporalio/activity';
import { ActivityCancellationDetails, ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createActivities, type ActivityDeps } from '../../activities/index.ts';
import { CustomerSemaphore } from '../../activities/customer-semaphore.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { PublishOutcome, TaskReady, TaskReadyCloudEvent } from '../../src/contracts/task-ready.ts';
import type { PublishPolicy } from '../../src/contracts/workflow.ts';
import { PublishError } from '../../src/transports/port.ts';
import { createTransports } from '../../src/transports/index.ts';
import { answer, Receiver } from '../conformance/receiver.ts';

const policy: PublishPolicy = {
  initialSeconds: 1,
  factor: 2,
  maximumSeconds: 300,
  attempts: 12,
  timeoutSeconds: 60,
  totalSeconds: 86_400,
};

function ready(overrides: Partial<TaskReady> = {}): TaskReady {
  return {
    taskId: 'task-1',
    customerId: 'acme',
    type: 'demo',
    queue: 'default',
    priority: 3,
    deliveryEventId: 'evt_1',
    lineage: { rootTaskId: 'task-1', parentTaskId: null, ancestors: [] },
    source: null,
    releaseAt: '2026-01-31T09:00:00.000Z',
    ...overrides,
  };
}

type AttemptOptions = Partial<TaskReady> & { attempt?: number; timeoutSeconds?: number };

interface Setup {
  receiver: Receiver;
  logged: Array<Record<string, unknown>>;
  /** One attempt, as a worker runs it. */
  attempt: (options?: AttemptOptions, env?: MockActivityEnvironment) => Promise<PublishOutcome>;
  /** The failure of an attempt that must fail. */
  failure: (options?: AttemptOptions, env?: MockActivityEnvironment) => Promise<ApplicationFailure>;
}

async function setup(overrides: Partial<ActivityDeps> = {}): Promise<Setup> {
  const receiver = await Receiver.start();
  onTestFinished(() => receiver.stop());
  const transports = createTransports({
    routes: { default: { transport: 'webhook', url: receiver.url, secret: null, allowPrivate: true } },
  });
  onTestFinished(() => transports.close());
  const logged: Array<Record<string, unknown>> = [];
  const log = (fields: object): void => void logged.push(fields as Record<string, unknown>);
  const { publishReady } = createActivities({
    transports,
    publicUrl: 'http://127.0.0.1:8080',
    now: () => Date.UTC(2026, 0, 31, 9, 0, 1),
    random: () => 1,
    log: { warn: log, error: log },
    concurrencyPerCustomer: 10,
    ...overrides,
  });
  const attempt: Setup['attempt'] = (
    { attempt: number = 1, timeoutSeconds = policy.timeoutSeconds, ...task } = {},
    env = new MockActivityEnvironment({ attempt: number }),
  ) => env.run(publishReady, ready(task), { ...policy, timeoutSeconds });
  const failure: Setup['failure'] = async (options, env) =>
    attempt(options, env).then(
      () => {
        throw new Error('the attempt succeeded');
      },
      (error: unknown) => error as ApplicationFailure,
    );
  return { receiver, logged, attempt, failure };
}

describe('publishReady', () => {
  test('publishes the event and returns its own attempt number', async () => {
    const { receiver, attempt, logged } = await setup();
    await expect(attempt({ attempt: 7 })).resolves.toEqual({ attempts: 7 });
    expect(receiver.requests.map(({ body }) => JSON.parse(body) as TaskReadyCloudEvent)).toEqual([
      {
        specversion: '1.0',
        id: 'evt_1',
        type: 'holdfast.task.ready',
        source: '/v1/customers/acme/tasks/task-1',
        subject: 'task-1',
        time: '2026-01-31T09:00:01.000Z',
        datacontenttype: 'application/json',
        data: { ...ready(), claimUrl: 'http://127.0.0.1:8080/v1/tasks/task-1/claim' },
      },
    ]);
    expect(logged).toEqual([]);
  });

  test('a refusal is a failure with code, attempts and the next delay, and the next attempt has the same id', async () => {
    const { receiver, attempt, failure } = await setup();
    receiver.respond = answer(503, {}, 'planted');
    const error = await failure({ attempt: 3 });
    expect(error).toBeInstanceOf(ApplicationFailure);
    expect(error).toMatchObject({
      type: 'unavailable',
      message: 'unavailable: the receiver answered 503',
      nonRetryable: false,
      details: [{ attempts: 3 }],
      nextRetryDelay: 4000,
      category: 'BENIGN',
    });
    expect(error.cause).toBeUndefined();
    receiver.respond = answer(204);
    await attempt({ attempt: 4 });
    expect(receiver.requests.map(({ headers }) => headers['webhook-id'])).toEqual(['evt_1', 'evt_1']);
  });

  test('a permanent refusal is not retried', async () => {
    const { receiver, failure } = await setup();
    receiver.respond = answer(410);
    expect(await failure()).toMatchObject({ type: 'gone', nonRetryable: true, details: [{ attempts: 1 }] });
  });

  test.each([
    ['40', 50_000],
    ['1000000000', 300_000],
    ['-1', 1000],
  ])('Retry-After: %s means %d ms', async (header, delayMs) => {
    const { receiver, failure } = await setup();
    receiver.respond = answer(429, { 'retry-after': header });
    expect(await failure()).toMatchObject({ type: 'throttled', nextRetryDelay: delayMs });
  });

  test('attempt 1,100 has a finite delay', async () => {
    const { receiver, failure } = await setup();
    receiver.respond = answer(503);
    expect(await failure({ attempt: 1100 })).toMatchObject({ nextRetryDelay: 300_000 });
  });

  test('a queue without a route fails like any other publish', async () => {
    const { failure } = await setup({ transports: createTransports({ routes: {} }) });
    expect(await failure({ attempt: 2 })).toMatchObject({
      type: 'no-route',
      message: 'no-route',
      nonRetryable: false,
      details: [{ attempts: 2 }],
      nextRetryDelay: 2000,
    });
  });

  test('a receiver that does not answer is left before Temporal would end the attempt', async () => {
    const { receiver, failure } = await setup();
    receiver.respond = () => undefined;
    expect(await failure({ timeoutSeconds: 0.5 })).toMatchObject({
      type: 'timed-out',
      message: 'timed-out: no answer within 0.5 s',
      nonRetryable: false,
    });
  });

  test('cancellation ends it as canceled, not as failed', async () => {
    const { receiver, failure, logged } = await setup();
    receiver.respond = () => undefined;
    const env = new MockActivityEnvironment();
    const failed = failure({}, env);
    await receiver.untilReceived(1);
    env.cancel();
    expect(await failed).toBeInstanceOf(CancelledFailure);
    expect(logged).toEqual([]);
  });

  test('shutdown of the worker is a failure that another worker repeats', async () => {
    const { receiver, failure } = await setup();
    receiver.respond = () => undefined;
    const env = new MockActivityEnvironment({ attempt: 9 });
    const failed = failure({}, env);
    await receiver.untilReceived(1);
    env.cancel('WORKER_SHUTDOWN', new ActivityCancellationDetails({ workerShutdown: true }));
    expect(await failed).toMatchObject({
      type: 'worker-shutdown',
      nonRetryable: false,
      details: [{ attempts: 9 }],
      nextRetryDelay: 1000,
    });
  });

  test('a publish that was taken stays so when the cancellation came meanwhile', async () => {
    const env = new MockActivityEnvironment();
    const transport = {
      publish: async () => env.cancel(),
      close: () => Promise.resolve(),
    };
    const { attempt } = await setup({ transports: { for: () => transport } });
    await expect(attempt({}, env)).resolves.toEqual({ attempts: 1 });
  });

  test('an unexpected error is retried, told in the log, and does not reach the record', async () => {
    const transport = {
      publish: () => Promise.reject(new Error('planted')),
      close: () => Promise.resolve(),
    };
    const { failure, logged } = await setup({ transports: { for: () => transport } });
    expect(await failure()).toMatchObject({
      type: 'internal',
      message: "internal: see the worker's log",
      nonRetryable: false,
    });
    expect(logged.at(-1)).toMatchObject({ err: expect.objectContaining({ message: 'planted' }) });
  });

  test('a message has a bound', async () => {
    const transport = {
      publish: () => Promise.reject(new PublishError('unavailable', 'x'.repeat(10_000))),
      close: () => Promise.resolve(),
    };
    const { failure } = await setup({ transports: { for: () => transport } });
    expect((await failure()).message).toHaveLength(LIMITS.lastErrorLengthMax);
  });

  test('what is logged of a failed attempt names the Task, and never the claim token', async () => {
    const { receiver, failure, logged } = await setup();
    receiver.respond = answer(503);
    await failure();
    expect(logged).toEqual([
      {
        taskId: 'task-1',
        customerId: 'acme',
        queue: 'default',
        attempt: 1,
        code: 'unavailable',
        retryable: true,
        delayMs: 1000,
      },
    ]);
  });
});

describe('publishes of one customer', () => {
  test('to one queue are bounded; those of another customer, or to another queue, go on', async () => {
    const { receiver, attempt } = await setup({ concurrencyPerCustomer: 2 });
    const answers: Array<() => void> = [];
    receiver.respond = (response) => void answers.push(() => response.writeHead(204).end());
    const ofA = [1, 2, 3].map((number) => attempt({ deliveryEventId: `evt_a${number}` }));
    await receiver.untilReceived(2);
    const ofB = attempt({ customerId: 'other', deliveryEventId: 'evt_b' });
    await receiver.untilReceived(3);
    const otherQueue = attempt({ queue: 'other', deliveryEventId: 'evt_q' });
    await receiver.untilReceived(4);
    const received = receiver.requests.map(({ headers }) => headers['webhook-id']);
    expect(received).toEqual(['evt_a1', 'evt_a2', 'evt_b', 'evt_q']);
    answers[0]?.();
    await receiver.untilReceived(5);
    expect(receiver.requests.at(-1)?.headers['webhook-id']).toBe('evt_a3');
    for (const end of answers.slice(1)) end();
    await expect(Promise.all([...ofA, ofB, otherQueue])).resolves.toHaveLength(5);
  });

  test('one that finds no place in its time says so and can be repeated', async () => {
    const { receiver, attempt, failure } = await setup({ concurrencyPerCustomer: 1, placeWaitMs: 50 });
    const answers: Array<() => void> = [];
    receiver.respond = (response) => void answers.push(() => response.writeHead(204).end());
    const first = attempt();
    await receiver.untilReceived(1);
    expect(await failure({})).toMatchObject({ type: 'customer-busy', nonRetryable: false });
    answers[0]?.();
    await first;
    expect(receiver.requests).toHaveLength(1);
  });

  test('one that is canceled while it waits leaves the place to others', async () => {
    const { receiver, attempt, failure } = await setup({ concurrencyPerCustomer: 1 });
    const answers: Array<() => void> = [];
    receiver.respond = (response) => void answers.push(() => response.writeHead(204).end());
    const first = attempt();
    await receiver.untilReceived(1);
    const env = new MockActivityEnvironment();
    const waiting = failure({}, env);
    env.cancel();
    expect(await waiting).toBeInstanceOf(CancelledFailure);
    const third = attempt({ deliveryEventId: 'evt_3' });
    answers[0]?.();
    await first;
    await receiver.untilReceived(2);
    answers[1]?.();
    await third;
  });
});

describe('CustomerSemaphore', () => {
  const signal = new AbortController().signal;
  /** After it, whatever was ready to go on has gone on. */
  const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

  test('lets in as many as its limit, the others in their order', async () => {
    const semaphore = new CustomerSemaphore(2);
    const started: number[] = [];
    const ends: Array<() => void> = [];
    const runs = [0, 1, 2, 3].map((number) =>
      semaphore.run('a', signal, () => {
        started.push(number);
        return new Promise<void>((resolve) => void ends.push(resolve));
      }),
    );
    await turn();
    expect(started).toEqual([0, 1]);
    ends[1]?.();
    await turn();
    expect(started).toEqual([0, 1, 2]);
    ends[0]?.();
    await turn();
    expect(started).toEqual([0, 1, 2, 3]);
    for (const end of ends) end();
    await Promise.all(runs);
  });

  test('gives the place back after a failure too, and forgets customers who have nothing under way', async () => {
    const semaphore = new CustomerSemaphore(1);
    for (let index = 0; index < 100; index += 1) {
      const run = semaphore.run(`customer-${index}`, signal, () => Promise.reject(new Error('failed')));
      await expect(run).rejects.toThrow('failed');
    }
    expect(semaphore.size).toBe(0);
  });

  test('does not let in whose signal was aborted', async () => {
    const semaphore = new CustomerSemaphore(1);
    const run = semaphore.run('a', AbortSignal.abort(new Error('stopped')), () => Promise.resolve('ran'));
    await expect(run).rejects.toThrow('stopped');
    expect(semaphore.size).toBe(0);
  });
});
